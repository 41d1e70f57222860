"""Delivery to one socket: committed events, replays and direct frames, in the order of the log (B5).

`SocketDelivery.run` is the only writer of the socket. It reads the outbox: pages of committed events, direct frames,
and questions of the resume handshake. While it waits, `_deliver_now` stands in for it: the commit callback writes a
chunk to the socket without waking a task.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from starlette.websockets import WebSocketDisconnect

from ..core.replay import TurnReplay
from ..events import RunEnded, RunStarted
from ..ids import Seq
from ..runtime.outbox import ConnectionOutbox
from ..runtime.replay_reader import by_number, read_replay
from ..runtime.subscription import PAGE, PAGE_BYTES, Subscription
from ..runtime.tail import Committed
from ..wire.agent_tool_frames import Known
from ..wire.chat_view import ChatView
from ..wire.managed_stream_view import ManagedStreamView
from ..wire.parse import HandshakeFrame, ResumeAck, ResumeRequest
from .agent_tool_feeds import RunFeeds
from .socket_context import SocketContext
from .socket_progress import SocketProgress
from .socket_transport import SocketTransport
from .transcript_arrival import TranscriptArrival

__all__ = ["SocketDelivery"]

_RUN_EVENTS: Final = frozenset({RunStarted, RunEnded})

ToFrames = Callable[[Sequence[Committed]], list[bytes]]


class SocketDelivery:
    """Turns what is committed into frames and writes them to one socket."""

    def __init__(
        self,
        context: SocketContext,
        transport: SocketTransport,
        outbox: ConnectionOutbox[HandshakeFrame],
        subscription: Subscription,
        view: ChatView,
        arrival: TranscriptArrival,
        *,
        streams: ManagedStreamView | None = None,
        has_protocol: bool = True,
        progress: SocketProgress | None = None,
    ) -> None:
        self._context, self._transport, self._arrival = context, transport, arrival
        self._outbox, self._subscription, self._view = outbox, subscription, view
        self._to_frames: ToFrames = view.happened_all if streams is None else streams.happened_all
        self._has_protocol = has_protocol
        """False for a connection that gets only what the agent sends, and replies to its own frames."""
        self._progress = progress
        """Tells the edge of a relayed socket how far its client is; None for other sockets."""
        self._feeds = RunFeeds(context.directory, context.agent, subscription.wake)
        self._unwritten: list[bytes] = []
        """Frames of `_deliver_now` that did not fit: `run` sends them."""
        self._failure: Exception | None = None
        """What failed in `_deliver_now`: `run` raises it."""

    async def greet(self, frames: list[bytes]) -> None:
        """Send the first frames of a connection."""
        if self._has_protocol:
            await self._send(frames)

    async def run(self, runs: Sequence[Known]) -> None:
        """Replay the sub-agent runs so far, then deliver until the agent stops or the client is gone.

        Raises:
            AgentStopped: nothing more will come.
            WebSocketDisconnect: the client is gone.
        """
        async with aclosing(self._feeds):
            if self._has_protocol:
                async for frames in self._feeds.replay(runs):
                    await self._send(frames)
            while True:
                await self._deliver_next()

    async def _deliver_next(self) -> None:
        item = await self._outbox.poll()
        if item is None:
            if frames := await self._feeds.poll():
                await self._send(frames)
            else:
                await self._report()
                await self._wait()
            return
        if self._progress is not None:
            await self._progress.begin()
        await self._deliver_item(item)
        del item  # only the transport holds it while the client reads
        await self._report()

    async def _report(self) -> None:
        if self._progress is not None and not self._outbox.direct:
            await self._progress.report(self._subscription.cursor)

    @property
    def is_idle(self) -> bool:
        """Whether no sub-agent runs whose frames come from another log."""
        return self._feeds.is_idle

    async def _deliver_item(self, item: list[Committed] | bytes | HandshakeFrame) -> None:
        if isinstance(item, list):
            await self._deliver_events(item, self._to_frames)
        elif isinstance(item, bytes):
            direct = [item]
            del item  # only the transport holds it while the client reads
            await self._send(direct)
        elif isinstance(item, ResumeRequest):
            await self._send(self._view.resume_requested(item))
        else:
            await self._replay(item)

    # -- committed events -----------------------------------------------------------------------------------------

    async def _deliver_events(self, page: list[Committed], to_frames: ToFrames) -> None:
        """Deliver a page in order; the frames of a sub-agent come before the end of its run."""
        first = 0
        for place, committed in enumerate(page):
            event = committed.event
            if type(event) is not RunStarted and type(event) is not RunEnded:
                continue
            before, first = to_frames(page[first:place]), place + 1
            if not self._has_protocol:
                continue
            await self._send(before)
            if isinstance(event, RunStarted):
                await self._send(self._feeds.started(event))
            elif isinstance(event, RunEnded):
                async for frames in self._feeds.ended(event):
                    await self._send(frames)
        last = to_frames(page[first:] if first else page)
        await self._send(last if self._has_protocol else [])

    async def _wait(self) -> None:
        """Wait until something has to be delivered that `_deliver_now` cannot deliver."""
        # The frames of a sub-agent's run are read from its log, which takes time: then only `run` delivers.
        may_deliver_now = self._transport.write_now is not None and self._feeds.is_idle
        self._subscription.set_sink(self._deliver_now if may_deliver_now else None)
        try:
            await self._outbox.wait()
        finally:
            self._subscription.set_sink(None)
        if self._failure is not None:
            failure, self._failure = self._failure, None
            try:
                raise failure
            finally:
                del failure  # avoids a cycle of exception and frame
        if self._unwritten:
            unwritten, self._unwritten = self._unwritten, []
            await self._send(unwritten)

    def _deliver_now(self, committed: Sequence[Committed]) -> bool:
        """Write what was just committed, from the commit callback. False if `run` has to do it, or to go on.

        This is the path of nearly every chunk: commit callback, `ChatView.happened_all`, socket.
        """
        write_now, subscription = self._transport.write_now, self._subscription
        assert write_now is not None
        if self._outbox.direct or subscription.cursor != committed[0].seq - 1 or len(committed) > PAGE:
            return False
        size = 0
        for each in committed:
            size += each.size
            if type(each.event) in _RUN_EVENTS:
                return False
        if size > PAGE_BYTES and len(committed) > 1:
            return False
        if self._progress is not None:
            return self._deliver_flowing(committed, self._progress)
        subscription.cursor = committed[-1].seq
        try:
            frames = self._to_frames(committed)
            if frames and self._has_protocol:
                self._unwritten = write_now(frames)
            if not self._unwritten:
                self._arrival.note_written()
        except OSError:
            self._failure = WebSocketDisconnect(code=1006)
        except Exception as exc:  # noqa: BLE001 - `run` raises it, and the connection ends
            self._failure = exc
        return not self._unwritten and self._failure is None

    def _deliver_flowing(self, committed: Sequence[Committed], progress: SocketProgress) -> bool:
        """Write chunks in full flow with the cursor that they lead to; leave everything else to `run`."""
        if not self._view.is_flowing(committed):
            return False
        try:
            if not progress.write_at(committed[-1].seq, self._to_frames(committed)):
                return False
            self._arrival.note_written()
        except OSError:
            self._failure = WebSocketDisconnect(code=1006)
        self._subscription.cursor = committed[-1].seq
        return self._failure is None

    # -- replays --------------------------------------------------------------------------------------------------

    async def _replay(self, ack: ResumeAck) -> None:
        """Send the turn that the client acknowledged, from its first chunk."""
        needed = self._view.acknowledged(ack)
        if needed is None:
            return
        loaded, slices = self._context.loaded, self._context.settings.slices
        async with slices.build_slots:
            replay = await read_replay(loaded, needed.request)
            if replay.is_continuation and not (needed.is_awaited and replay.begins_empty):
                replay = await by_number(loaded, replay)
            is_open = self._view.is_open(needed.request)
            pieces = slices.slice_frames(self._view.replayed(replay))
        replay = replace(replay, chunks=())  # `pieces` has them
        await self._transport.send_pieces(pieces)
        self._arrival.note_written()
        if replay.is_known and replay.outcome is None and is_open:
            await self._pass_replayed(replay)

    async def _pass_replayed(self, replay: TurnReplay) -> None:
        """Move the cursor to where the replay was read; deliver what else was committed until there."""

        def to_frames(page: Sequence[Committed]) -> list[bytes]:
            return [frame for each in page for frame in self._frames_beside(replay, each)]

        while self._subscription.cursor < replay.head:
            await self._deliver_events(await self._subscription.poll(Seq(replay.head)), to_frames)

    def _frames_beside(self, replay: TurnReplay, committed: Committed) -> list[bytes]:
        if committed.seq <= replay.head:
            return self._view.passed(committed, replay.request)
        return self._view.happened(committed)

    async def _send(self, frames: list[bytes]) -> None:
        await self._transport.send(frames)
        self._arrival.note_written()
