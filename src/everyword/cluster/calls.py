"""Calls over a link: a method and a payload, and a result in one part or in many.

A call is a stream. The caller sends a header and the payload; the other node sends the parts of the result and END. An
END with a payload is a failure. A caller that gives up resets the stream, and the call is cancelled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Final, TypeAlias

import msgspec

from ..errors import BadLinkFrame, LinkTimeout, RemoteError, UsageError, is_public
from .messages import read_message, send_message
from .purposes import CALL
from .remote_failures import read_failure, write_failure
from .streams import LinkStream

__all__ = ["CallServer", "OnCall", "call", "stream_call"]

log = logging.getLogger("everyword.cluster")

OnCall: TypeAlias = Callable[[str, bytes], Awaitable[bytes | AsyncIterator[bytes]]]
"""Runs a method of this node for another: `async def on_call(method, payload)`. Its result is bytes, or parts."""

Open: TypeAlias = Callable[[bytes], LinkStream]


class _CallHeader(msgspec.Struct, frozen=True, omit_defaults=True):
    method: str
    is_stream: bool = False
    """True if the caller takes several parts."""


_read_header: Final = msgspec.json.Decoder(_CallHeader).decode


async def call(open_stream: Open, method: str, payload: bytes, *, seconds: float | None, limit: int) -> bytes:
    """Make a call and return its result; see `Link.call`."""
    stream = _opened(open_stream, _CallHeader(method))
    try:
        async with asyncio.timeout(seconds):
            await send_message(stream, payload)
            stream.finish()
            result = await read_message(stream, limit)
    except TimeoutError:
        raise LinkTimeout(f"unable to call {method!r}; the other node did not answer within {seconds} s") from None
    finally:
        stream.reset()
    if result is None:
        raise _failure_of(stream)
    return result


async def stream_call(open_stream: Open, method: str, payload: bytes, *, limit: int) -> AsyncGenerator[bytes, None]:
    """Make a call and yield the parts of its result; see `Link.stream`."""
    stream = _opened(open_stream, _CallHeader(method, is_stream=True))
    try:
        await send_message(stream, payload)
        stream.finish()
        while (part := await read_message(stream, limit)) is not None:
            yield part
        if stream.ended.result():
            raise _failure_of(stream)
    finally:
        stream.reset()


def _opened(open_stream: Open, header: _CallHeader) -> LinkStream:
    return open_stream(CALL + msgspec.json.encode(header))


def _failure_of(stream: LinkStream) -> RemoteError:
    how = stream.ended.result()
    return read_failure(how) if how else RemoteError("unable to finish the call; it has no result")


class CallServer:
    """Runs the calls of other nodes."""

    def __init__(self, on_call: OnCall, limit: int) -> None:
        self._on_call, self._limit = on_call, limit

    async def serve(self, stream: LinkStream, header: bytes) -> None:
        """Run one call. Cancelled when its caller has given it up, or the link is lost."""
        task = asyncio.current_task()
        assert task is not None
        stream.broken.add_done_callback(lambda _: task.cancel())
        try:
            await self._run(stream, header)
        except Exception as exc:
            if not is_public(exc) and not stream.broken.done():
                log.error("a call of another node failed", exc_info=exc)
            stream.close(write_failure(exc))
        finally:
            stream.reset()

    async def _run(self, stream: LinkStream, header: bytes) -> None:
        try:
            asked = _read_header(header)
        except msgspec.MsgspecError:
            raise BadLinkFrame("unable to read the header of a call") from None
        payload = await read_message(stream, self._limit)
        if payload is None:
            raise BadLinkFrame("unable to run a call; it has no payload")
        result = await self._on_call(asked.method, payload)
        if isinstance(result, bytes):
            await send_message(stream, result)
        elif asked.is_stream:
            await _send_parts(stream, result)
        else:
            raise UsageError(f"unable to call {asked.method!r}; it has many results. Use `stream`.")
        stream.finish()


async def _send_parts(stream: LinkStream, parts: AsyncIterator[bytes]) -> None:
    if isinstance(parts, AsyncGenerator):
        async with aclosing(parts):
            async for part in parts:
                await send_message(stream, part)
    else:
        async for part in parts:
            await send_message(stream, part)
