"""What a ResumableStreamManager speaks of. Dicts have the names that clients know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, Protocol, TypedDict, runtime_checkable

from ..jobs import Job

__all__ = ["ChunkWriter", "GenerateAIResponseOptions", "ResumableMessage", "ResumableStreamAgent"]
__all__ += ["ResumableStreamChunk", "ResumableStreamMetadata", "ResumableStreamState", "SentMessage", "StreamHistory"]


class ResumableMessage(TypedDict):
    """One message of the conversation; `createdAt` in milliseconds since 1970."""

    id: str
    role: Literal["user", "assistant"]
    content: str
    createdAt: int


class ResumableStreamChunk(TypedDict):
    """One chunk of a stream. Joined by `index`, the chunks are what was said."""

    id: str
    streamId: str
    content: str
    index: int
    createdAt: int


class ResumableStreamMetadata(TypedDict):
    """A stream as it stands. `messageId` is the id that the answer has, or will have, among the messages."""

    id: str
    messageId: str
    status: Literal["streaming", "completed", "error"]
    totalChunks: int
    createdAt: int
    completedAt: NotRequired[int]
    error: NotRequired[str]
    restarts: NotRequired[int]
    """How often a later attempt took back what an earlier one had said; absent if never."""


class StreamHistory(TypedDict):
    """All that is stored of a stream; `metadata` is None for a stream that is unknown or was cleared."""

    chunks: list[ResumableStreamChunk]
    metadata: ResumableStreamMetadata | None


class SentMessage(TypedDict):
    """The ids of a message that was sent, and of the stream that answers it."""

    messageId: str
    streamId: str


class ResumableStreamState(TypedDict):
    """What clients are kept in step with; an agent's state may have other keys beside these."""

    messages: list[ResumableMessage]
    activeStreamId: str | None


class ChunkWriter(Protocol):
    """Saves a chunk, and sends it to every client once it is saved.

    The index counts by itself, or is given. One that was there before is ignored.
    """

    async def __call__(self, content: str, index: int | None = None) -> None: ...


@dataclass(frozen=True, slots=True)
class GenerateAIResponseOptions:
    """What there is to answer, and how to say it.

    `messages` end with the question. `attempt` is 2 or more when an earlier process died over the answer: `partial` is
    what it had said, and `next_index` where to go on from it. To begin anew instead, simply do: what comes out the same
    stays on the screens, and is taken back from the first chunk on that differs.
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
    """What a manager needs of its agent, which is an Agent besides.

    The second method has a default: the manager gives it to agents that do not define it.
    """

    async def generate_ai_response(self, options: GenerateAIResponseOptions) -> str:
        """Say the answer chunk by chunk with `options.process_chunk`, and return all of it: that is what is kept."""
        ...

    async def _rsm_generate_response(self, payload: Mapping[str, Any], queue_item: Job | None = None) -> None:
        """Be called by the queue: `await self.streams.generate_response_callback(payload)`."""
        ...
