"""The reference store: everything in plain containers, lost when the process ends.

It is the shortest complete implementation of a store, and every other store is tested against it. Tests that need a
failing or a slow disk subclass it and override `append`, which takes a batch, or `commit`, which makes it durable.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import assert_never

import msgspec

from ..errors import Fenced, LogUnavailable, UsageError
from ..events import TurnKind
from ..ids import AgentId, Epoch, Millis, NodeId, RequestId, Seq, TurnId, children_prefix, root_id
from ..rows import (
    LISTED,
    AgentRow,
    KeptRow,
    MessageRow,
    Row,
    RowsCleared,
    RowsRemoved,
    TurnRow,
    put_listed,
)
from .base import REPLAYED, Activation, Batch, OneBatchAtATime, Pruned, Stored, StoreFiles, Unchanged
from .erasing import ErasureNote, Rewriting, StoreErasure
from .lists import (
    AgentLists,
    ApprovalQuery,
    ConversationQuery,
    ListChange,
    ListedApproval,
    ListedConversation,
    SharedAgent,
    select_approvals,
    select_conversations,
    select_share,
    texts_of,
)
from .nodes import NodeMembership
from .sqlite.agent_databases import MemoryBackend, SqliteAgentDatabases

__all__ = ["MemoryLog"]


class _Rows:
    """The projections of one agent. A change works on a copy, so that a refused batch changes nothing."""

    def __init__(self) -> None:
        self.agent: AgentRow | None = None
        self.turns: dict[TurnId, TurnRow] = {}
        self.requests: dict[RequestId, TurnId] = {}
        self.messages: dict[NodeId, MessageRow] = {}
        self.kept: dict[tuple[str, str], KeptRow] = {}
        self.listed: dict[tuple[str, str], KeptRow] = {}
        """Rows that only lists show."""

    def changed(self, rows: Iterable[Row], agent: AgentId) -> _Rows:
        """Return a copy with `rows` applied; raises `LogUnavailable` if one of them breaks a rule."""
        new = _Rows()
        new.agent, new.turns = self.agent, dict(self.turns)
        new.requests, new.messages, new.kept = dict(self.requests), dict(self.messages), dict(self.kept)
        new.listed = dict(self.listed)
        for row in rows:
            new._put(row, agent)
        return new

    def _put(self, row: Row, agent: AgentId) -> None:
        match row:
            case AgentRow():
                self.agent = row
            case TurnRow():
                self._put_turn(row, agent)
            case MessageRow():
                self.messages[row.node] = row
            case KeptRow():
                if row.kind in LISTED:
                    put_listed(self.listed, row)
                elif row.body is not None:
                    self.kept[row.kind, row.key] = row
                else:
                    self.kept.pop((row.kind, row.key), None)
            case RowsRemoved():
                for node in row.nodes:
                    self.messages.pop(node, None)
            case RowsCleared():
                self.messages.clear()
            case _:
                assert_never(row)

    def _put_turn(self, row: TurnRow, agent: AgentId) -> None:
        old = self.turns.get(row.turn)
        if old is not None and not old.is_open and _ending(old) != _ending(row):
            raise LogUnavailable(f"unable to append to {agent!r}; turn {row.turn} has ended, and ends once (I-1)")
        if self.requests.get(row.request, row.turn) != row.turn:
            raise LogUnavailable(f"unable to append to {agent!r}; request {row.request!r} was accepted before (I-6)")
        if old is not None:
            self.requests.pop(old.request)
        self.turns[row.turn], self.requests[row.request] = row, row.turn


class _Log:
    """The events, lease and wake time of one agent. `arrivals` numbers the events over all agents."""

    def __init__(self) -> None:
        self.epoch = Epoch(0)
        self.head = Seq(0)
        self.events: list[Stored] = []
        self.arrivals: list[int] = []
        self.rows = _Rows()
        self.wake: Millis | None = None
        self.erased: set[TurnId] = set()
        """Streams of kind `rsm` whose chunks were deleted."""


class MemoryLog(OneBatchAtATime):
    """A `LogStore` and `LogAdmin` without a disk.

    It keeps its content when it is closed and opened again, so that a test can end one owner of an agent and start
    another. Batches are not copied, because they are frozen.
    """

    def __init__(self) -> None:
        self._logs: dict[AgentId, _Log] = {}
        self._arrivals = 0
        self._is_open = False
        self.files: StoreFiles | None = None
        self.nodes: NodeMembership | None = None
        self.databases = SqliteAgentDatabases(MemoryBackend(), lambda: _MemoryViewSource(self._logs))
        self.lists: AgentLists | None = _MemoryLists(self._logs)
        self.erasure: StoreErasure | None = _MemoryErasure(self._logs)

    async def open(self) -> None:
        if self._is_open:
            raise UsageError("unable to open the store; it is open. Call `open` once")
        self._is_open = True
        self.databases.reopen()

    async def aclose(self) -> None:
        self._is_open = False
        await self.databases.aclose()

    async def activate(self, agent: AgentId, *, recent: int = 256) -> Activation:
        self._check_open()
        log = self._logs.setdefault(agent, _Log())
        log.epoch = Epoch(log.epoch + 1)
        turns = sorted(log.rows.turns.values(), key=lambda row: row.turn)
        ended = [row.turn for row in turns if not row.is_open]
        left_out = set(ended[: max(len(ended) - recent, 0)])
        open_turns = {row.turn for row in turns if row.is_open}
        return Activation(
            epoch=log.epoch,
            head=log.head,
            agent=log.rows.agent,
            turns=[row for row in turns if row.turn not in left_out],
            messages=_by_node(log.rows),
            chunks=[event for event in log.events if event.kind in REPLAYED and event.turn in open_turns],
            kept=_by_key(log.rows),
            last_at=log.events[-1].at if log.events and log.events[-1].seq == log.head else Millis(0),
        )

    async def append_one(self, batch: Batch) -> None:
        self._check_open()
        # As with a disk, the caller is suspended here, and may be cancelled before anything is written.
        await asyncio.sleep(0)
        self.commit(batch)

    def commit(self, batch: Batch) -> None:
        """Check the batch and apply it as a whole, or raise and change nothing."""
        self._check_open()
        log = self._logs.get(batch.agent)
        if log is None or batch.epoch != log.epoch:
            raise Fenced(f"unable to append to {batch.agent!r}; epoch {batch.epoch} no longer holds its lease")
        if batch.first != log.head + 1:
            raise LogUnavailable(
                f"unable to append to {batch.agent!r}; its log ends at {log.head}, the batch begins at {batch.first}"
            )
        if batch.rows:
            log.rows = log.rows.changed(batch.rows, batch.agent)
        for seq, entry in enumerate(batch.entries, batch.first):
            self._arrivals += 1
            log.events.append(Stored(Seq(seq), batch.at, entry.kind, entry.turn, entry.body))
            log.arrivals.append(self._arrivals)
        log.head = Seq(log.head + len(batch.entries))
        if not isinstance(batch.wake, Unchanged):
            log.wake = batch.wake

    async def destroy(self, agent: AgentId, epoch: Epoch) -> None:
        self._check_open()
        await asyncio.sleep(0)
        self._check_open()
        log = self._logs.get(agent)
        if log is None or epoch != log.epoch:
            raise Fenced(f"unable to destroy {agent!r}; epoch {epoch} no longer holds its lease")
        for each in [each for each in self._logs if each == agent or each.startswith(children_prefix(agent))]:
            fresh = _Log()
            fresh.epoch = Epoch(self._logs.pop(each).epoch + 1)
            self._logs[each] = fresh

    async def read(self, agent: AgentId, after: Seq, limit: int = 500, *, size: int | None = None) -> list[Stored]:
        events = self._log(agent).events
        first = bisect_right(events, after, key=lambda event: event.seq)
        page = events[first : first + limit]
        if size is None:
            return page
        sizes = accumulate(len(event.body) for event in page)
        return page[: max(1, sum(1 for total in sizes if total <= size))]

    async def read_turn(self, agent: AgentId, turn: TurnId) -> list[Stored]:
        return [event for event in self._log(agent).events if event.kind == "chunk" and event.turn == turn]

    async def conversation(self, agent: AgentId) -> tuple[AgentRow | None, list[MessageRow]]:
        rows = self._log(agent).rows
        return rows.agent, _by_node(rows)

    async def kept(self, agent: AgentId) -> list[KeptRow]:
        self._check_open()
        log = self._logs.get(agent)
        return [] if log is None else _by_key(log.rows)

    async def has(self, agent: AgentId) -> bool:
        return bool(self._log(agent).head)

    async def agents(self, prefix: str = "") -> list[AgentId]:
        self._check_open()
        return [agent for agent, log in self._logs.items() if log.head and agent.startswith(prefix)]

    async def agents_named(self, prefix: str, *, after: str = "", limit: int = 500) -> list[AgentId]:
        return sorted(each for each in await self.agents(prefix) if each > after)[:limit]

    async def find_turn(self, agent: AgentId, request: RequestId) -> TurnRow | None:
        rows = self._log(agent).rows
        turn = rows.requests.get(request)
        return None if turn is None else rows.turns[turn]

    async def due(self, until: Millis, limit: int = 1000) -> list[tuple[AgentId, Millis]]:
        waiting = [(agent, at) for agent, at in self._wakes() if at <= until]
        return sorted(waiting, key=lambda pair: pair[1])[:limit]

    async def next_wake(self) -> Millis | None:
        return min((at for _, at in self._wakes()), default=None)

    async def prune(self, before: Millis, *, limit: int = 2000) -> Pruned:
        self._check_open()
        found = sorted(arrival for log in self._logs.values() for arrival in _prunable(log, before))
        doomed = set(found[:limit])
        states = 0
        for log in self._logs.values():
            pairs = list(zip(log.events, log.arrivals, strict=True))
            states += sum(event.kind == "state.set" for event, arrival in pairs if arrival in doomed)
            log.events = [event for event, arrival in pairs if arrival not in doomed]
            log.arrivals = [arrival for _, arrival in pairs if arrival not in doomed]
        return Pruned(len(doomed) - states, more=len(found) > len(doomed), states=states)

    async def erase_streams(self, agent: AgentId, until: Millis, *, limit: int = 20) -> int:
        log = self._log(agent)
        ended = [
            row.turn
            for row in sorted(log.rows.turns.values(), key=lambda row: row.turn)
            if row.kind is TurnKind.RSM and row.ended_at is not None and row.ended_at <= until
        ]
        doomed = [turn for turn in ended if turn not in log.erased][:limit]
        log.erased.update(doomed)
        kept = [place for place, event in enumerate(log.events) if event.kind != "chunk" or event.turn not in doomed]
        log.events, log.arrivals = [log.events[place] for place in kept], [log.arrivals[place] for place in kept]
        return len(doomed)

    async def replace_rows(self, agent: AgentId, rows: Iterable[Row], wake: Millis | None) -> None:
        self._check_open()
        log = self._logs.get(agent)
        if log is None:
            raise UsageError(f"unable to replace the rows of {agent!r}; it has no log")
        log.rows, log.wake = _Rows().changed(rows, agent), wake

    async def turns(self, agent: AgentId, *, newest: int | None = None) -> list[TurnRow]:
        rows = sorted(self._log(agent).rows.turns.values(), key=lambda row: row.turn)
        return rows if newest is None else rows[max(len(rows) - newest, 0) :]

    def _check_open(self) -> None:
        if not self._is_open:
            raise LogUnavailable("unable to use the store; it is not open")

    def _log(self, agent: AgentId) -> _Log:
        """Return the agent's log to read from; an empty one for an agent that was never activated."""
        self._check_open()
        return self._logs.get(agent) or _Log()

    def _wakes(self) -> list[tuple[AgentId, Millis]]:
        self._check_open()
        return [(agent, log.wake) for agent, log in self._logs.items() if log.wake is not None]


class _MemoryLists:
    """Lists all agents by looking at every row."""

    def __init__(self, logs: dict[AgentId, _Log]) -> None:
        self._logs = logs

    async def conversations(self, query: ConversationQuery) -> list[ListedConversation]:
        return select_conversations(self._rows(), query)

    async def find_conversation(self, agent: AgentId) -> ListedConversation | None:
        found = [(each, row) for each, row in self._rows() if root_id(each) == agent]
        return next(iter(select_conversations(found, ConversationQuery())), None)

    async def approvals(self, query: ApprovalQuery) -> list[ListedApproval]:
        return select_approvals(self._rows(), query)

    async def find_share(self, digest: str) -> SharedAgent | None:
        return select_share(self._rows(), digest)

    async def changed_since(self, at: Millis) -> tuple[Millis, list[ListChange]]:
        return at, []

    async def texts(self, agent: AgentId) -> list[KeptRow]:
        return texts_of([row for each, row in self._rows() if each == agent])

    def _rows(self) -> list[tuple[AgentId, KeptRow]]:
        return [
            (agent, row)
            for agent, log in self._logs.items()
            for row in (*log.rows.kept.values(), *log.rows.listed.values())
        ]


class _MemoryErasure:
    """Rewrites the containers."""

    def __init__(self, logs: dict[AgentId, _Log]) -> None:
        self._logs = logs
        self._notes: dict[tuple[str, str], ErasureNote] = {}

    async def mentioning(self, text: str) -> list[AgentId]:
        pattern = msgspec.json.encode(text)
        return sorted(
            agent
            for agent, log in self._logs.items()
            if any(pattern in event.body for event in log.events if event.kind != "chunk")
        )

    async def rewrite(self, rewriting: Rewriting) -> None:
        await asyncio.sleep(0)
        log = self._logs.get(rewriting.agent)
        if log is None or log.epoch != rewriting.epoch:
            raise Fenced(f"unable to rewrite the log of {rewriting.agent!r}; its lease has another holder")
        new, turns = dict([*rewriting.events, *rewriting.chunks]), set(rewriting.turns)
        states = [event.seq for event in log.events if event.kind == "state.set"]
        gone = {event.seq for event in log.events if event.kind == "chunk" and event.turn in turns} | set(states[:-1])
        pairs = list(zip(log.events, log.arrivals, strict=True))
        log.events = [
            msgspec.structs.replace(event, body=new.get(event.seq, event.body))
            for event, _ in pairs
            if event.seq not in gone
        ]
        log.arrivals = [arrival for event, arrival in pairs if event.seq not in gone]
        log.rows, log.wake = _Rows().changed(rewriting.rows, rewriting.agent), rewriting.wake

    async def rename_destroyed(self, agent: AgentId, to: AgentId) -> None:
        gone = [each for each, log in self._logs.items() if not log.head]
        for number, each in enumerate(gone):
            if each == agent or each.startswith(children_prefix(agent)):
                self._logs[AgentId(f"{to}/{number}")] = self._logs.pop(each)

    async def scrub(self) -> str | None:
        return None

    async def put_notes(self, notes: Sequence[ErasureNote]) -> None:
        self._notes.update({(note.erasure, note.key): note for note in notes})

    async def notes(self) -> list[ErasureNote]:
        return [self._notes[key] for key in sorted(self._notes)]


class _MemoryViewSource:
    """Reads the containers from another thread. Each read is one step of the interpreter, so it needs no lock."""

    def __init__(self, logs: dict[AgentId, _Log]) -> None:
        self._logs = logs

    def version(self, agent: AgentId) -> object:
        log = self._log(agent)
        return log.epoch, log.head, len(log.events)

    def agent_row(self, agent: AgentId) -> AgentRow | None:
        return self._log(agent).rows.agent

    def messages(self, agent: AgentId) -> list[MessageRow]:
        return _by_node(self._log(agent).rows)

    def turns(self, agent: AgentId, newest: int | None) -> list[TurnRow]:
        rows = sorted(self._log(agent).rows.turns.values(), key=lambda row: row.turn)
        return rows if newest is None else rows[max(len(rows) - newest, 0) :]

    def read_turn(self, agent: AgentId, turn: TurnId) -> list[Stored]:
        return [event for event in list(self._log(agent).events) if event.kind == "chunk" and event.turn == turn]

    def _log(self, agent: AgentId) -> _Log:
        return self._logs.get(agent) or _Log()


def _ending(row: TurnRow) -> tuple[str, str | None, str | None, Millis | None]:
    """Return the fields that never change after a turn has ended."""
    return row.status, row.reason, row.error, row.ended_at


def _by_key(rows: _Rows) -> list[KeptRow]:
    return [rows.kept[key] for key in sorted(rows.kept)]


def _by_node(rows: _Rows) -> list[MessageRow]:
    return sorted(rows.messages.values(), key=lambda row: row.node)


def _prunable(log: _Log, before: Millis) -> list[int]:
    """Return the arrivals of the events that retention may delete.

    These are the chunks of turns that ended before `before`, except kind `rsm`, and all old states but the newest.
    """
    ended = {
        row.turn
        for row in log.rows.turns.values()
        if row.ended_at is not None and row.ended_at < before and row.kind is not TurnKind.RSM
    }
    pairs = list(zip(log.events, log.arrivals, strict=True))
    chunks = [arrival for event, arrival in pairs if event.kind == "chunk" and event.turn in ended]
    states = [arrival for event, arrival in pairs if event.kind == "state.set" and event.at < before]
    return chunks + states[:-1]
