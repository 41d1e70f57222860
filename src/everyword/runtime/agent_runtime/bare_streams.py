"""Bare streams: turns that a caller drives by hand, through the same mailbox as everything else."""

from __future__ import annotations

import sys

import msgspec

from ...core.commands import BeginAttempt, EmitChunks, Emitted, FinishTurn, OpenStream
from ...core.replay import BEFORE_ALL
from ...core.state import State
from ...core.transitions import TurnStatus
from ...core.turn_state import TurnState
from ...errors import UnknownTurn
from ...events import Outcome, TurnKind
from ...ids import AgentId, Attempt, MessageId, Millis, RequestId, TurnId
from ...rows import TurnRow
from ..api import StreamRecord
from ..directory import Directory
from ..replay_reader import read_numbered

__all__ = ["BareStreams", "chunk_text"]


class BareStreams:
    """Streams of opaque chunks of one agent, each under a request id."""

    def __init__(self, directory: Directory, agent: AgentId) -> None:
        self._directory, self._agent = directory, agent

    async def _id(self) -> AgentId:
        return await self._directory.stored_ids.find(self._agent)

    async def start(self, request: RequestId) -> TurnId:
        """Open a stream, or return the one that this request id already has."""
        known = await self._directory.store.find_turn(await self._id(), request)
        if known is not None and not known.is_open:
            return known.turn
        async with self._directory.attach(self._agent) as loaded:
            await loaded.actor.ask(OpenStream(request, MessageId(""), TurnKind.STREAM))
            turn = await loaded.actor.inspect(lambda state: state.requests[request])
            if await loaded.actor.inspect(lambda state: _waits(state, turn)):
                await loaded.actor.insist(BeginAttempt(turn))
            return turn

    async def write(self, turn: TurnId, body: str) -> None:
        """Commit a chunk.

        Raises:
            Rejected: the stream is unknown or has ended.
        """
        async with self._directory.attach(self._agent) as loaded:
            await loaded.actor.ask(EmitChunks(turn, Attempt(1), [Emitted(msgspec.json.encode(body))]))

    async def end(self, turn: TurnId, outcome: Outcome, error: str | None = None) -> None:
        """End a stream; a second end is refused."""
        async with self._directory.attach(self._agent) as loaded:
            if not await loaded.actor.inspect(lambda state: turn in state.open):
                raise UnknownTurn(f"unable to end stream {turn}; it is unknown or has ended")
            await loaded.actor.insist(FinishTurn(turn, Attempt(1), outcome, error=error))

    async def find(self, request: RequestId) -> StreamRecord | None:
        """Return the stream of a request id, from the store."""
        row = await self._directory.store.find_turn(await self._id(), request)
        return _of_row(row) if row is not None else None

    async def active(self) -> StreamRecord | None:
        """Return the newest stream that has not ended."""
        async with self._directory.attach(self._agent) as loaded:
            return await loaded.actor.inspect(_newest_open)

    async def cleanup(self) -> int:
        """Run retention now instead of soon; return how many chunks of ended turns it deleted, of all agents."""
        directory, gone, more = self._directory, 0, True
        while more:
            pruned = await directory.store.prune(Millis(directory.clock.now() - directory.settings.retention))
            gone, more = gone + pruned.chunks, pruned.more
        return gone

    async def chunks(self, turn: TurnId) -> list[tuple[int, str]]:
        """Return the stored chunks with their indexes, in order."""
        stored = await read_numbered(self._directory.store, await self._id(), turn, BEFORE_ALL, sys.maxsize)
        return [(chunk.index, chunk_text(bytes(chunk.body))) for chunk in stored]


def chunk_text(body: bytes) -> str:
    """Return a chunk's body as its writer knew it: opaque text is stored as a JSON string, chunks as objects."""
    if body.startswith(b'"'):
        return msgspec.json.decode(body, type=str)
    return body.decode()


def _waits(state: State, turn: TurnId) -> bool:
    found = state.open.get(turn)
    return found is not None and found.status is TurnStatus.ACCEPTED


def _newest_open(state: State) -> StreamRecord | None:
    newest = max((t for t in state.open.values() if t.accepted.kind.is_bare), key=_order, default=None)
    if newest is None:
        return None
    return StreamRecord(newest.id, newest.request, newest.accepted_at, None, None, None)


def _order(turn: TurnState) -> int:
    return turn.id


def _of_row(row: TurnRow) -> StreamRecord:
    outcome = Outcome(row.status) if row.ended_at is not None else None
    ended: Millis | None = row.ended_at
    return StreamRecord(row.turn, row.request, row.accepted_at, ended, outcome, row.error)
