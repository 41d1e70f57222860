"""The tables of the schema, as containers; the columns are those of `log/postgres/sql/migrations`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ...rows import KeptRow

__all__ = ["TURN", "AgentRecord", "EventRecord", "FenceRecord", "NodeRecord", "Row", "Tables", "TurnRecord", "rows"]

TURN: Final = (
    *("agent", "turn", "request", "kind", "generation", "node", "message_id", "status", "accepted", "accepted_at"),
    *("attempt", "chunks", "reason", "error", "detail", "finish_reason", "usage", "ended_at", "hook_due"),
    *("part", "first_seq"),
)
"""The columns of a turn, as they are sent and received."""


class Row(tuple[Any, ...]):
    """A row of a result: its values in order, or by the names of the columns."""

    names: Sequence[str]

    def __new__(cls, names: Sequence[str], values: Sequence[Any]) -> Row:
        row = super().__new__(cls, values)
        row.names = names
        return row

    def __getitem__(self, place: Any) -> Any:
        return super().__getitem__(self.names.index(place) if isinstance(place, str) else place)


def rows(names: str, values: Sequence[Sequence[Any]]) -> list[Row]:
    """Return rows with these columns."""
    columns = names.split()
    return [Row(columns, each) for each in values]


@dataclass(slots=True)
class NodeRecord:
    id: int
    name: str
    url: str
    version: int
    since: int
    until: float
    state: str = "up"
    locked: asyncio.Event | None = None
    """Held while another node declares this one gone; set when that is done."""

    async def unlocked(self) -> None:
        while (locked := self.locked) is not None:
            await locked.wait()


@dataclass(slots=True)
class FenceRecord:
    generation: int = 0
    backend: int = 0
    is_gone: bool = False
    writers: set[int] = field(default_factory=set)
    """The backends whose transactions hold the row's lock, shared."""
    freed: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class AgentRecord:
    key: int
    id: str
    root: int
    epoch: int
    node: int | None = None
    term: int = 0
    head: int = 0
    row: tuple[Any, ...] = (None, None, None, None)
    """generation, leaf, last_turn, last_node"""


@dataclass(slots=True)
class EventRecord:
    seq: int
    part: int
    epoch: int
    at: int
    kind: str
    turn: int | None
    more: int
    body: bytes

    @property
    def sent(self) -> tuple[Any, ...]:
        return self.seq, self.at, self.kind, self.turn, self.more, self.body


@dataclass(slots=True)
class TurnRecord:
    values: tuple[Any, ...]
    """The columns of `TURN`."""
    is_pruned: bool = False

    def __getattr__(self, name: str) -> Any:
        return self.values[TURN.index(name)]


class Tables:
    """All tables of one schema."""

    def __init__(self) -> None:
        self.nodes: dict[int, NodeRecord] = {}
        self.fences: dict[int, FenceRecord] = {}
        self.agents: dict[int, AgentRecord] = {}
        self.keys: dict[str, int] = {}
        """Keys of agents by their ids."""
        self.events: dict[int, dict[int, EventRecord]] = {}
        """Events by agent and seq, in order of their seqs."""
        self.turns: dict[int, dict[int, TurnRecord]] = {}
        self.requests: dict[tuple[int, str], int] = {}
        self.messages: dict[int, dict[int, tuple[Any, ...]]] = {}
        self.kept: dict[int, dict[tuple[str, str], bytes]] = {}
        self.listed: dict[int, dict[tuple[str, str], KeptRow]] = {}
        """Rows that only lists show."""
        self.wakes: dict[int, int] = {}
        self.replaced: dict[tuple[int, int], int] = {}
        self.days: set[int] = set()
        self._last_key = 0

    def new_key(self) -> int:
        self._last_key += 1
        return self._last_key

    def put_agent(self, agent: AgentRecord) -> AgentRecord:
        self.agents[agent.key], self.keys[agent.id] = agent, agent.key
        return agent

    def agent(self, id: str) -> AgentRecord | None:
        key = self.keys.get(id)
        return None if key is None else self.agents[key]

    def is_live(self, node: int | None) -> bool:
        found = self.nodes.get(node) if node is not None else None
        return found is not None and found.state != "gone"

    def events_of(self, agent: int) -> list[EventRecord]:
        return list(self.events.get(agent, {}).values())

    def turns_of(self, agent: int) -> list[TurnRecord]:
        found = self.turns.get(agent, {})
        return [found[turn] for turn in sorted(found)]

    def family(self, root: int) -> list[AgentRecord]:
        return [agent for agent in self.agents.values() if agent.root == root]

    def erase(self, agent: int) -> None:
        """Delete everything of an agent but its row."""
        for table in (self.events, self.turns, self.messages, self.kept, self.listed, self.wakes):
            table.pop(agent, None)
        self.requests = {key: turn for key, turn in self.requests.items() if key[0] != agent}
        self.replaced = {key: at for key, at in self.replaced.items() if key[0] != agent}
