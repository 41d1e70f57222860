"""Erase a principal from a file. `secure_delete` overwrites what is deleted; the write-ahead log is emptied last."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, Final

import msgspec

from ...errors import Fenced, LogUnavailable
from ...ids import AgentId
from ..chunk_packing import chunks_in_row, repack
from ..erasing import ErasureNote, Rewriting
from .queries import Reader
from .reader_pool import ReaderPool
from .retention import REMOVE
from .statements import SQL
from .transaction import Replacement, Transaction
from .writer import Writer

__all__ = ["SqliteErasure"]

SLICE: Final = 20_000
"""Rows of the event table that one read looks through."""

CHECKPOINTS: Final = 20
"""Attempts to empty the write-ahead log; each waits for readers and writers as long as `BUSY_SECONDS`."""


class SqliteErasure:
    """The part of a file's store that erases. `checkpointer` opens a connection for checkpoints."""

    def __init__(self, writer: Writer, readers: ReaderPool, checkpointer: Callable[[], sqlite3.Connection]) -> None:
        self._writer, self._readers, self._checkpointer = writer, readers, checkpointer

    async def mentioning(self, text: str) -> list[AgentId]:
        pattern, found, after = msgspec.json.encode(text), set[AgentId](), 0
        while True:
            rows = await self._rows("mentioning", after, SLICE, pattern)
            found.update(AgentId(agent) for _, agent in rows if agent is not None)
            last = next((last for last, agent in rows if agent is None), None)
            if last is None:
                return sorted(found)
            after = last

    async def rewrite(self, rewriting: Rewriting) -> None:
        await self._writer.submit(_rewrite, rewriting, rewriting.agent)

    async def rename_destroyed(self, agent: AgentId, to: AgentId) -> None:
        await self._writer.submit(Transaction.rename_destroyed, (agent, to), agent)

    async def scrub(self) -> str | None:
        await self._writer.submit(_merge_texts, None, "the index of texts")
        for _ in range(CHECKPOINTS):
            if await asyncio.to_thread(self._empty_wal):
                return None
        return "the write-ahead log is in use; it is emptied when the server stops"

    def _empty_wal(self) -> bool:
        try:
            with closing(self._checkpointer()) as connection:
                (is_busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.Error as exc:
            raise LogUnavailable(f"unable to empty the write-ahead log; {exc}") from exc
        return not is_busy

    async def put_notes(self, notes: Sequence[ErasureNote]) -> None:
        if notes:
            await self._writer.submit(_put_notes, notes, "an erasure")

    async def notes(self) -> list[ErasureNote]:
        return [ErasureNote(*row) for row in await self._rows("erasure_notes")]

    async def _rows(self, name: str, *values: object) -> list[tuple[Any, ...]]:
        def read(reader: Reader) -> list[tuple[Any, ...]]:
            return reader.rows(name, values)

        return await self._readers.run("the erasures", read)


def _merge_texts(transaction: Transaction, _: None) -> None:
    """Merge the index of texts: until then it has the words of texts that were deleted."""
    transaction.write_pending()
    transaction.connection.execute(SQL["merge_texts"])


def _put_notes(transaction: Transaction, notes: Sequence[ErasureNote]) -> None:
    transaction.write_pending()
    values = [(note.erasure, note.key, note.body) for note in notes]
    transaction.connection.executemany(SQL["put_erasure_note"], values)


def _rewrite(transaction: Transaction, rewriting: Rewriting) -> None:
    """Rewrite a log in the open transaction. Raises `Fenced` before anything is written."""
    lease = transaction.lease(rewriting.agent)
    if lease is None or lease.epoch != rewriting.epoch:
        raise Fenced(f"unable to rewrite the log of {rewriting.agent!r}; its lease has another holder")
    transaction.write_pending()
    execute, connection = transaction.connection.execute, transaction.connection
    places = execute(SQL["event_places"], (lease.key, lease.head.id)).fetchall()
    arrivals = {seq: arrival for arrival, seq, *_ in places}
    new = [(body, arrivals[seq]) for seq, body in rewriting.events]
    chunks = dict(rewriting.chunks)
    for arrival, seq, kind, _, more in places:
        if chunks and kind == "chunk" and (changed := chunks_in_row(chunks, seq, more)):
            (body,) = execute(SQL["event_body"], (arrival,)).fetchone()
            new.append((repack(body, more, changed) if more else changed[0], arrival))
    connection.executemany(SQL["rewrite_event"], new)
    turns = set(rewriting.turns)
    answers = [(arrival, 0) for arrival, _, kind, turn, _ in places if kind == "chunk" and turn in turns]
    states = sorted(arrival for arrival, _, kind, *_ in places if kind == "state.set")
    doomed = [*answers, *((arrival, 1) for arrival in states[:-1])]
    if doomed:
        connection.executemany(SQL["doom_event"], doomed)
        execute(SQL["count_states"])
        for name in REMOVE:
            execute(SQL[name])
    transaction.replace(Replacement(rewriting.agent, rewriting.rows, rewriting.wake))
