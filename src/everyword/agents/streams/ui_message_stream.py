"""`create_ui_message_stream`: an answer that code writes chunk by chunk, with other streams merged into it.

The order is that of the AI SDK's createUIMessageStream: written chunks appear in the order of the writes, each merged
stream keeps its own order, and merged streams and `execute` run concurrently. A chunk that is written directly after
`merge(stream)`, without an `await` in between, comes before the stream's first chunk.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import logging
import uuid
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from ...errors import FoldError, UsageError, public_text
from ...messages.chunks import known_chunk
from ...messages.fold import MessageFold
from ...messages.message import Chunk, UIMessage
from ..answer_stream import answer_items

__all__ = ["UIMessageStreamFinish", "UIMessageStreamWriter", "create_ui_message_stream"]

log = logging.getLogger("everyword.agents")

ROOM: Final = 64
"""Number of unread chunks at which `await writer.write(…)` and merged streams wait for the consumer."""

SAFE_TEXT: Final = "Something went wrong while answering. Please try again."


@dataclass(frozen=True, slots=True)
class UIMessageStreamFinish:
    """The result of a stream, for `on_finish`. `messages` is the conversation including the response.

    `is_aborted` is True after an `abort` chunk, and if the consumer stopped reading before the end.
    """

    messages: list[UIMessage]
    response_message: UIMessage
    is_continuation: bool
    is_aborted: bool
    finish_reason: str | None


Execute = Callable[["UIMessageStreamWriter"], Awaitable[object] | None]
OnFinish = Callable[[UIMessageStreamFinish], Awaitable[object] | None]


def create_ui_message_stream(
    execute: Execute,
    *,
    on_error: Callable[[BaseException], str] | None = None,
    on_finish: OnFinish | None = None,
    original_messages: Sequence[UIMessage | Mapping[str, Any]] | None = None,
    generate_id: Callable[[], str] | None = None,
) -> AsyncGenerator[Chunk, None]:
    """Return the stream of the chunks that `execute(writer)` writes, for `on_chat_message` to return or for other use.

    Nothing runs before the first chunk is read. The stream ends when `execute` and all merged streams have ended.
    Closing it early (by cancelling the reader, or with `aclose()`) cancels them all. `execute` runs on the event loop,
    so a plain function must not block; merge a plain iterator instead, which is read in a thread.

    Args:
        execute: writes the answer; sync or async.
        on_error: returns the text of the `error` chunk for an exception of `execute` or of a merged stream. By default
            the text is a general sentence, or that of a ChatError. The other streams continue.
        on_finish: called once, at the end, with the message that the chunks make; sync or async. If it raises, the
            stream fails.
        original_messages: the conversation so far. If its last message is an assistant message, that is continued.
        generate_id: returns the id for a `start` chunk without one.

    Raises:
        UsageError: `execute` yields instead of writing.
    """
    if inspect.isasyncgenfunction(execute) or inspect.isgeneratorfunction(execute):
        raise UsageError(
            "unable to create a stream; execute yields: let it call writer.write(…), or return the generator itself"
        )
    make_id = generate_id if generate_id is not None else _random_id
    record = _Record(original_messages or (), make_id, on_finish)
    return _stream(execute, UIMessageStreamWriter(on_error, make_id), record)


class UIMessageStreamWriter:
    """The writer that `execute` gets. It is not thread-safe: from a thread, use `loop.call_soon_threadsafe`."""

    def __init__(self, on_error: Callable[[BaseException], str] | None, make_id: Callable[[], str]) -> None:
        self._on_error, self._make_id = on_error, make_id
        self._waiting: deque[Chunk] = deque()
        self._arrived, self._room = asyncio.Event(), asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def write(self, chunk: Any) -> Awaitable[None]:
        """Add a chunk immediately, in the order of the calls.

        Awaiting the result is optional. It waits until the consumer has caught up, so that a slow log slows the writer:
        await it if you write many chunks. After the end of the stream, writing only logs a warning.

        Raises:
            BadChunk: it is not a chunk, or its type is not known to clients.
        """
        taken = known_chunk(chunk)
        if self._is_closed:
            log.warning("a %s chunk was written after the stream had ended, and is lost", taken.get("type"))
        else:
            self._add(_own(taken))
        return _Written(self)

    def merge(self, stream: Any) -> None:
        """Forward a stream while everything else continues. It may be anything that `on_chat_message` may return.

        May be called while `execute` or a merged stream runs, so also after `execute` has returned.
        """
        if self._is_closed:
            log.warning("a stream was merged after the stream had ended, and is not read")
            return
        self._start(self._forward(stream), "merge")

    def on_error(self, error: BaseException) -> str:
        """Return the text of an error for clients."""
        if self._on_error is not None:
            try:
                return self._on_error(error)
            except Exception:
                log.exception("on_error raised; clients get a safe sentence")
                return SAFE_TEXT
        return public_text(error, SAFE_TEXT)

    def _add(self, chunk: Chunk) -> None:
        self._waiting.append(chunk)
        self._arrived.set()

    async def _forward(self, stream: Any) -> None:
        try:
            async with aclosing(_chunks(stream, self._make_id)) as chunks:
                async for chunk in chunks:
                    await self.write(chunk)
                    await asyncio.sleep(0)  # let other streams run, if this one never waits
        finally:
            if inspect.isasyncgen(stream):
                await stream.aclose()

    async def _call(self, execute: Execute) -> None:
        answer = execute(self)
        if inspect.isawaitable(answer):
            await answer

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(self._contained(work), name=f"ui-stream:{name}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def _contained(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:
            log.warning("a stream failed", exc_info=error)
            if not self._is_closed:
                self._add({"type": "error", "errorText": self.on_error(error)})

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not self._tasks:
            self._close()

    def _close(self) -> None:
        self._is_closed = True
        self._arrived.set()
        self._room.set()

    async def _next(self) -> Chunk | None:
        """Return the next chunk; None after the last one."""
        while not self._waiting:
            if self._is_closed:
                return None
            self._arrived.clear()
            await self._arrived.wait()
        chunk = self._waiting.popleft()
        self._room.set()
        return chunk

    async def _catch_up(self) -> None:
        while len(self._waiting) >= ROOM and not self._is_closed:
            self._room.clear()
            await self._room.wait()

    async def _stop(self) -> None:
        """Cancel all running tasks and wait until they have ended."""
        self._close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Written:
    """The result of `write`. Awaiting it waits until fewer than ROOM chunks are unread."""

    __slots__ = ("_writer",)

    def __init__(self, writer: UIMessageStreamWriter) -> None:
        self._writer = writer

    def __await__(self) -> Generator[Any, None, None]:
        return self._writer._catch_up().__await__()


class _Record:
    """Builds the message for `on_finish`, and adds the id to a `start` chunk without one."""

    def __init__(
        self,
        originals: Sequence[UIMessage | Mapping[str, Any]],
        make_id: Callable[[], str],
        on_finish: OnFinish | None,
    ) -> None:
        self._originals = [m if isinstance(m, UIMessage) else UIMessage.from_dict(m) for m in originals]
        last = self._originals[-1] if self._originals else None
        self._base = copy.deepcopy(last) if last is not None and last.role == "assistant" else None
        self._id = self._base.id if self._base is not None else make_id()
        self._fold = MessageFold(self._id, base=self._base)
        self._on_finish = on_finish
        self._has_abort = False

    def take(self, chunk: Chunk) -> Chunk:
        """Return the chunk as the consumer gets it."""
        kind = chunk.get("type")
        if kind == "start" and chunk.get("messageId") is None:
            chunk = {**chunk, "messageId": self._id}
        self._has_abort = self._has_abort or kind == "abort"
        if self._on_finish is not None:
            try:
                self._fold.apply(_own(chunk))
            except FoldError as error:
                log.warning("on_finish will not see a chunk: %s", error)
        return chunk

    async def finish(self, *, is_left: bool) -> None:
        """Call `on_finish`, if there is one; `is_left` if the consumer stopped reading before the end."""
        if self._on_finish is None:
            return
        message = self._fold.message()
        is_continuation = self._base is not None and message.id == self._base.id
        before = self._originals[:-1] if is_continuation else self._originals
        reason, is_aborted = self._fold.finish_reason, self._has_abort or is_left
        heard = self._on_finish(UIMessageStreamFinish([*before, message], message, is_continuation, is_aborted, reason))
        if inspect.isawaitable(heard):
            await heard


async def _stream(execute: Execute, writer: UIMessageStreamWriter, record: _Record) -> AsyncGenerator[Chunk, None]:
    writer._start(writer._call(execute), "execute")
    is_left = True
    try:
        while (chunk := await writer._next()) is not None:
            yield record.take(chunk)
        is_left = False
    finally:
        try:
            await writer._stop()
        finally:
            if is_left:
                await _tell_of_leaving(record)
    await record.finish(is_left=False)


async def _tell_of_leaving(record: _Record) -> None:
    try:
        await record.finish(is_left=True)
    except Exception:
        log.exception("on_finish raised after the stream was left")


async def _chunks(stream: Any, make_id: Callable[[], str]) -> AsyncGenerator[Chunk, None]:
    """Yield a stream as chunks. Text becomes text parts, each closed before the next chunk that is not text."""
    part: str | None = None
    async with aclosing(answer_items(stream, "the stream given to `merge`")) as items:
        async for item in items:
            if isinstance(item, str):
                if part is None:
                    part = make_id()
                    yield {"type": "text-start", "id": part}
                yield {"type": "text-delta", "id": part, "delta": item}
                continue
            if part is not None:
                yield {"type": "text-end", "id": part}
                part = None
            yield item
    if part is not None:
        yield {"type": "text-end", "id": part}


def _own(chunk: Chunk) -> Chunk:
    """Return a copy: callers often change an object that they have written, and write it again."""
    if any(isinstance(value, dict | list) for value in chunk.values()):
        return copy.deepcopy(chunk)
    return dict(chunk)


def _random_id() -> str:
    return uuid.uuid4().hex
