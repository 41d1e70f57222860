"""One WebSocket of the stock client: two tasks, one that reads frames and one that writes them.

Reading turns frames into commands and waits until each is committed, so that what a client sends is decided in the
order in which it was sent. Writing follows the log by cursor; nothing else writes to the socket.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from collections.abc import Callable, Collection, Sequence
from contextlib import aclosing, nullcontext, suppress
from dataclasses import replace
from typing import Any, Final

from starlette.types import Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from ..agents import AIChatAgent
from ..agents.connections import Connection
from ..core.replay import TurnReplay
from ..errors import (
    AgentGone,
    AgentStopped,
    EverywordError,
    LogError,
    MailboxFull,
    public_text,
)
from ..events import RunEnded, RunStarted
from ..ids import AgentId, Seq, split_agent_id
from ..runtime.directory import Directory, LoadedAgent
from ..runtime.outbox import Outbox
from ..runtime.random_ids import random_request_id
from ..runtime.replay_reader import by_number, read_replay
from ..runtime.subscription import PAGE, PAGE_BYTES, Subscription
from ..runtime.tail import Committed
from ..wire import frames
from ..wire.chat_view import ChatView, ViewMemory
from ..wire.managed_stream_view import ManagedStreamView
from ..wire.parse import (
    BadCall,
    CallMethod,
    Other,
    ResumeAck,
    ResumeRequest,
    SetState,
    parse,
)
from .agent_tool_feeds import RunFeeds
from .chat_snapshot import take_snapshot
from .client_commands import ClientCommands, Probe, SocketSettings
from .close_codes import COME_BACK, GOING_AWAY, INTERNAL, TRY_LATER, UNREAD
from .connection_hooks import ConnectionHooks, agent_of
from .incoming_frames import refusal_of, text_of
from .open_connections import ENDED
from .presence import Presence
from .shared_slices import SLICE, FramePiece, joined

__all__ = ["FRAMES", "serve_socket"]

log = logging.getLogger("everyword.server")

FRAMES: Final = "everyword.frames"
"""An extension of ASGI, for servers that take many at once: a message of this type has `frames`, texts in UTF-8.

More than a server writes at once comes as `pieces` instead, slices that clients share. What the extension has as
`write` takes some frames without waiting, and returns those that it has no room for yet."""

_serials = itertools.count(1)
_process_mark = secrets.token_hex(3)
"""Serials are in the log, where those of other processes are, too: one must not be taken for another."""

_OF_RUNS: Final = frozenset({RunStarted, RunEnded})


async def serve_socket(
    websocket: WebSocket,
    directory: Directory,
    agent: AgentId,
    presence: Presence,
    settings: SocketSettings,
    send: Send | None = None,
) -> None:
    """Accept the socket and serve it until one side closes. Never raises for what a client does.

    `send` is the server's own, if the caller has it: the way around what Starlette checks at each frame.
    """
    await websocket.accept()
    owner = websocket.query_params.get("_pk") or random_request_id()
    code, reason = 1000, ""
    try:
        with presence.present(agent, owner):
            async with directory.attach(agent) as loaded, loaded.subscribe() as subscription:
                socket = _Socket(
                    websocket, directory, loaded, subscription, presence, settings, owner, send or websocket.send
                )
                with settings.admissions.admit(settings.permit, socket.end) if settings.admissions else nullcontext():
                    code, reason = await socket.serve()
    except WebSocketDisconnect:
        return
    except AgentGone:
        code, reason = GOING_AWAY, "Agent destroyed"
    except MailboxFull as exc:
        code, reason = TRY_LATER, public_text(exc, "come back in a moment")
    except (AgentStopped, LogError):
        code, reason = (COME_BACK, "restarting") if directory.is_stopping else (TRY_LATER, "come back in a moment")
    except Exception:
        log.exception("a socket of %r failed", agent)
        code, reason = INTERNAL, "internal error"
    with suppress(RuntimeError, WebSocketDisconnect):  # the client may be gone already
        await websocket.close(code, reason[:100])


def _failure_of(task: asyncio.Task[None], done: Collection[asyncio.Future[Any]]) -> BaseException | None:
    return task.exception() if task in done and not task.cancelled() else None


def _close_code(reading: asyncio.Task[None]) -> tuple[int, str]:
    """Return why a socket is gone, as its reader heard it."""
    exc = None if reading.cancelled() else reading.exception()
    return (exc.code, exc.reason or "") if isinstance(exc, WebSocketDisconnect) else (1006, "")


class _Socket:
    """One connection while it is served."""

    def __init__(
        self,
        websocket: WebSocket,
        directory: Directory,
        loaded: LoadedAgent,
        subscription: Subscription,
        presence: Presence,
        settings: SocketSettings,
        owner: str,
        send: Send,
    ) -> None:
        extension = websocket.scope.get("extensions", {}).get(FRAMES)
        self._to_client, self._takes_many = send, extension is not None
        self._write_frames: Callable[[list[bytes]], list[bytes]] | None = (extension or {}).get("write")
        self._left: list[bytes] = []
        """Frames that there was no room for when they were told at once."""
        self._failure: Exception | None = None
        """What went wrong when something was told at once: the writer's to raise."""
        self._websocket, self._directory, self._loaded = websocket, directory, loaded
        self._subscription, self._presence, self._settings = subscription, presence, settings
        self._owner, self._serial = owner, f"s{next(_serials)}-{_process_mark}"
        self._outbox: Outbox[Probe] = Outbox(subscription, max_bytes=settings.max_unread)
        self._closed: asyncio.Future[tuple[int, str]] = asyncio.get_running_loop().create_future()
        """Set when the agent's own code closes the socket."""
        own = agent_of(loaded)
        self._is_chat = own is None or isinstance(own, AIChatAgent)
        self._host = ConnectionHooks(loaded, own, self._connection(), self._outbox.post) if own is not None else None
        self._is_told = self._host is None or self._host.prepare()
        """Whether it is told of what happens, or only what the agent sends and what it asked for itself."""

    async def serve(self) -> tuple[int, str]:
        """Read and write until one of the two is over, and raise why; or until the agent closes it, and return how."""
        view = await self._greet()
        if self._host is not None:
            self._host.joined()
        reading = asyncio.create_task(self._read(), name=f"reader of {self._serial}")
        writing = asyncio.create_task(self._write(view), name=f"writer of {self._serial}")
        try:
            over: list[asyncio.Future[Any]] = [reading, writing, self._closed]
            done, _ = await asyncio.wait(over, return_when=asyncio.FIRST_COMPLETED)
        finally:
            reading.cancel()
            writing.cancel()
            await asyncio.wait([reading, writing])
            self._outbox.close()
            if self._host is not None:
                self._host.left(*_close_code(reading))
        failure = _failure_of(reading, done) or _failure_of(writing, done)
        if failure is not None:
            # What is raised knows this frame; if the frame knew it too, both would wait for the collector.
            del reading, writing, over, done
            try:
                raise failure
            finally:
                del failure
        return self._closed.result() if self._closed.done() else (1000, "")

    def end(self) -> None:
        """Close the socket because its client's time is over; the stock client comes back, and is asked who it is."""
        if not self._closed.done():
            self._closed.set_result((COME_BACK, ENDED))

    def _connection(self) -> Connection:
        outbox, closed = self._outbox, self._closed  # not the socket itself, which has the connection

        def send(message: object) -> None:
            if closed.done():
                return
            try:
                outbox.post(frames.text_frame(message))
            except MailboxFull:
                close(TRY_LATER, UNREAD)

        def close(code: int, reason: str) -> None:
            if not closed.done():
                closed.set_result((code, reason))

        async def drain() -> None:
            if outbox.has_room:
                return
            try:
                async with asyncio.timeout(seconds):
                    await outbox.drain()
            except TimeoutError:
                close(TRY_LATER, UNREAD)

        seconds = self._settings.unread_seconds
        request, principal = self._websocket, self._settings.permit.principal
        doors: Any = {"send": send, "close": close, "drain": drain}
        since = self._directory.clock.now() / 1000
        return Connection(self._serial, self._owner, **doors, request=request, principal=principal, since=since)

    # -- writing -------------------------------------------------------------------------------------------------

    async def _greet(self) -> ChatView:
        """Send the connect frames: what the chat is doing, who this is, the (empty) list of MCP servers."""
        agent, reconciler, presence = self._loaded.actor.agent, self._loaded.reconciler, self._presence
        snapshot = await take_snapshot(self._loaded)
        self._subscription.skip_to(snapshot.head)
        view = ChatView(
            ViewMemory.new(snapshot),
            socket=self._serial,
            owner=self._owner,
            transcript=lambda: reconciler.view.conversation,
            is_present=lambda owner: presence.is_present(agent, owner),
            is_shown=reconciler.view.shows,
            is_followed=reconciler.view.is_followed,
        )
        self._commands = ClientCommands(
            self._directory,
            self._loaded,
            self._settings,
            self._host,
            self._outbox,
            view.client_list,
            serial=self._serial,
            owner=self._owner,
        )
        self._runs = snapshot.runs
        self._happened = view.happened_all if self._is_chat else ManagedStreamView(snapshot.streams, view).happened_all
        kind, name = split_agent_id(agent)
        value = self._host.state() if self._host is not None else None
        state = [frames.state(value)] if value is not None else []
        identity = frames.identity(name, kind, state_follows=bool(state))
        chat = view.connected() if self._is_chat else []
        if self._is_told:
            await self._send([*chat, identity, *state, frames.mcp_servers()])
        return view

    async def _write(self, view: ChatView) -> None:
        async with aclosing(RunFeeds(self._directory, self._loaded.actor.agent, self._subscription.wake)) as feeds:
            self._feeds = feeds
            if self._is_told:
                async for told in feeds.replay(self._runs):
                    await self._send(told)
            await self._write_on(view)

    async def _write_on(self, view: ChatView) -> None:
        while True:
            item = await self._outbox.poll()
            if item is None:
                if told := await self._feeds.poll():
                    await self._send(told)
                else:
                    await self._wait()
            elif isinstance(item, bytes):
                outgoing = [item]
                del item  # only `_send` holds it while the client reads
                await self._send(outgoing)
            elif isinstance(item, list):
                await self._tell(item, self._happened)
            elif isinstance(item, ResumeRequest):
                await self._send(view.resume_requested(item))
            else:
                await self._replay(view, item)

    async def _wait(self) -> None:
        """Wait until there is something that cannot be told at once."""
        # A run of a sub-agent takes its time to be told of; only this task begins to follow one.
        may_use_sink = self._write_frames is not None and self._feeds.is_idle
        self._subscription.set_sink(self._tell_at_once if may_use_sink else None)
        try:
            await self._outbox.wait()
        finally:
            self._subscription.set_sink(None)
        if self._failure is not None:
            failure, self._failure = self._failure, None
            try:
                raise failure
            finally:
                del failure  # as in `serve`
        if self._left:
            left, self._left = self._left, []
            await self._send(left)

    def _tell_at_once(self, committed: Sequence[Committed]) -> bool:
        """Tell of what has just been committed, as the writer would; False if that takes its time, or goes wrong."""
        assert self._write_frames is not None
        subscription = self._subscription
        if self._outbox.direct or subscription.cursor != committed[0].seq - 1 or len(committed) > PAGE:
            return False
        size = 0
        for each in committed:
            size += each.size
            if type(each.event) in _OF_RUNS:
                return False
        if size > PAGE_BYTES and len(committed) > 1:
            return False
        subscription.cursor = committed[-1].seq
        try:
            told = self._happened(committed)
            if told and self._is_told:
                self._left = self._write_frames(told)
            if not self._left:
                self._commands.has_written()
        except OSError:
            self._failure = WebSocketDisconnect(code=1006)
        except Exception as exc:  # noqa: BLE001 - as in the writer's own task: it ends the connection
            self._failure = exc
        return not self._left and self._failure is None

    async def _tell(self, page: list[Committed], happened: Callable[[list[Committed]], list[bytes]]) -> None:
        """Tell of some events, in order: what a sub-agent said comes before its run's end."""
        first = 0
        for place, committed in enumerate(page):
            event = committed.event
            if type(event) is not RunStarted and type(event) is not RunEnded:
                continue
            before, first = happened(page[first:place]), place + 1
            if not self._is_told:
                continue
            await self._send(before)
            if isinstance(event, RunStarted):
                await self._send(self._feeds.started(event))
            elif isinstance(event, RunEnded):
                async for told in self._feeds.ended(event):
                    await self._send(told)
        last = happened(page[first:] if first else page)
        await self._send(last if self._is_told else [])

    async def _replay(self, view: ChatView, ack: ResumeAck) -> None:
        needed = view.acknowledged(ack)
        if needed is None:
            return
        async with self._settings.sharing.making:
            replay = await read_replay(self._loaded, needed.request)
            if replay.is_continuation and not (needed.is_awaited and replay.begins_empty):
                replay = await by_number(self._loaded, replay)
            is_open = view.is_open(needed.request)
            outgoing = self._settings.sharing.cut(view.replayed(replay))
        replay = replace(replay, chunks=())  # they are in what goes out
        await self._send([], outgoing)
        if replay.is_known and replay.outcome is None and is_open:
            await self._pass_over(view, replay)

    async def _pass_over(self, view: ChatView, replay: TurnReplay) -> None:
        """Move the cursor to where the replay was taken; what else happened until there is told."""
        while self._subscription.cursor < replay.head:
            await self._tell(await self._subscription.poll(Seq(replay.head)), lambda part: _passed(view, replay, part))

    async def _send(self, outgoing: list[bytes], pieces: list[FramePiece] | None = None) -> None:
        """Send frames, and then pieces of some, as the client reads them. Takes them out of the lists."""
        if not pieces and sum(map(len, outgoing)) > SLICE:
            pieces = self._settings.sharing.cut(outgoing)
        # Straight to the server: Starlette's own `send_text` checks, for each token, what is known here.
        try:
            if self._takes_many:
                if pieces:
                    await self._to_client({"type": FRAMES, "frames": (), "pieces": pieces})
                elif outgoing:
                    await self._to_client({"type": FRAMES, "frames": outgoing})
            else:
                for frame in joined(pieces) if pieces else outgoing:
                    await self._to_client({"type": "websocket.send", "text": frame.decode()})
        except OSError:
            raise WebSocketDisconnect(code=1006) from None
        self._commands.has_written()

    # -- reading -------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        while True:
            message = await self._websocket.receive()
            text = text_of(message)
            try:
                frame = refusal_of(message, text, self._settings.max_frame) or parse(text)
                if not self._is_chat and not isinstance(frame, SetState | CallMethod | BadCall):
                    frame = Other(text)  # who does not chat is told what others say, as it came
                await self._commands.received(frame)
            except (AgentStopped, MailboxFull, LogError):
                raise
            except EverywordError as exc:
                log.info("%r refused a frame of %s: %s", self._loaded.actor.agent, self._serial, exc)


def _passed(view: ChatView, replay: TurnReplay, page: list[Committed]) -> list[bytes]:
    return [
        frame
        for each in page
        for frame in (view.passed(each, replay.request) if each.seq <= replay.head else view.happened(each))
    ]
