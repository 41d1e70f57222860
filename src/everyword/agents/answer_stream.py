"""Makes one stream of text and chunks from everything that `on_chat_message` may return."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec

from ..errors import UsageError
from ..messages.chunks import ChunkStruct, DataChunk, as_chunk, type_problem
from ..messages.message import Chunk
from ..messages.sse import UIMessageStreamDecoder
from ..messages.stream_closing import closing

__all__ = ["answer_items"]

log = logging.getLogger("everyword.agents")

_ITEMS = "str, a chunk (typed, or a dict such as {'type': 'data-note', 'data': 1}) or bytes of a UI message stream"
_ANSWERS = f"{_ITEMS}, an iterator of those, a response with text (Starlette, httpx) or a stream in it, or None"
_WRONG: dict[type, tuple[str, str]] = {
    type(None): ("None", "leave out pieces without text, as some models' first and last are"),
    int: ("int", "for its digits, yield str(...)"),
    float: ("float", "for its digits, yield str(...)"),
}
_END = object()


async def answer_items(
    answer: Any,
    source: str,
    *,
    ends_at: tuple[type[Exception], ...] = (),
    after: Callable[[], Awaitable[None]] | None = None,
    keep_file: Callable[[Chunk], Awaitable[Chunk]] | None = None,
) -> AsyncGenerator[str | Chunk, None]:
    """Yield the text and the chunks of an answer. `source` names whose answer it is, in errors.

    An answer that raises one of `ends_at` ends there. `after` is awaited when the stream is closed, however it ended.
    `keep_file` returns a `file` chunk as it is to be stored.
    A chunk of an unknown type is an error if the agent's code yielded it. In the bytes of another server, which may be
    newer than this one, it is left out.

    Raises:
        UsageError: the answer, or an item of it, is of a type that is none of the legal ones; the text names them.
    """
    try:
        if inspect.isawaitable(answer):
            answer = await answer
        decoder = UIMessageStreamDecoder(is_sse=_is_event_stream(answer))
        body = _body(answer)
        pieces = aiter(body) if isinstance(body, AsyncIterable) else _pieces(body, source)
        async with closing(body) if body is not pieces else nullcontext(), closing(pieces):
            async for item in pieces:
                if isinstance(item, str):  # first: nearly all of what models say
                    yield item
                elif isinstance(item, bytes | bytearray | memoryview):
                    for piece in _known(decoder.feed(bytes(item)), source):
                        yield await _kept(piece, keep_file)
                else:
                    yield await _kept(_chunk(item, source, body), keep_file)
    except ends_at:
        return
    finally:
        if after is not None:
            await after()
    for piece in _known(decoder.close(), source):
        yield await _kept(piece, keep_file)
    for problem in decoder.problems:
        log.warning("%s: %s", source, problem)


async def _kept(piece: str | Chunk, keep_file: Callable[[Chunk], Awaitable[Chunk]] | None) -> str | Chunk:
    """Return a piece as it is to be stored."""
    if keep_file is not None and isinstance(piece, dict) and piece.get("type") == "file":
        return await keep_file(piece)
    return piece


def _chunk(item: Any, source: str, body: Any) -> Chunk:
    """Return a yielded chunk, or raise UsageError with the place at which it was yielded."""
    chunk = as_chunk(item) if isinstance(item, dict | ChunkStruct | DataChunk) else None
    problem = type_problem(chunk) if chunk is not None else None
    if chunk is not None and problem is None:
        return chunk
    what, cure = problem or _WRONG.get(type(item), (type(item).__name__, ""))
    because = f"; {cure}" if cure else ""
    raise UsageError(f"unable to answer; {source} yielded {what}{_place(body)}{because}. It may yield {_ITEMS}.")


def _place(body: Any) -> str:
    """Return the file and line at which a generator has stopped; nothing for other iterators."""
    frame = getattr(body, "ag_frame", None) or getattr(body, "gi_frame", None)
    return f" ({Path(frame.f_code.co_filename).name}, line {frame.f_lineno})" if frame is not None else ""


def _known(pieces: Iterable[str | Chunk], source: str) -> Iterator[str | Chunk]:
    for piece in pieces:
        if isinstance(piece, dict) and type_problem(piece) is not None:
            log.warning("%s: left out a chunk of the unknown type %r", source, piece["type"])
        else:
            yield piece


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


async def _pieces(answer: Any, source: str) -> AsyncGenerator[Any, None]:
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
        raise UsageError(f"unable to answer; {source} returned {type(answer).__name__}. It may return {_ANSWERS}.")


async def _off_the_loop(iterator: Iterator[Any]) -> AsyncIterator[Any]:
    """Iterate in a thread: a plain iterator may block, as the synchronous streams of provider SDKs do."""
    while (item := await asyncio.to_thread(next, iterator, _END)) is not _END:
        yield item
