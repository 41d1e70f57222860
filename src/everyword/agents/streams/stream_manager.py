"""ResumableStreamManager: questions, answers and their streams for a plain Agent, stored in the agent's log.

A stream is a turn of kind `rsm`. A queued job writes its chunks. Its end, its message and its status are one commit.
The agent's state follows the log. If a process dies before it updated the state, the next call updates it.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping
from typing import Any, Final, cast

from ...errors import AgentStopped, LogError, Rejected, UsageError, public_text
from ...events import Outcome
from ...ids import Attempt, JobId, MessageId, Millis, RequestId, TurnId
from ...messages.json_values import plain_json, scrub_text
from ...messages.managed_stream import ManagedStream, encode_chunk_event, fold_managed_stream
from ...messages.message import UIMessage
from ...runtime.agent_runtime import ManagedStreamsAccess
from ...runtime.api import ManagedRecord
from ..agent import Agent
from ..chat import AIChatAgent
from ..jobs import Job
from .stream_manager_types import (
    ChunkWriter,
    GenerateAIResponseOptions,
    ResumableMessage,
    ResumableStreamAgent,
    ResumableStreamChunk,
    ResumableStreamMetadata,
    ResumableStreamState,
    SentMessage,
    StreamHistory,
)

__all__ = ["ChunkWriter", "GenerateAIResponseOptions", "ResumableMessage", "ResumableStreamAgent"]
__all__ += ["ResumableStreamChunk", "ResumableStreamManager", "ResumableStreamMetadata", "ResumableStreamState"]
__all__ += ["SentMessage", "StreamHistory"]

log = logging.getLogger("everyword.agents")

WEEK: Final = 7 * 24 * 60 * 60 * 1000
GENERATE: Final = "_rsm_generate_response"
TABLES: Final = ("messages", "stream_chunks", "stream_metadata")
FAILED: Final = "The answer failed. Please try again."
ABANDONED: Final = "The answer was given up. Please try again."


class ResumableStreamManager:
    """Stores an agent's messages and the streams of their answers, and sends every client the changes.

    Make it in the agent's `__init__`, so that it is there whenever the queue calls. `ctx` is not used; it is accepted
    because the original has it.

    Raises:
        UsageError: the agent has no `generate_ai_response`, or is an AIChatAgent, which has its own streams.
    """

    def __init__(self, agent: Agent, ctx: object = None) -> None:
        checked: object = agent
        if isinstance(checked, AIChatAgent):
            raise UsageError(
                "unable to manage the streams of an AIChatAgent; it does so itself. Subclass Agent instead."
            )
        if not (isinstance(checked, Agent) and isinstance(checked, ResumableStreamAgent)):
            raise UsageError(
                f"unable to manage the streams of {type(checked).__name__}; it must be an Agent with a method "
                "`async def generate_ai_response(self, options) -> str`"
            )
        self._agent: Agent = agent
        agent._add_job_callback(GENERATE, self._called_by_queue)
        self._generate = checked.generate_ai_response

    @property
    def _streams(self) -> ManagedStreamsAccess:
        return self._agent._runtime.storage.streams

    # -- starting -----------------------------------------------------------------------------------------------------

    async def initialize_tables(self) -> None:
        """Check that the tables `messages`, `stream_chunks` and `stream_metadata` can be read with `self.sql`.

        They are views of the log and exist without this call. It finds problems early, and may be called again.
        """
        for table in TABLES:
            await self._agent.sql(f"PRAGMA table_info({table})")

    async def load_and_sync_messages(self) -> None:
        """Copy the messages and the id of the running stream into the agent's state; other keys of the state stay."""
        await self._end_abandoned()
        await self._sync()

    # -- asking -------------------------------------------------------------------------------------------------------

    async def send_message(self, content: str) -> SentMessage:
        """Save a user's message and queue its answer. Return the ids of the message and the stream, without waiting."""
        said: object = content
        if not isinstance(said, str):
            raise UsageError(f"unable to send {type(said).__name__}; a message is text")
        message, stream = f"msg_{_token()}", f"stream_{_token()}"
        saved = self._made(message, "user", content)
        await self._streams.send(saved, RequestId(stream), MessageId(f"msg_{_token()}"), JobId(_token()))
        await self._sync()
        return {"messageId": message, "streamId": stream}

    async def load_messages(self) -> list[ResumableMessage]:
        """Return all messages, in the order in which they were made."""
        return [_message(UIMessage.decode(body)) for body in await self._streams.messages()]

    async def get_stream_history(self, stream_id: str) -> StreamHistory:
        """Return the chunks of a stream in order, and its metadata; `status` is `streaming`, `completed` or `error`.

        An unknown stream has no chunks, and None as metadata. To let clients call this, call it from a
        `@callable_method` of the agent.
        """
        found = await self._streams.find(RequestId(stream_id))
        if found is None:
            return {"chunks": [], "metadata": None}
        stream = fold_managed_stream(await self._streams.pieces(found.turn))
        chunks: list[ResumableStreamChunk] = [
            {
                "id": f"{stream_id}:{chunk.index}",
                "streamId": stream_id,
                "content": chunk.content,
                "index": chunk.index,
                "createdAt": chunk.at,
            }
            for chunk in stream.chunks
        ]
        return {"chunks": chunks, "metadata": _metadata(found, stream)}

    # -- deleting -----------------------------------------------------------------------------------------------------

    async def clear_history(self) -> None:
        """Delete all messages, chunks and metadata, and stop the running answers. The state is not changed."""
        await self._streams.clear()

    async def cleanup_old_streams(self, older_than_ms: int = WEEK) -> int:
        """Delete the chunks of streams that ended at least this long ago, however; return the number of streams.

        Their messages and metadata stay. A running stream is never changed.
        """
        return await self._streams.erase(Millis(self._agent._runtime.jobs.now() - older_than_ms))

    # -- answering ----------------------------------------------------------------------------------------------------

    async def generate_response_callback(self, payload: Mapping[str, Any]) -> None:
        """Answer one message. `payload` has its `userMessageId`, and the `streamId` of the answer.

        Called by the queue, and again after a crash. A stream that has ended is not changed.
        """
        found = await self._streams.find(RequestId(payload["streamId"]))
        if found is None:
            log.info("%r has no stream %r any more; its answer is not needed", self._agent, payload["streamId"])
            return
        await self._try_to_sync()
        if found.outcome is None:
            await self._try_to_fill(found, payload["userMessageId"])
            await self._try_to_sync()

    async def _called_by_queue(self, payload: Mapping[str, Any], queue_item: Job | None = None) -> None:
        await self.generate_response_callback(payload)

    async def _try_to_fill(self, found: ManagedRecord, question: str) -> None:
        try:
            await self._fill(found, question)
        except AgentStopped:
            raise
        except Rejected as exc:  # the history was cleared meanwhile
            log.info("stream %s of %r ended without its answer: %s", found.stream, self._agent, exc)

    async def _fill(self, found: ManagedRecord, question: str) -> None:
        attempt = await self._streams.begin(found.turn)
        if attempt is None:
            log.error("stream %s of %r is given up; it was begun too often", found.stream, self._agent)
            return
        stored = fold_managed_stream(await self._streams.pieces(found.turn))
        writer = _AttemptWriter(self._streams, found.turn, attempt, stored)
        options = GenerateAIResponseOptions(
            messages=_asked(await self.load_messages(), question),
            stream_id=found.stream,
            message_id=found.message_id,
            process_chunk=writer.write,
            attempt=attempt,
            partial=stored.text,
            next_index=stored.chunks[-1].index + 1 if stored.chunks else 0,
        )
        await self._answer(writer, options)

    async def _answer(self, writer: _AttemptWriter, options: GenerateAIResponseOptions) -> None:
        try:
            content: object = await self._generate(options)
            if not isinstance(content, str):
                given = type(content).__name__
                raise UsageError(
                    f"unable to keep the answer; generate_ai_response returned {given}. Return all the text"
                )
        except (asyncio.CancelledError, AgentStopped, LogError):
            raise  # no outcome: the next process that loads the agent continues
        except Exception as exc:
            log.warning("stream %s of %r failed", options.stream_id, self._agent, exc_info=exc)
            await writer.fail(public_text(exc, FAILED), f"{type(exc).__name__}: {exc}")
            return
        await writer.finish(self._made(options.message_id, "assistant", content))

    async def _end_abandoned(self) -> None:
        """End the streams without a job: it was cancelled, or failed too often."""
        streams = await self._streams.open()
        waiting = {job.payload["streamId"] for job in await self._agent.jobs.list(GENERATE, queued=True)}
        for found in streams:
            if found.stream in waiting:
                continue
            writer = _AttemptWriter(
                self._streams, found.turn, found.attempt, fold_managed_stream(await self._streams.pieces(found.turn))
            )
            try:
                await writer.fail(ABANDONED, "no job of the queue fills it")
            except AgentStopped:
                raise
            except Rejected:
                log.debug("stream %s has ended by itself", found.stream)

    # -- the state ----------------------------------------------------------------------------------------------------

    async def _sync(self) -> None:
        """Set the state from the log, and check it again: a concurrent call may have set an older one."""
        await self._agent._runtime.load()
        last: dict[str, Any] | None = None
        while True:
            streams = await self._streams.open()
            active = streams[0].stream if streams else None
            wanted: dict[str, Any] = {"messages": await self.load_messages(), "activeStreamId": active}
            state = plain_json(self._agent.state)
            there = state if isinstance(state, dict) else {}
            if wanted == last or all(key in there and there[key] == value for key, value in wanted.items()):
                return
            await self._agent.set_state({**there, **wanted})
            last = wanted

    async def _try_to_sync(self) -> None:
        """Like `_sync`, for jobs: log an error if the agent refuses the state, instead of answering again."""
        try:
            await self._sync()
        except (AgentStopped, LogError):
            raise
        except Exception:
            log.exception("unable to put the messages into the state of %r", self._agent)

    def _made(self, message: str, role: str, content: str) -> dict[str, Any]:
        created = {"createdAt": self._agent._runtime.jobs.now()}
        parts = [{"type": "text", "text": scrub_text(content)}]
        return {"id": message, "role": role, "parts": parts, "metadata": created}


class _AttemptWriter:
    """Writes one attempt of a stream, over the chunks of earlier attempts."""

    def __init__(self, streams: ManagedStreamsAccess, turn: TurnId, attempt: Attempt, stored: ManagedStream) -> None:
        self._streams, self._turn, self._attempt = streams, turn, attempt
        self._said = {chunk.index: chunk.content for chunk in stored.chunks}
        self._inherited = set(self._said)
        """Indexes of chunks of earlier attempts that this attempt has not reached yet."""
        self._restarts = stored.restarts
        self._next = 0

    async def write(self, content: str, index: int | None = None) -> None:
        """Save a chunk; see `ChunkWriter`."""
        said: object = content
        if not isinstance(said, str):
            raise UsageError(f"unable to save a chunk of type {type(said).__name__}; give text")
        place = self._next if index is None else index
        if place < 0:
            raise UsageError(f"unable to save a chunk at {place!r}; an index is 0 or more")
        bodies = self._pieces(place, scrub_text(content))
        if bodies:
            await self._streams.write(self._turn, self._attempt, bodies)

    def _pieces(self, place: int, content: str) -> list[bytes]:
        self._next = max(self._next, place + 1)
        self._inherited = {index for index in self._inherited if index >= place}  # skipped chunks stay
        bodies: list[bytes] = []
        if place in self._inherited:
            self._inherited.discard(place)
            if self._said[place] == content:
                return []
            bodies = self._cut(place)
        elif place in self._said:
            return []
        self._said[place] = content
        return [*bodies, encode_chunk_event(place, content, self._restarts)]

    def _cut(self, place: int) -> list[bytes]:
        self._restarts += 1
        self._said = {index: said for index, said in self._said.items() if index < place}
        self._inherited = set()  # a cut removes all chunks from its index on
        return [encode_chunk_event(place, None, self._restarts)]

    async def finish(self, message: dict[str, Any]) -> None:
        """Complete the stream; chunks of earlier attempts after this attempt's last chunk are removed."""
        bodies = self._cut(min(self._inherited)) if self._inherited else []
        await self._streams.end(
            self._turn, self._attempt, Outcome.COMPLETED, total=len(self._said), bodies=bodies, message=message
        )

    async def fail(self, error: str, detail: str) -> None:
        """End the stream with an error; its chunks stay."""
        total = len(self._said)
        await self._streams.end(self._turn, self._attempt, Outcome.ERROR, total=total, error=error, detail=detail)


def _token() -> str:
    return secrets.token_urlsafe(12)


def _message(message: UIMessage) -> ResumableMessage:
    created = message.metadata.get("createdAt", 0) if isinstance(message.metadata, dict) else 0
    said = {"id": message.id, "role": message.role, "content": message.text, "createdAt": created}
    return cast(ResumableMessage, said)  # the role is valid: only this class writes messages here


def _asked(messages: list[ResumableMessage], question: str) -> list[ResumableMessage]:
    """Return the conversation that ends with the question, without questions that were asked later."""
    place = next((place for place, message in enumerate(messages) if message["id"] == question), len(messages))
    later = [message for message in messages[place + 1 :] if message["role"] == "assistant"]
    return [*messages[:place], *later, *messages[place : place + 1]]


def _metadata(found: ManagedRecord, stream: ManagedStream) -> ResumableStreamMetadata:
    metadata: ResumableStreamMetadata = {
        "id": found.stream,
        "messageId": found.message_id,
        "status": _status(found),
        "totalChunks": found.total if found.total is not None else len(stream.chunks),
        "createdAt": found.created_at,
    }
    if found.completed_at is not None:
        metadata["completedAt"] = found.completed_at
    if found.error is not None:
        metadata["error"] = found.error
    if stream.restarts:
        metadata["restarts"] = stream.restarts
    return metadata


def _status(found: ManagedRecord) -> Any:
    if found.outcome is None:
        return "streaming"
    return "completed" if found.outcome is Outcome.COMPLETED else "error"
