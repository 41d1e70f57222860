"""One end of a link: an established connection between two nodes, with streams, calls and hints."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from typing import Final, Protocol, cast

from ..errors import BadLinkFrame, LinkBusy, LinkError, LinkLost, LinkRefused
from ..ids import Incarnation
from .calls import call, stream_call
from .frame_writer import FrameWriter
from .handshake import Agreement, Handshake
from .hints import LONGEST_HINT, write_hint
from .link_frames import (
    CREDIT,
    DATA,
    END,
    HINT,
    LONGEST_PAYLOAD,
    OPEN,
    PING,
    PONG,
    RESET,
    STOP,
    FrameParser,
)
from .remote_failures import write_failure
from .settings import LinkSettings
from .silence import SilenceWatch
from .streams import LinkStream, StreamTable

__all__ = ["NodeLink", "PeerServices"]

log = logging.getLogger("everyword.cluster")

LONGEST_UNPROVEN: Final = 1024
"""Bytes of one payload before the peer has proved that it knows the secret."""

LINGER: Final = 1.0
"""Seconds that a closed link has to send what is pending."""


class PeerServices(Protocol):
    """What a node does for the other end of a link."""

    def opened(self, stream: LinkStream, header: bytes, peer: Incarnation) -> None:
        """Serve a stream that the peer has opened. Must not raise."""

    def hinted(self, payload: bytes, peer: Incarnation) -> None:
        """Take a hint. Must not raise."""


class NodeLink(asyncio.Protocol):
    """A connection to another node. Both ends may open streams, call and hint.

    `ready` waits for the handshake. Afterwards the link works until `lost` is done, which says why it ended.
    """

    def __init__(
        self,
        handshake: Handshake,
        *,
        is_dialer: bool,
        settings: LinkSettings,
        services: PeerServices | None = None,
        on_change: Callable[[NodeLink], None] | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self._handshake, self._settings, self._services, self._on_change = handshake, settings, services, on_change
        self._parser = FrameParser(LONGEST_UNPROVEN)
        self._writer = FrameWriter()
        self._streams = StreamTable(self._writer, is_dialer=is_dialer, most=settings.streams)
        self._watch = SilenceWatch(settings.silent_seconds, self._ask, self._silent)
        self._transport: asyncio.Transport | None = None
        self._unproven_bytes = 0
        self._settled: asyncio.Future[None] = loop.create_future()
        self._deadline = loop.call_later(settings.connect_seconds, self._run_out)
        self.lost: asyncio.Future[LinkError] = loop.create_future()
        """Done when the link is over. Its result says why."""
        self._closed: asyncio.Future[None] = loop.create_future()

    # -- what others use ----------------------------------------------------------------------------------------

    @property
    def agreement(self) -> Agreement | None:
        """The peer's incarnation and the version of the protocol; None before both ends agree."""
        return self._handshake.agreement

    @property
    def peer(self) -> Incarnation:
        """The incarnation at the other end.

        Raises:
            LinkLost: it is not known yet.
        """
        if self.agreement is None:
            raise LinkLost("unable to name the other node; the link is not established")
        return self.agreement.peer

    @property
    def claimed(self) -> Incarnation | None:
        """What the other end calls itself, proved or not; None if it has not said."""
        return self._handshake.claimed

    @property
    def is_usable(self) -> bool:
        """True between the handshake and the end of the link."""
        return self.agreement is not None and not self.lost.done()

    @property
    def open_streams(self) -> int:
        return len(self._streams)

    async def ready(self) -> None:
        """Wait until both ends agree.

        Raises:
            LinkError: they do not, or the link was lost before.
        """
        await asyncio.shield(self._settled)
        if self.lost.done():
            raise self.lost.result()

    def open(self, header: bytes) -> LinkStream:
        """Open a stream. The header says what it is for.

        Raises:
            LinkLost: the link is not usable.
            LinkBusy: too many streams are open, or the header is too long.
        """
        if not self.is_usable:
            raise self.lost.result() if self.lost.done() else LinkLost("unable to use a link before both ends agree")
        if len(header) > LONGEST_PAYLOAD:
            raise LinkBusy(f"unable to open a stream; its header has {len(header)} bytes, {LONGEST_PAYLOAD} at most")
        stream = self._streams.open()
        self._writer.put(OPEN, stream.number, header)
        return stream

    async def call(self, method: str, payload: bytes, *, timeout: float | None) -> bytes:  # noqa: ASYNC109 - said at each call
        """Call a method of the other node, once. Cancelling the caller cancels the call there.

        Raises:
            RemoteError: the call failed there; `remote_code` says how.
            LinkTimeout: no result came in time.
            LinkLost: the link was lost; the call may or may not have run.
            LinkBusy: too many streams are open; nothing was sent.
        """
        return await call(self.open, method, payload, seconds=timeout, limit=self._settings.message_bytes)

    def stream(self, method: str, payload: bytes) -> AsyncGenerator[bytes, None]:
        """Call a method of the other node and yield the parts of its result as they come; raises as `call` does.

        The other node waits when the parts are not taken. Close the generator (`aclosing`) to cancel the call.
        """
        return stream_call(self.open, method, payload, limit=self._settings.message_bytes)

    def hint(self, topic: str, payload: bytes = b"") -> bool:
        """Send a hint without waiting; return False if the link is slow or lost, and the hint was dropped."""
        encoded = write_hint(topic, payload)
        if not self.is_usable or not self._writer.has_room or len(encoded) > LONGEST_HINT:
            return False
        self._writer.put(HINT, 0, encoded)
        return True

    def close(self) -> None:
        """Send what is pending, then close. Streams that are open are lost."""
        self._writer.flush()
        self._end(LinkLost("unable to use the link; this node has closed it"))

    def abort(self, why: str) -> None:
        """Cut the connection at once; `why` ends the sentence "unable to use the link; …"."""
        self._cut(LinkLost(f"unable to use the link; {why}"))

    def fail(self, error: LinkError) -> None:
        """Give the link up because of this error."""
        self._cut(error)

    async def wait_closed(self) -> None:
        """Wait until the connection of a link that is over is closed; cut it if that takes long."""
        if self._transport is None:
            return
        try:
            async with asyncio.timeout(LINGER):
                await asyncio.shield(self._closed)
        except TimeoutError:
            self._transport.abort()

    # -- asyncio.Protocol ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self.lost.done():
            self._transport.abort()
            return
        self._writer.begin(self._transport)
        for kind, payload in self._handshake.begin():
            self._writer.put(kind, 0, payload)

    def data_received(self, data: bytes) -> None:
        if self.lost.done():
            return
        self._watch.heard()
        try:
            if self.agreement is None:
                self._count_unproven(len(data))
            streams = self._streams
            for kind, number, payload in self._parser.feed(data):
                if kind == DATA and (stream := streams.get(number)) is not None:  # nearly every frame
                    stream.record_came(payload)
                elif self.agreement is not None:
                    self._received(kind, number, payload)
                else:
                    self._shake_hands(kind, payload)
                if self.lost.done():
                    return
        except LinkRefused as exc:
            for kind, payload in self._handshake.refusal(exc):
                self._writer.put(kind, 0, payload)
            self._writer.flush()
            self._end(exc)
        except BadLinkFrame as exc:
            self._cut(exc)

    def pause_writing(self) -> None:
        self._writer.pause()

    def resume_writing(self) -> None:
        self._writer.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        self._over(LinkLost(f"unable to use the link; {exc or 'the other node has closed it'}"))
        self._closed.set_result(None)

    # -- the handshake ------------------------------------------------------------------------------------------

    def _count_unproven(self, size: int) -> None:
        self._unproven_bytes += size
        if self._unproven_bytes > self._settings.handshake_bytes:
            raise BadLinkFrame("unable to link; the other end sent too much before it proved that it knows the secret")

    def _shake_hands(self, kind: int, payload: bytes) -> None:
        for reply, content in self._handshake.received(kind, payload):
            self._writer.put(reply, 0, content)
        if self.agreement is not None:
            self._deadline.cancel()
            self._parser.limit = LONGEST_PAYLOAD
            self._watch.start()
            self._settled.set_result(None)
            if self._on_change is not None:
                self._on_change(self)

    def _run_out(self) -> None:
        self.abort("the other node did not answer in time")

    # -- frames -------------------------------------------------------------------------------------------------

    def _received(self, kind: int, number: int, payload: bytes) -> None:
        if kind == OPEN:
            self._opened(number, payload)
        elif kind == PING:
            self._writer.put(PONG, 0)
        elif kind == HINT:
            if self._services is not None:
                self._services.hinted(payload, self.peer)
        elif (stream := self._streams.get(number)) is not None:  # else it was closed here, and the peer did not know
            if kind == CREDIT:
                stream.credit_came(payload)
            elif kind == END:
                stream.end_came(payload)
            elif kind == RESET:
                stream.reset_came(payload)
            elif kind == STOP:
                stream.stop_came()

    def _opened(self, number: int, header: bytes) -> None:
        try:
            stream = self._streams.accept(number)
        except LinkBusy as exc:
            log.warning("node %d: %s", self.peer, exc)
            self._writer.put(RESET, number, write_failure(exc))
            return
        if self._services is None:
            stream.reset(write_failure(LinkBusy("unable to serve other nodes; this node only asks them")))
        else:
            self._services.opened(stream, header, self.peer)

    # -- the end ------------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        self._writer.put(PING, 0)

    def _silent(self) -> None:
        self.abort(f"the other node was silent for {self._settings.silent_seconds:g} s")

    def _end(self, error: LinkError) -> None:
        """Close after what was written is sent."""
        if self._transport is not None:
            self._transport.close()
        self._over(error)

    def _cut(self, error: LinkError) -> None:
        if self._transport is not None:
            self._transport.abort()
        self._over(error)

    def _over(self, error: LinkError) -> None:
        if self.lost.done():
            return
        self.lost.set_result(error)
        self._deadline.cancel()
        self._watch.stop()
        self._writer.end()
        self._streams.lost(error)
        if not self._settled.done():
            self._settled.set_result(None)
        if self._on_change is not None:
            self._on_change(self)
