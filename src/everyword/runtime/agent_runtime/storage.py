"""What an agent stores besides its conversation: its own database, and streams that it manages."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Final

import msgspec

from ...core.commands import AddJob, BeginAttempt, ClearConversation, EmitChunks, Emitted, FinishTurn, OpenStream
from ...core.state import State
from ...core.turn_state import TurnState
from ...errors import UsageError
from ...events import AttemptStarted, Chunk, Outcome, TurnKind, decode_event, to_raw
from ...ids import AgentId, Attempt, JobId, MessageId, Millis, RequestId, TurnId
from ...log.base import SqlResult
from ...principals import acting_for
from ...rows import TurnRow
from ..api.storage import ManagedRecord
from ..attachments import storing
from ..directory import Directory

__all__ = ["GENERATE", "ManagedStreamsAccess", "StorageAccess"]

GENERATE: Final = "_rsm_generate_response"
"""The method that the queue calls to fill a stream."""

MOST_RUNS: Final = 50
"""How often the job that fills a stream may begin. The attempts at the stream end long before: then it has an end."""


class StorageAccess:
    """What one agent stores besides its conversation."""

    def __init__(self, directory: Directory, agent: AgentId) -> None:
        self._directory, self._agent = directory, agent

    def sql(self, query: str, params: Sequence[Any]) -> Future[SqlResult]:
        """Queue a statement on the agent's own database.

        Raises:
            UsageError: this store keeps no databases.
        """
        databases = self._directory.store.databases
        if databases is None:
            store = type(self._directory.store).__name__
            raise UsageError(f"unable to run SQL; {store} keeps no databases of agents. Use a file, or `memory:`")
        return databases.submit(self._directory.stored_ids.settled(self._agent), query, params)

    @property
    def streams(self) -> ManagedStreamsAccess:
        return ManagedStreamsAccess(self._directory, self._agent)


class ManagedStreamsAccess:
    """The streams of one agent's ResumableStreamManager, and the messages that they belong to."""

    def __init__(self, directory: Directory, agent: AgentId) -> None:
        self._directory, self._agent = directory, agent

    async def _id(self) -> AgentId:
        return await self._directory.stored_ids.find(self._agent)

    async def send(self, message: dict[str, Any], stream: RequestId, answer: MessageId, job: JobId) -> None:
        """Store a message, open the stream of its answer and queue the job that fills it: all of it, or nothing."""
        payload = to_raw({"userMessageId": message["id"], "streamId": stream})
        async with self._directory.attach(self._agent) as loaded:
            who = acting_for()
            filling = AddJob(job, "queue", GENERATE, Millis(0), payload, max_attempts=MOST_RUNS, principal=who)
            async with storing(self._directory.attachments, loaded.actor.agent, [message], sender=who) as moved:
                await loaded.actor.insist(OpenStream(stream, answer, question=moved[0], job=filling, principal=who))

    async def begin(self, turn: TurnId) -> Attempt | None:
        """Begin the next attempt at a stream; None when it was tried too often, and has ended in error."""
        async with self._directory.attach(self._agent) as loaded:
            events = await loaded.actor.insist(BeginAttempt(turn, cause="crash"))
            return next((event.attempt for event in events if isinstance(event, AttemptStarted)), None)

    async def write(self, turn: TurnId, attempt: Attempt, bodies: Sequence[bytes]) -> None:
        """Commit pieces of a stream.

        Raises:
            Rejected: the stream has ended, or another attempt runs.
        """
        async with self._directory.attach(self._agent) as loaded:
            await loaded.actor.insist(EmitChunks(turn, attempt, [Emitted(body) for body in bodies]))

    async def end(
        self,
        turn: TurnId,
        attempt: Attempt,
        outcome: Outcome,
        *,
        total: int,
        bodies: Sequence[bytes] = (),
        message: dict[str, Any] | None = None,
        error: str | None = None,
        detail: str | None = None,
    ) -> None:
        """Commit the last pieces, the whole message and how the stream ended, at once.

        Raises:
            Rejected: the stream has ended, or another attempt runs.
        """
        usage = to_raw({"totalChunks": total})
        last = [Emitted(body) for body in bodies]
        end = FinishTurn(turn, attempt, outcome, error=error, detail=detail, usage=usage, message=message, chunks=last)
        async with self._directory.attach(self._agent) as loaded:
            await loaded.actor.insist(end)

    async def find(self, stream: RequestId) -> ManagedRecord | None:
        """Return a stream of the conversation as it stands; None for one that is unknown or was cleared."""
        async with self._directory.attach(self._agent) as loaded:
            generation = await loaded.actor.inspect(lambda state: state.generation)
        row = await self._directory.store.find_turn(await self._id(), stream)
        if row is None or row.kind is not TurnKind.RSM or row.generation != generation:
            return None
        return _record_of_row(row)

    async def open(self) -> list[ManagedRecord]:
        """Return the streams that have not ended, oldest first."""
        async with self._directory.attach(self._agent) as loaded:
            return await loaded.actor.inspect(_open_streams)

    async def pieces(self, turn: TurnId) -> list[tuple[Millis, bytes]]:
        """Return what is stored of a stream, in order, with the times."""
        stored = await self._directory.store.read_turn(await self._id(), turn)
        events = [(each.at, decode_event(each.body)) for each in stored]
        return [(at, bytes(event.body)) for at, event in events if isinstance(event, Chunk)]

    async def messages(self) -> list[bytes]:
        """Return the messages as they are stored, oldest first."""
        async with self._directory.attach(self._agent) as loaded:
            return await loaded.actor.inspect(_messages)

    async def clear(self) -> None:
        """Clear the conversation: end open streams, cancel the jobs that fill them, and delete what they stored."""
        async with self._directory.attach(self._agent) as loaded:
            await loaded.actor.insist(ClearConversation(cancels=GENERATE))
        await self.erase(self._directory.clock.now())

    async def erase(self, until: Millis) -> int:
        """Delete the chunks of streams that ended at or before a time; return how many streams there were."""
        erased = 0
        while count := await self._directory.store.erase_streams(await self._id(), until):
            erased += count
        return erased


def _messages(state: State) -> list[bytes]:
    return [place.shown for _, place in state.tree.shown_path() if place.shown is not None]


def _open_streams(state: State) -> list[ManagedRecord]:
    turns = [turn for turn in state.open.values() if turn.accepted.kind is TurnKind.RSM]
    return [_record(turn) for turn in sorted(turns, key=lambda turn: turn.id)]


def _record(turn: TurnState) -> ManagedRecord:
    return ManagedRecord(turn.id, turn.request, turn.accepted.message_id, Attempt(turn.attempt), turn.accepted_at)


def _record_of_row(row: TurnRow) -> ManagedRecord:
    outcome = Outcome(row.status) if row.ended_at is not None else None
    usage = msgspec.json.decode(row.usage) if row.usage is not None else None
    total = usage.get("totalChunks") if isinstance(usage, dict) else None
    if total is None and outcome is not None:
        total = row.chunks
    return ManagedRecord(
        row.turn,
        row.request,
        row.message_id,
        Attempt(row.attempt),
        row.accepted_at,
        row.ended_at,
        outcome,
        row.error,
        total,
    )
