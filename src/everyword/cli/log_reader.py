"""What commands ask of a store that they only read: the same questions for every kind of store."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ..ids import AgentId, Millis, RequestId, Seq, TurnId
from ..log.base import Activation, Stored
from ..rows import AgentRow, KeptRow, MessageRow, TurnRow

__all__ = ["AgentRecord", "AgentSummary", "LogReader", "Prunable"]


class AgentSummary(NamedTuple):
    """One row of `everyword ls`. `last_*` is the newest ended turn that counts, `open_*` the open turn."""

    id: AgentId
    epoch: int
    wake: int | None
    turns: int
    last_message: bytes | None
    last_turn: int | None
    last_status: str | None
    last_error: str | None
    last_ended_at: int | None
    open_turn: int | None
    open_status: str | None
    open_attempt: int | None
    open_accepted_at: int | None
    open_kind: str | None
    active_at: int | None
    """Time of the newest event."""
    head: Seq


class AgentRecord(NamedTuple):
    """What the log does not contain: the agent's epoch, its wake-up time, the number of states deleted by retention."""

    epoch: int
    wake: int | None
    states_gone: int


class Prunable(NamedTuple):
    """What retention would delete: the number of chunks and of superseded states, and the bytes of both."""

    chunks: int
    states: int
    bytes: int


class LogReader(Protocol):
    """The reading methods of `LogStore` and `LogAdmin`, and what commands ask besides. Takes no lease, writes nothing.

    The methods that a store has, too, are described there.
    """

    noun: str
    """What the store is, for sentences: file or database."""
    poll_seconds: float
    """Time between two looks of a command that follows the log."""

    async def is_served(self) -> bool:
        """Return True while a server runs the agents of the store."""
        ...

    async def read(self, agent: AgentId, after: Seq, limit: int = 500, *, size: int | None = None) -> list[Stored]: ...

    async def read_turn(self, agent: AgentId, turn: TurnId) -> list[Stored]: ...

    async def conversation(self, agent: AgentId) -> tuple[AgentRow | None, list[MessageRow]]: ...

    async def kept(self, agent: AgentId) -> list[KeptRow]: ...

    async def agent_row(self, agent: AgentId) -> AgentRow | None:
        """Return the agent's own row, even if its other rows are damaged."""
        ...

    async def find_turn(self, agent: AgentId, request: RequestId) -> TurnRow | None: ...

    async def agents(self, prefix: str = "") -> list[AgentId]: ...

    async def turns(self, agent: AgentId, *, newest: int | None = None) -> list[TurnRow]: ...

    async def load(self, agent: AgentId, *, recent: int = 256) -> Activation:
        """Return what activating the agent would return, consistently, without taking the lease."""
        ...

    async def head(self, agent: AgentId) -> Seq:
        """Return the last seq of the agent's log, 0 without one."""
        ...

    async def database(self, agent: AgentId) -> bytes | None:
        """Return the agent's own SQL database as the content of a SQLite file; None if it has none."""
        ...

    async def summaries(self) -> list[AgentSummary]:
        """Return every agent that has a log, in order of creation."""
        ...

    async def agent_record(self, agent: AgentId) -> AgentRecord:
        """Return what the agent's log does not contain."""
        ...

    async def stored_counts(self) -> dict[str | None, tuple[int, int]]:
        """Return the number of events of each agent, and its last seq; None stands for events without an agent."""
        ...

    async def prunable(self, before: Millis) -> Prunable:
        """Return what retention would delete now."""
        ...

    async def sizes(self) -> tuple[int, int]:
        """Return the size of the stored data and its unused part, in bytes."""
        ...

    async def damage(self) -> list[str]:
        """Return the problems of the store itself, a sentence each."""
        ...
