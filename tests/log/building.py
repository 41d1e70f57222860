"""Batches and rows in few words, for every test of a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from everyword.events import Chunk, StateSet, TurnKind, encode_event
from everyword.ids import AgentId, Attempt, Epoch, Generation, MessageId, Millis, NodeId, RequestId, Seq, TurnId
from everyword.log.base import UNCHANGED, Activation, Batch, Entry, LogAdmin, LogStore, Stored, Unchanged
from everyword.log.receipt import Receipt
from everyword.rows import AgentRow, MessageRow, Row, TurnRow

A, B, C = AgentId("chat/a"), AgentId("chat/b"), AgentId("chat/c")

FOREVER = Millis(2**50)


class Store(LogStore, LogAdmin, Protocol):
    """Both halves of a store."""


def chunk(turn: int, index: int, text: str = "some words") -> Entry:
    """Make a chunk event as the actor would."""
    body = msgspec.Raw(msgspec.json.encode({"type": "text-delta", "id": "1", "delta": text}))
    return Entry("chunk", TurnId(turn), encode_event(Chunk(TurnId(turn), Attempt(1), index, body)))


def chunks(turn: int, count: int, first: int = 0) -> list[Entry]:
    return [chunk(turn, index) for index in range(first, first + count)]


def fact(kind: str, turn: int | None = None, body: bytes = b"{}") -> Entry:
    return Entry(kind, None if turn is None else TurnId(turn), body)


def state(value: object) -> Entry:
    """Make a `state.set` event as the actor would."""
    return Entry("state.set", None, encode_event(StateSet(msgspec.Raw(msgspec.json.encode(value)))))


def turn_row(turn: int, status: str = "running", **changes: Any) -> TurnRow:
    row = TurnRow(
        turn=TurnId(turn),
        request=RequestId(f"r{turn}"),
        kind=TurnKind.CHAT,
        generation=Generation(0),
        node=NodeId(turn * 2),
        message_id=MessageId(f"m{turn}"),
        status=status,
        accepted=b'{"t":"turn.accepted"}',
        accepted_at=Millis(1),
        attempt=1,
    )
    return msgspec.structs.replace(row, **changes)


def ended_row(turn: int, at: int, status: str = "completed", **changes: Any) -> TurnRow:
    return turn_row(turn, status, ended_at=Millis(at), **changes)


def message_row(node: int, **changes: Any) -> MessageRow:
    row = MessageRow(NodeId(node), None, MessageId(f"m{node}"), "user", b'{"id":"m"}', None, Millis(1))
    return msgspec.structs.replace(row, **changes)


def agent_row(generation: int = 0, leaf: int | None = None, last_turn: int = 0, last_node: int = 0) -> AgentRow:
    return AgentRow(
        Generation(generation), None if leaf is None else NodeId(leaf), TurnId(last_turn), NodeId(last_node)
    )


class Owner:
    """Holds the lease of one agent and appends to its log, as an actor does."""

    def __init__(self, store: LogStore, agent: AgentId, activation: Activation) -> None:
        self.store, self.agent, self.activation = store, agent, activation
        self.epoch, self.head = activation.epoch, activation.head

    @classmethod
    async def take(cls, store: LogStore, agent: AgentId = A) -> Owner:
        return cls(store, agent, await store.activate(agent))

    def batch(
        self,
        *entries: Entry,
        rows: Sequence[Row] = (),
        wake: Millis | Unchanged | None = UNCHANGED,
        at: int = 1,
        first: int | None = None,
        epoch: int | None = None,
    ) -> Batch:
        return Batch(
            agent=self.agent,
            epoch=self.epoch if epoch is None else Epoch(epoch),
            first=Seq(self.head + 1) if first is None else Seq(first),
            at=Millis(at),
            entries=entries,
            rows=rows,
            wake=wake,
        )

    async def append(self, *entries: Entry, **options: Any) -> None:
        """Append at the head; it moves on only if that succeeds."""
        await append_one(self.store, self.batch(*entries, **options))
        self.head = Seq(self.head + len(entries))

    async def answer(self, turn: int, count: int, *, ended_at: int | None = None, **changes: Any) -> None:
        """Append a whole turn of `count` chunks; it stays open unless it is told when it ended."""
        await self.append(fact("turn.accepted", turn), rows=[turn_row(turn, "accepted", attempt=0, **changes)])
        await self.append(fact("attempt.started", turn), rows=[turn_row(turn, **changes)])
        for entry in chunks(turn, count):
            await self.append(entry)
        if ended_at is not None:
            row = ended_row(turn, ended_at, chunks=count, **changes)
            await self.append(fact("message.ended", turn), fact("turn.ended", turn), rows=[row], at=ended_at)


def append_one(store: LogStore, batch: Batch) -> Receipt:
    """Append one batch; await the receipt for its commit."""
    return store.append([batch])[0]


async def append_together(owners: Sequence[Owner], *entries: Entry, **options: Any) -> None:
    """Append the same entries for all owners of one store, in one call of it."""
    receipts = owners[0].store.append([owner.batch(*entries, **options) for owner in owners])
    for owner, receipt in zip(owners, receipts, strict=True):
        await receipt
        owner.head = Seq(owner.head + len(entries))


async def appended(store: LogStore, batch: Batch) -> None:
    """Append when this is started, as everything else does that a store is asked: at once, it would be first."""
    await append_one(store, batch)


async def read_all(store: LogStore, agent: AgentId = A, *, after: int = 0, limit: int = 500) -> list[Stored]:
    """Read page by page, as a subscription does."""
    found: list[Stored] = []
    cursor = Seq(after)
    while page := await store.read(agent, cursor, limit):
        assert len(page) <= limit
        found += page
        cursor = page[-1].seq
    return found


async def drain(store: LogStore, before: int, *, limit: int = 2000) -> int:
    """Prune until there is nothing more to prune; return how many events that were."""
    total = 0
    while True:
        pruned = await store.prune(Millis(before), limit=limit)
        total += pruned.chunks + pruned.states
        if not pruned.more:
            return total
        assert pruned.chunks + pruned.states >= limit, "a step stopped early"


def seqs(events: Sequence[Stored]) -> list[int]:
    return [event.seq for event in events]
