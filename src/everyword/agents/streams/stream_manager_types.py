"""Types of the ResumableStreamManager. The keys of dicts are those that clients use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NotRequired, Protocol, TypedDict, runtime_checkable

__all__ = ["ChunkWriter", "GenerateAIResponseOptions", "ResumableMessage", "ResumableStreamAgent"]
__all__ += ["ResumableStreamChunk", "ResumableStreamMetadata", "ResumableStreamState", "SentMessage", "StreamHistory"]


class ResumableMessage(TypedDict):
    """One message of the conversation; `createdAt` in milliseconds since 1970."""

    id: str
    role: Literal["user", "assistant"]
    content: str
    createdAt: int


class ResumableStreamChunk(TypedDict):
    """One chunk of a stream. The chunks joined by `index` are the text of the answer."""

    id: str
    streamId: str
    content: str
    index: int
    createdAt: int


class ResumableStreamMetadata(TypedDict):
    """The status of a stream. `messageId` is the id of the answer; its message may not exist yet."""

    id: str
    messageId: str
    status: Literal["streaming", "completed", "error"]
    totalChunks: int
    createdAt: int
    completedAt: NotRequired[int]
    error: NotRequired[str]
    restarts: NotRequired[int]
    """How often a later attempt replaced chunks of an earlier one; absent if never."""


class StreamHistory(TypedDict):
    """The chunks and the metadata of a stream; `metadata` is None if it is unknown or was cleared."""

    chunks: list[ResumableStreamChunk]
    metadata: ResumableStreamMetadata | None


class SentMessage(TypedDict):
    """The id of a sent message, and of the stream of its answer."""

    messageId: str
    streamId: str


class ResumableStreamState(TypedDict):
    """The keys of the agent's state that the manager sets; the state may have other keys."""

    messages: list[ResumableMessage]
    activeStreamId: str | None


class ChunkWriter(Protocol):
    """Saves a chunk, and sends it to every client once it is saved.

    Without an `index`, the next one is used. A chunk is ignored if this attempt has written or passed
    its index.
    """

    async def __call__(self, content: str, index: int | None = None) -> None: ...


@dataclass(frozen=True, slots=True)
class GenerateAIResponseOptions:
    """The question, and the function that writes the answer.

    `messages` end with the question. `attempt` is 2 or more if an earlier process died during the answer. Then
    `partial` is the text so far, and `next_index` is the index to continue with. You may also begin again: equal
    chunks stay on the clients' screens, and from the first different chunk on the old ones are replaced.
    """

    messages: Sequence[ResumableMessage]
    stream_id: str
    message_id: str
    process_chunk: ChunkWriter
    attempt: int = 1
    partial: str = ""
    next_index: int = 0

    @property
    def streamId(self) -> str:  # noqa: N802 - the original's name
        """The same as `stream_id`."""
        return self.stream_id

    @property
    def messageId(self) -> str:  # noqa: N802 - the original's name
        """The same as `message_id`."""
        return self.message_id

    @property
    def processChunk(self) -> ChunkWriter:  # noqa: N802 - the original's name
        """The same as `process_chunk`."""
        return self.process_chunk


@runtime_checkable
class ResumableStreamAgent(Protocol):
    """What a manager needs of its agent, which must also be an Agent.

    The agent may define a method `_rsm_generate_response(payload, queue_item=None)`. The queue then calls it instead of
    the manager, and it has to do `await self.streams.generate_response_callback(payload)`.
    """

    async def generate_ai_response(self, options: GenerateAIResponseOptions) -> str:
        """Write the answer chunk by chunk with `options.process_chunk`, and return its whole text, which is stored."""
        ...
