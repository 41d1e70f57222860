"""Read a provider's stream in any form: async or not, awaited or not, entered or not. It is always closed."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, Protocol

from ..errors import ChatError, UsageError
from ..extras import missing
from ..messages.message import Chunk
from .errors import classify, model_error

__all__ = [
    "ProviderDecoder",
    "decode_stream",
    "event_fields",
    "from_iterator",
    "import_pydantic_ai",
    "open_stream",
    "usage_counts",
]

_END: Final = object()


class ProviderDecoder(Protocol):
    """Decodes the events of one provider to chunks, without I/O."""

    def feed(self, event: Any) -> list[Chunk]:
        """Return the chunks of the next event. Raises ChatError for an error that the provider reports."""
        ...

    def finish(self) -> list[Chunk]:
        """Return the chunks that end the message. Raises ChatError if the stream ended too early."""
        ...

    def close(self) -> list[Chunk]:
        """Return the chunks that close the open parts and the step, after a failure."""
        ...


async def decode_stream(source: Any, decoder: ProviderDecoder, *, provider: str) -> AsyncIterator[Chunk]:
    """Yield the chunks of a provider's stream.

    A failure first closes the open parts, then raises: a ChatError (see `failure_of`) for a failure of the provider,
    the exception itself for any other. Closing the iterator early closes the provider's connection.
    """
    try:
        async with open_stream(source, provider=provider) as events:
            async for event in events:
                for chunk in decoder.feed(event):
                    yield chunk
        for chunk in decoder.finish():
            yield chunk
    except Exception as error:
        for chunk in decoder.close():
            yield chunk
        failure = None if isinstance(error, ChatError) else classify(error, provider=provider)
        if failure is None:
            raise
        raise model_error(failure) from error


@asynccontextmanager
async def open_stream(source: Any, *, provider: str) -> AsyncIterator[AsyncIterator[Any]]:
    """Enter as an async iterator over a stream, an awaitable of one, or a context manager of one."""
    async with AsyncExitStack() as stack:
        if inspect.isawaitable(source):
            source = await source
        if not hasattr(source, "__aiter__") and not hasattr(source, "__iter__"):
            source = await _entered(source, stack)
        if hasattr(source, "model_dump"):
            kind = type(source).__name__
            raise UsageError(f"unable to read {kind} as a stream of {provider}; ask for one with `stream=True`")
        if hasattr(source, "__aiter__"):
            close = getattr(source, "aclose", None) or getattr(source, "close", None)
            if close is not None:
                stack.push_async_callback(_closed, close)
            yield aiter(source)
        elif hasattr(source, "__iter__") and not isinstance(source, (str, bytes, dict)):
            items = _in_a_thread(iter(source), getattr(source, "close", None))
            stack.push_async_callback(items.aclose)
            yield items
        else:
            kind = type(source).__name__
            raise UsageError(f"unable to read {kind} as a stream of {provider}; pass what its streaming call returns")


async def _entered(source: Any, stack: AsyncExitStack) -> Any:
    if hasattr(source, "__aenter__"):
        return await stack.enter_async_context(source)
    if hasattr(source, "__enter__"):
        return stack.enter_context(source)
    return source


async def _closed(close: Any) -> None:
    outcome = close()
    if inspect.isawaitable(outcome):
        await outcome


async def _in_a_thread(items: Iterator[Any], close: Any) -> AsyncGenerator[Any, None]:
    """Yield from a blocking iterator without blocking the event loop. Lists and generators need no thread."""
    is_blocking = close is not None and not inspect.isgenerator(items)
    try:
        while True:
            item = await asyncio.to_thread(next, items, _END) if is_blocking else next(items, _END)
            if item is _END:
                return
            yield item
    finally:
        if close is not None:
            close()


def event_fields(event: Any) -> dict[str, Any]:
    """Return an event of an SDK as a JSON object."""
    if isinstance(event, dict):
        return event
    dump = getattr(event, "model_dump", None)
    if dump is None:
        raise UsageError(f"unable to read {type(event).__name__} as an event; it is neither a dict nor an SDK object")
    fields: dict[str, Any] = dump(mode="json", exclude_unset=True, warnings=False)
    return fields


def import_pydantic_ai(module: str) -> Any:
    """Import a module of Pydantic AI. Raises UsageError with the install command if it is not installed."""
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        root = module.partition(".")[0]
        raise missing("pydantic-ai-slim", "pydantic-ai", f"import {root}") from error


async def from_iterator(source: AsyncIterator[str] | Iterable[str]) -> AsyncIterator[Chunk]:
    """Yield the chunks of plain text: one step with one text part, then `finish`.

    A handler can also yield strings directly. Use this to combine text with other chunks, or for blocking iterators.
    """
    part = "text-0"
    yield {"type": "start-step"}
    is_open = False
    try:
        async with open_stream(source, provider="text") as pieces:
            async for piece in pieces:
                if not isinstance(piece, str):
                    raise UsageError(f"unable to use {type(piece).__name__} as a piece of text; yield strings")
                if piece and not is_open:
                    is_open = True
                    yield {"type": "text-start", "id": part}
                if piece:
                    yield {"type": "text-delta", "id": part, "delta": piece}
    except Exception:
        for chunk in _text_end(part, is_open=is_open):
            yield chunk
        raise
    for chunk in _text_end(part, is_open=is_open):
        yield chunk
    yield {"type": "finish", "finishReason": "stop"}


def _text_end(part: str, *, is_open: bool) -> list[Chunk]:
    end: list[Chunk] = [{"type": "text-end", "id": part}] if is_open else []
    return [*end, {"type": "finish-step"}]


def usage_counts(**counts: Any) -> dict[str, int]:
    """Return the given token counts, under the AI SDK's names, without those that are not integers."""
    return {name: value for name, value in counts.items() if isinstance(value, int)}
