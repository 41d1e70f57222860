"""What the views in the agents' own databases read: one connection to the log, for threads that may block."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from ...errors import LogUnavailable
from ...ids import AgentId, TurnId
from ...rows import AgentRow, MessageRow, TurnRow
from ..base import Stored
from .leases import Head
from .queries import Reader

__all__ = ["FileViewSource"]


class FileViewSource:
    """A `ViewSource` over the log's file, opened at first use."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], heads: Mapping[int, Head]) -> None:
        self._connect, self._heads = connect, heads
        self._lock = threading.Lock()
        self._opened: tuple[sqlite3.Connection, Reader] | None = None

    def version(self, agent: AgentId) -> object:
        with self._reading() as (connection, reader):
            # Both are needed: pruning moves no head, and the writer publishes a head only after its commit.
            (version,) = connection.execute("PRAGMA data_version").fetchone()
            return version, reader.head(agent)

    def agent_row(self, agent: AgentId) -> AgentRow | None:
        with self._reading() as (_, reader):
            return reader.agent_row(agent)

    def messages(self, agent: AgentId) -> list[MessageRow]:
        with self._reading() as (_, reader):
            return reader.messages(agent)

    def turns(self, agent: AgentId, newest: int | None) -> list[TurnRow]:
        with self._reading() as (_, reader):
            return reader.turns(agent, newest)

    def read_turn(self, agent: AgentId, turn: TurnId) -> list[Stored]:
        with self._reading() as (_, reader):
            return reader.read_turn(agent, turn)

    def close(self) -> None:
        with self._lock:
            opened, self._opened = self._opened, None
            if opened is not None:
                opened[0].close()

    @contextmanager
    def _reading(self) -> Iterator[tuple[sqlite3.Connection, Reader]]:
        with self._lock:
            try:
                if self._opened is None:
                    connection = self._connect()
                    self._opened = connection, Reader(connection, self._heads)
                yield self._opened
            except sqlite3.Error as exc:
                raise LogUnavailable(f"unable to read the log for a view; {exc}") from exc
