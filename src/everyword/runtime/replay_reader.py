"""Reading a turn for a client that did not see it: from the committed state, and older turns from the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Protocol, TypeVar

import msgspec

from ..core.replay import BEFORE_ALL, TurnReplay, call_inputs, numbered_chunks, replay_row, replay_turn
from ..core.state import State
from ..events import Chunk, Event, decode_event
from ..ids import AgentId, Generation, RequestId, Seq, TurnId
from ..log.base import LogStore

__all__ = ["ReplaySource", "by_number", "read_numbered", "read_replay"]

T = TypeVar("T")


class _Tail(Protocol):
    @property
    def head(self) -> Seq: ...


class _Actor(Protocol):
    @property
    def agent(self) -> AgentId: ...

    @property
    def tail(self) -> _Tail: ...

    async def inspect(self, ask: Callable[[State], T]) -> T: ...


class ReplaySource(Protocol):
    """What is read: a loaded agent, or a log that is played again."""

    @property
    def actor(self) -> _Actor: ...

    @property
    def store(self) -> LogStore: ...


async def read_replay(source: ReplaySource, request: RequestId) -> TurnReplay:
    """Return a turn as it is committed, in few chunks."""

    def look(state: State) -> TurnReplay | Generation:
        turn = state.by_request(request)
        return replay_turn(state, turn, source.actor.tail.head) if turn is not None else state.generation

    found = await source.actor.inspect(look)
    if isinstance(found, TurnReplay):
        return found
    row = await source.store.find_turn(source.actor.agent, request)
    if row is None or row.generation != found:
        return TurnReplay(source.actor.tail.head, request, is_known=False)
    if row.is_open:
        return await read_replay(source, request)  # accepted while the store was asked: now the state knows it
    return await source.actor.inspect(lambda state: replay_row(state, row, source.actor.tail.head))


async def by_number(source: ReplaySource, replay: TurnReplay) -> TurnReplay:
    """Return a continuation chunk by chunk: clients drop by number what they have already (R-13)."""
    if not replay.count:
        return replace(replay, chunks=())
    stored = await read_numbered(source.store, source.actor.agent, replay.turn, BEFORE_ALL, replay.count)
    chunks = [(chunk.index, bytes(chunk.body)) for chunk in stored]
    return replace(replay, chunks=[*call_inputs(replay.message, chunks, replay.denied), *chunks])


async def read_numbered(store: LogStore, agent: AgentId, turn: TurnId, after: int, count: int) -> list[Chunk]:
    """Return a turn's chunks behind `after` as they are stored; fewer if some are pruned, or cannot be read."""
    return numbered_chunks(_decoded(stored.body for stored in await store.read_turn(agent, turn)), after, count)


def _decoded(bodies: Iterable[bytes]) -> Iterator[Event]:
    for body in bodies:
        with suppress(msgspec.DecodeError):
            yield decode_event(body)
