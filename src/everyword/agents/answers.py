"""Whatever `on_chat_message` gives back, as one stream of text and chunks."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import nullcontext
from typing import Any

import msgspec

from ..errors import UsageError
from ..messages.chunks import as_chunk
from ..messages.closing import closing
from ..messages.message import Chunk
from ..messages.sse import StreamDecoder

__all__ = ["answer_items"]

log = logging.getLogger("everyword.agents")

_LEGAL = (
    "Return or yield str, a chunk (dict or typed), bytes of a UI message stream, an iterator of those, "
    "a response with text (Starlette, httpx) or a stream in it, or None."
)
_END = object()


async def answer_items(
    answer: Any, *, ends_at: tuple[type[Exception], ...] = (), after: Callable[[], Awaitable[None]] | None = None
) -> AsyncGenerator[str | Chunk, None]:
    """Yield the text and the chunks of an answer; raises UsageError, naming what is legal, for anything else.

    An answer that raises what `ends_at` names ends there. `after` is awaited when it is closed, however it ended.
    """
    try:
        if inspect.isawaitable(answer):
            answer = await answer
        decoder = StreamDecoder(is_sse=_is_event_stream(answer))
        body = _body(answer)
        pieces = aiter(body) if isinstance(body, AsyncIterable) else _pieces(body)
        async with closing(body) if body is not pieces else nullcontext(), closing(pieces):
            async for item in pieces:
                if isinstance(item, str):  # first: nearly all of what models say
                    yield item
                elif isinstance(item, bytes | bytearray | memoryview):
                    for piece in decoder.feed(bytes(item)):
                        yield piece
                elif isinstance(item, dict | msgspec.Struct):
                    yield as_chunk(item)
                elif item is not None:
                    raise UsageError(f"unable to answer with {type(item).__name__}. {_LEGAL}")
    except ends_at:
        return
    finally:
        if after is not None:
            await after()
    for piece in decoder.close():
        yield piece
    for problem in decoder.problems:
        log.warning("an answer's stream: %s", problem)


def _is_event_stream(answer: Any) -> bool | None:
    """Tell by its content type what a response's bytes are; None when it does not say."""
    headers = getattr(answer, "headers", None)
    kind = headers.get("content-type") if headers is not None and hasattr(headers, "get") else None
    return kind.startswith("text/event-stream") if isinstance(kind, str) else None


def _body(answer: Any) -> Any:
    """Return what to iterate over: a response's body, or the answer itself."""
    for name in ("body_iterator", "aiter_bytes", "iter_bytes"):
        body = getattr(answer, name, None)
        if body is not None:
            return body() if callable(body) else body
    if hasattr(answer, "headers") and isinstance(body := getattr(answer, "body", None), bytes | memoryview):
        return bytes(body)  # a whole response, as Starlette's
    return answer


async def _pieces(answer: Any) -> AsyncGenerator[Any, None]:
    if answer is None:
        return
    if isinstance(answer, str | bytes | dict | msgspec.Struct):
        yield answer
    elif isinstance(answer, list | tuple):
        for item in answer:
            yield item
    elif isinstance(answer, Iterable):
        async for item in _off_the_loop(iter(answer)):
            yield item
    else:
        raise UsageError(f"unable to answer with {type(answer).__name__}. {_LEGAL}")


async def _off_the_loop(iterator: Iterator[Any]) -> AsyncIterator[Any]:
    """Iterate in a thread: a plain iterator may block, as the synchronous streams of provider SDKs do."""
    while (item := await asyncio.to_thread(next, iterator, _END)) is not _END:
        yield item
