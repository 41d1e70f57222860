"""HTTP under uvicorn with deadlines: `http=` of `everyword serve`.

uvicorn waits for ever for the rest of a request. This protocol limits the time until a request is complete, the size of
its headers, and the number of pipelined requests.
If you run uvicorn yourself, use `uvicorn --http everyword.server.uvicorn_http:UvicornHttpProtocol`, or put a proxy in
front that forwards only complete requests.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .connection_limits import ConnectionLimits

__all__ = ["UvicornHttpProtocol"]

FRAMING: Final = 8
"""Bytes of framing allowed per byte of a chunked body; the smallest chunks have five."""


class UvicornHttpProtocol(HttpToolsProtocol):
    """uvicorn's protocol, with limits: it closes connections whose requests are not complete in time, or too large."""

    bounds: ClassVar[ConnectionLimits] = ConnectionLimits()

    @classmethod
    def within(cls, bounds: ConnectionLimits) -> type[UvicornHttpProtocol]:
        """Return a protocol class with these limits."""
        return type(cls.__name__, (cls,), {"bounds": bounds})

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._deadline: asyncio.TimerHandle | None = None
        self._seconds = 0.0
        self._header_bytes = 0
        """Bytes received since the last complete request; counted until the headers of the next one are complete."""
        self._has_headers = False
        self._beside = 0
        """Bytes after the headers that are not body: chunk extensions and trailers, which uvicorn keeps in memory."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect(self.bounds.request_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._expect(None)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if not self._has_headers:
            if self._deadline is None:  # the next request of a connection that was kept alive
                self._expect(self.bounds.request_seconds)
            self._header_bytes += len(data)
        else:
            self._beside += len(data)
        super().data_received(data)
        if not self._has_headers and self._header_bytes > self.bounds.header_bytes:
            self.send_400_response("unable to read the request; its headers are too long")
        elif self._has_headers and self._beside > self.bounds.header_bytes:
            self.transport.abort()  # no error response: the request may have been answered already

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= self.bounds.pipelined:
            # uvicorn reads on after each response, however many requests wait; in memory they are larger than sent.
            self.transport.abort()
            raise ConnectionAbortedError  # leave the parser, which has more requests in its buffer
        super().on_message_begin()
        if self._deadline is None:  # this request came in the same data as the one before it
            self._expect(self.bounds.request_seconds)

    def on_headers_complete(self) -> None:
        self._has_headers, self._header_bytes, self._beside = True, 0, 0
        self._expect(self.bounds.message_seconds)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._beside = max(0, self._beside - (1 + FRAMING) * len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._has_headers = False
        self._expect(None)
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        self._expect(None)
        super().handle_websocket_upgrade()

    def _expect(self, seconds: float | None) -> None:
        """Close the connection after this many seconds, unless this is called again before; None for no deadline."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if seconds is not None:
            self._seconds = seconds
            self._deadline = self.loop.call_later(seconds, self._run_out)

    def _run_out(self) -> None:
        self._deadline = None
        cycle: Any = self.cycle  # None before the first request, although its type does not allow it
        # While a response is sent, the data after its request may be only a line end.
        is_answering = not self._has_headers and cycle is not None and not cycle.response_complete
        if self.flow.read_paused or is_answering:  # the server has paused reading, or is still answering
            self._expect(self._seconds)
        elif not self.transport.is_closing():
            self.transport.abort()
