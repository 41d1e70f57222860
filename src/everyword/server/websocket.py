"""One WebSocket of the stock client: accept it, greet it, then read and write until one side closes.

Two tasks run per socket. The reader (`_Socket._read`) turns each frame into a command and waits until it is committed,
so that the frames of a client are decided in the order in which they were sent. The writer (`SocketDelivery.run`)
follows the log by cursor; nothing else writes to the socket.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from collections.abc import Callable, Collection, Coroutine
from contextlib import nullcontext, suppress
from typing import Any

import msgspec
from starlette.types import Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from ..agents import AIChatAgent
from ..agents.connections import Connection
from ..cluster.relay_header import MOVES
from ..errors import (
    AgentGone,
    AgentStopped,
    EverywordError,
    LogError,
    MailboxFull,
    public_text,
)
from ..ids import AgentId, split_agent_id
from ..runtime.directory import Directory, LoadedAgent
from ..runtime.outbox import ConnectionOutbox
from ..runtime.random_ids import random_request_id
from ..runtime.subscription import Subscription
from ..wire import frames
from ..wire.chat_view import ChatView, ViewMemory
from ..wire.connection_turns import ChatSnapshot
from ..wire.managed_stream_view import ManagedStreamView
from ..wire.parse import BadCall, CallMethod, HandshakeFrame, Other, SetState, parse
from .chat_snapshot import take_snapshot
from .client_commands import ClientCommands
from .close_codes import COME_BACK, GOING_AWAY, INTERNAL, TRY_LATER
from .connected_clients import ConnectedClients
from .connection_hooks import ConnectionHooks, agent_of
from .incoming_frames import refusal_of, text_of
from .refusals import SESSION_ENDED, TRY_AGAIN, UNREAD
from .socket_context import SocketContext, SocketSettings
from .socket_delivery import SocketDelivery
from .socket_progress import SocketProgress, SocketResume, resumed_from
from .socket_transport import SocketTransport
from .transcript_arrival import TranscriptArrival

__all__ = ["serve_socket"]

NOT_CLOSED = 1006
"""The code of a connection that was lost, or that the server ends."""

log = logging.getLogger("everyword.server")

_serials = itertools.count(1)
_process_mark = secrets.token_hex(3)
"""Part of every serial: serials are stored in the log, beside those of other processes, and must differ from them."""


async def serve_socket(
    websocket: WebSocket,
    directory: Directory,
    agent: AgentId,
    clients: ConnectedClients,
    settings: SocketSettings,
    send: Send | None = None,
) -> None:
    """Accept the socket and serve it until one side closes. Never raises for what a client does.

    `send` is the server's own, if the caller has it: it skips the checks that Starlette makes for each frame.
    """
    await websocket.accept()
    owner = websocket.query_params.get("_pk") or random_request_id()
    code, reason, moves = 1000, "", False
    loaded: LoadedAgent | None = None
    resumed = resumed_from(websocket.scope)
    try:
        with clients.present(agent, owner):
            cursor = resumed[1] if resumed is not None else None
            async with directory.attach(agent) as loaded, loaded.subscribe(cursor) as subscription:
                serial = f"s{next(_serials)}-{_process_mark}" if resumed is None else resumed[0].serial
                context = SocketContext(directory, loaded, settings, serial, owner)
                transport = SocketTransport(websocket.scope, send or websocket.send, settings.slices)
                socket = _Socket(websocket, context, subscription, resumed[0] if resumed is not None else None)
                opened = settings.open_connections
                with (
                    opened.admit(settings.permit, socket.end) if opened is not None else nullcontext(),
                    directory.presence.join(context.agent, settings.permit.principal.identity),
                    directory.presence.watch(context.agent, socket.tell_presence),
                ):
                    code, reason = await socket.serve(transport, subscription, clients)
    except WebSocketDisconnect:
        return
    except AgentGone:
        code, reason = GOING_AWAY, "Agent destroyed"
    except MailboxFull as exc:
        code, reason = TRY_LATER, public_text(exc, TRY_AGAIN)
    except (AgentStopped, LogError):
        moves = _is_given_up(directory, loaded)
        code, reason = (COME_BACK, "restarting") if directory.is_stopping else (TRY_LATER, TRY_AGAIN)
    except Exception:
        log.exception("a socket of %r failed", agent)
        code, reason = INTERNAL, "internal error"
    with suppress(RuntimeError, WebSocketDisconnect):  # the client may be gone already
        await websocket.send({"type": "websocket.close", "code": code, "reason": reason[:100], MOVES: moves})


def _is_given_up(directory: Directory, loaded: LoadedAgent | None) -> bool:
    """Whether this process stops, has lost its lease, or gave the agent up: another process serves it next."""
    has_lost_lease = directory.ownership is not None and not directory.ownership.nodes.is_valid
    return directory.is_stopping or has_lost_lease or (loaded is not None and loaded.actor.is_halted)


def _failure_of(task: asyncio.Task[None], done: Collection[asyncio.Future[Any]]) -> BaseException | None:
    return task.exception() if task in done and not task.cancelled() else None


def _close_code(reading: asyncio.Task[None]) -> tuple[int, str]:
    """Return the code and the reason with which the client closed the socket; 1006 if it did not."""
    exc = None if reading.cancelled() else reading.exception()
    return (exc.code, exc.reason or "") if isinstance(exc, WebSocketDisconnect) else (NOT_CLOSED, "")


class _Socket:
    """One connection while it is served."""

    def __init__(
        self,
        websocket: WebSocket,
        context: SocketContext,
        subscription: Subscription,
        resumed: SocketResume | None = None,
    ) -> None:
        self._websocket, self._context, self._resumed = websocket, context, resumed
        self._progress: SocketProgress | None = None
        self._outbox: ConnectionOutbox[HandshakeFrame] = ConnectionOutbox(
            subscription, max_bytes=context.settings.max_unread
        )
        self._closed: asyncio.Future[tuple[int, str]] = asyncio.get_running_loop().create_future()
        """Set when the server closes the socket: the agent's own code asked for it, or the principal expired."""
        own = agent_of(context.loaded)
        self._sender = ConnectionSender(self._outbox, self._closed, context.settings.unread_seconds)
        self._shows_presence = websocket.query_params.get("presence") == "1"
        """Whether the client is told who is connected: it asks for it, because others expect no such frame."""
        self._is_chat = own is None or isinstance(own, AIChatAgent)
        self._hooks: ConnectionHooks | None = None
        if own is not None:
            self._hooks = ConnectionHooks(context.loaded, own, self._connection(), self._outbox.post)
        self._has_protocol = self._hooks is None or self._hooks.prepare()
        """False for a connection that gets only what the agent sends, and replies to its own frames."""

    def _connection(self) -> Connection:
        sender = self._sender
        connection = Connection(
            self._context.serial,
            self._context.owner,
            send=sender.send,
            close=sender.close,
            drain=sender.drain,
            request=self._websocket,
            principal=self._context.settings.permit.principal,
            since=self._context.directory.clock.now() / 1000 if self._resumed is None else self._resumed.since,
        )
        if self._resumed is not None and isinstance(self._resumed.state, dict):
            connection.state = self._resumed.state
        return connection

    async def serve(
        self, transport: SocketTransport, subscription: Subscription, clients: ConnectedClients
    ) -> tuple[int, str]:
        """Serve until one side closes; return the close code and the reason, or raise what ended the connection."""
        snapshot = await take_snapshot(self._context.loaded)
        if self._resumed is None:
            subscription.skip_to(snapshot.head)
        view = _new_view(self._context, self._memory(snapshot), clients)
        arrival = TranscriptArrival(view.client_list, self._context.directory.clock)
        commands = ClientCommands(self._context, self._hooks, self._outbox, view.client_list, arrival)
        delivery = SocketDelivery(
            self._context,
            transport,
            self._outbox,
            subscription,
            view,
            arrival,
            streams=None if self._is_chat else ManagedStreamView(snapshot.streams, view),
            has_protocol=self._has_protocol,
            progress=self._progress_of(transport, view, lambda: delivery.is_idle),
        )
        self._context.check_lease()
        if self._resumed is None:
            await delivery.greet(self._greeting(view))
        self.tell_presence()
        if self._hooks is not None:
            self._hooks.joined() if self._resumed is None else self._hooks.resumed()
        return await self._until_closed(self._read(commands), delivery.run(snapshot.runs))

    def _memory(self, snapshot: ChatSnapshot) -> ViewMemory:
        return ViewMemory.new(snapshot) if self._resumed is None else ViewMemory.decode(bytes(self._resumed.view))

    def _progress_of(
        self, transport: SocketTransport, view: ChatView, is_idle: Callable[[], bool]
    ) -> SocketProgress | None:
        """Return what tells the edge of a relayed chat how far it is; None for other sockets."""
        if not self._is_chat or not self._has_protocol:
            return None
        connection = self._hooks.connection if self._hooks is not None else None

        def resume() -> SocketResume | None:
            try:
                state = msgspec.to_builtins(connection.state) if connection is not None else None
                since = connection.since if connection is not None else 0.0
                return SocketResume(msgspec.Raw(view.memory.encode()), self._context.serial, since, state)
            except (TypeError, msgspec.MsgspecError):
                return None  # a state that has no JSON form stays here

        def is_busy() -> bool:
            return not is_idle() or (self._hooks is not None and self._hooks.is_busy)

        self._progress = SocketProgress.for_socket(
            self._websocket.scope, transport.send_message, resume=resume, is_busy=is_busy
        )
        return self._progress

    async def _until_closed(self, read: Coroutine[Any, Any, None], write: Coroutine[Any, Any, None]) -> tuple[int, str]:
        reading = asyncio.create_task(read, name=f"reader of {self._context.serial}")
        writing = asyncio.create_task(write, name=f"writer of {self._context.serial}")
        try:
            over: list[asyncio.Future[Any]] = [reading, writing, self._closed]
            done, _ = await asyncio.wait(over, return_when=asyncio.FIRST_COMPLETED)
        finally:
            reading.cancel()
            writing.cancel()
            await asyncio.wait([reading, writing])
            self._outbox.close()
            code, reason = _close_code(reading)
            is_moving = code == NOT_CLOSED and self._is_moving()
            if self._hooks is not None:
                self._hooks.left(code, reason, is_moving=is_moving)
            if self._progress is not None:
                self._progress.end()
        failure = _failure_of(reading, done) or _failure_of(writing, done)
        if failure is not None:
            # Drop the references: the exception refers to this frame, and both would wait for the garbage collector.
            del reading, writing, over, done
            try:
                raise failure
            finally:
                del failure
        return self._closed.result() if self._closed.done() else (1000, "")

    def _is_moving(self) -> bool:
        """Whether the node with the client takes it to the next owner of the agent."""
        context, can_move = self._context, self._progress is not None and self._progress.can_move
        return can_move and _is_given_up(context.directory, context.loaded) and not context.loaded.is_destroyed

    def end(self) -> None:
        """Close the socket because its principal expired or was revoked; the stock client connects again."""
        if not self._closed.done():
            self._closed.set_result((COME_BACK, SESSION_ENDED))

    def tell_presence(self) -> None:
        """Send the list of connected principals, to a client that asked for it."""
        if self._shows_presence:
            here = self._context.directory.presence.principals(self._context.agent)
            self._sender.send(frames.presence([(who.id, who.name) for who in here]).decode())

    def _greeting(self, view: ChatView) -> list[bytes]:
        """Return the first frames: what the chat is doing, the agent's identity, its state, the MCP servers (none)."""
        kind, name = split_agent_id(self._context.agent)
        value = self._hooks.state() if self._hooks is not None else None
        state = [frames.state(value)] if value is not None else []
        identity = frames.identity(name, kind, state_follows=bool(state))
        chat = view.connected() if self._is_chat else []
        return [*chat, identity, *state, frames.mcp_servers()]

    async def _read(self, commands: ClientCommands) -> None:
        while True:
            message = await self._websocket.receive()
            text = text_of(message)
            try:
                frame = refusal_of(message, text, self._context.settings.max_frame) or parse(text)
                if not self._is_chat and not isinstance(frame, SetState | CallMethod | BadCall):
                    frame = Other(text)  # frames of the chat are not for this agent: its `on_message` gets them
                self._context.check_lease()  # the timer that drops the agents may run after this frame is read
                await commands.received(frame)
            except (AgentStopped, MailboxFull, LogError):
                raise
            except EverywordError as exc:
                log.info("%r refused a frame of %s: %s", self._context.agent, self._context.serial, exc)
            if self._progress is not None:
                self._progress.taken += 1


class ConnectionSender:
    """What a `Connection` can do to its socket: send, close, and wait until the client has read."""

    def __init__(
        self, outbox: ConnectionOutbox[HandshakeFrame], closed: asyncio.Future[tuple[int, str]], unread_seconds: float
    ) -> None:
        self._outbox, self._closed, self._unread_seconds = outbox, closed, unread_seconds

    def send(self, message: object) -> None:
        """Send a message in order with the events; close the socket if its client does not read."""
        if self._closed.done():
            return
        try:
            self._outbox.post(frames.text_frame(message))
        except MailboxFull:
            self.close(TRY_LATER, UNREAD)

    def close(self, code: int, reason: str) -> None:
        if not self._closed.done():
            self._closed.set_result((code, reason))

    async def drain(self) -> None:
        """Wait until half of the outbox is free; close the socket if that takes longer than `unread_seconds`."""
        if self._outbox.has_room:
            return
        try:
            async with asyncio.timeout(self._unread_seconds):
                await self._outbox.drain()
        except TimeoutError:
            self.close(TRY_LATER, UNREAD)


def _new_view(context: SocketContext, memory: ViewMemory, clients: ConnectedClients) -> ChatView:
    agent, reconciler = context.agent, context.loaded.reconciler
    return ChatView(
        memory,
        socket=context.serial,
        owner=context.owner,
        transcript=lambda: reconciler.view.conversation,
        is_present=lambda owner: clients.is_present(agent, owner),
        is_shown=reconciler.view.shows,
        is_followed=reconciler.view.is_followed,
    )
