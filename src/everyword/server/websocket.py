"""One WebSocket of the stock client: two tasks, one that reads frames and one that writes them.

Reading turns frames into commands and waits until each is committed, so that what a client sends is decided in the
order in which it was sent. Writing follows the log by cursor; nothing else writes to the socket.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, assert_never

from starlette.types import Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from ..agents import AIChatAgent
from ..agents.connections import Connection
from ..core.commands import Answer, Cancel, Clear, Command, PutMessages, Submit
from ..core.project import turn_row
from ..core.replay import TurnReplay
from ..core.state import RECENT_TURNS, State
from ..errors import (
    AgentGone,
    AgentStopped,
    EverywordError,
    LogError,
    MailboxFull,
    MessageRefused,
    Rejected,
    public_text,
)
from ..events import Outcome, RunEnded, RunStarted, TurnAccepted, decode_event
from ..ids import AgentId, Millis, RequestId, Seq, split_agent_id
from ..rows import TurnRow
from ..runtime.directory import Directory, Loaded
from ..runtime.fresh import fresh_message_id, fresh_request_id
from ..runtime.outbox import Outbox
from ..runtime.replays import by_number, read_replay
from ..runtime.subscription import PAGE, PAGE_BYTES, Subscription
from ..runtime.tail import Committed
from ..wire import frames
from ..wire.chat import ChatView
from ..wire.parse import (
    AnswerCall,
    BadCall,
    BadRequest,
    CallMethod,
    CancelTurn,
    ChatRequest,
    ClearChat,
    ClientFrame,
    Other,
    ResumeAck,
    ResumeRequest,
    SetState,
    SyncMessages,
    parse,
)
from ..wire.streams import StreamView
from .close_codes import COME_BACK, GOING_AWAY, INTERNAL, TRY_LATER, UNREAD
from .hosting import Host, agent_of
from .lists import is_new, is_stale, is_stored
from .presence import Presence
from .receiving import refusal_of, text_of
from .runs import RunFeeds
from .sharing import SLICE, Piece, Sharing, joined
from .snapshots import take_snapshot

__all__ = ["FRAMES", "SocketSettings", "serve_socket"]

log = logging.getLogger("everyword.server")

FRAMES: Final = "everyword.frames"
"""An extension of ASGI, for servers that take many at once: a message of this type has `frames`, texts in UTF-8.

More than a server writes at once comes as `pieces` instead, slices that clients share. What the extension has as
`write` takes some frames without waiting, and returns those that it has no room for yet."""

ARRIVED_AFTER = 10_000
"""Milliseconds after which a frame that was written has reached its client, or never will."""

_serials = itertools.count(1)

_OF_RUNS: Final = frozenset({RunStarted, RunEnded})

Question = ResumeRequest | ResumeAck


@dataclass(frozen=True, slots=True)
class SocketSettings:
    """What one socket may do."""

    max_frame: int = 32 * 1024 * 1024
    max_unread: int = 4 * 1024 * 1024
    """Bytes that may wait to be sent besides what is in the log."""
    unread_seconds: float = 20.0
    """How long is waited until half of that is read."""
    is_read_only: bool = False
    principal: str | None = None
    """Who it is, for the record; without one it is the client's own word for itself."""
    may_ask: Callable[[], int] = lambda: 0
    """Counts a turn that is asked for; returns how many milliseconds too early it is."""
    may_call: Callable[[], int] = lambda: 0
    """Counts a call of a method; returns how many milliseconds too early it is."""
    sharing: Sharing = field(default_factory=Sharing)
    """Where sockets share what they are sent alike."""


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
    owner = websocket.query_params.get("_pk") or fresh_request_id()
    code, reason = 1000, ""
    try:
        with presence.present(agent, owner):
            async with directory.attach(agent) as loaded, loaded.subscribe() as subscription:
                socket = _Socket(
                    websocket, directory, loaded, subscription, presence, settings, owner, send or websocket.send
                )
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
        loaded: Loaded,
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
        self._owner, self._serial = owner, f"s{next(_serials)}"
        self._view: ChatView | None = None
        self._shown = (0, Millis(0))
        """How many transcripts were written, and when the last one was."""
        self._outbox: Outbox[Question] = Outbox(subscription, max_bytes=settings.max_unread)
        self._closed: asyncio.Future[tuple[int, str]] = asyncio.get_running_loop().create_future()
        """Set when the agent's own code closes the socket."""
        own = agent_of(loaded)
        self._is_chat = own is None or isinstance(own, AIChatAgent)
        self._host = Host(loaded, own, self._connection(), self._outbox.post) if own is not None else None
        self._is_told = self._host is None or self._host.has_protocol()
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

        is_readonly, seconds = self._settings.is_read_only, self._settings.unread_seconds
        request = self._websocket
        doors: Any = {"send": send, "close": close, "drain": drain}
        return Connection(self._serial, self._owner, **doors, request=request, is_readonly=is_readonly)

    # -- writing -------------------------------------------------------------------------------------------------

    async def _greet(self) -> ChatView:
        """Send the connect frames: what the chat is doing, who this is, the (empty) list of MCP servers."""
        agent, agency, presence = self._loaded.actor.agent, self._loaded.agency, self._presence
        snapshot = await take_snapshot(self._loaded)
        self._subscription.skip_to(snapshot.head)
        view = ChatView(
            snapshot,
            socket=self._serial,
            owner=self._owner,
            transcript=lambda: agency.conversation,
            is_present=lambda owner: presence.is_present(agent, owner),
            is_shown=agency.shows,
            is_followed=agency.is_followed,
        )
        self._view, self._runs = view, snapshot.runs
        self._happened = view.happened_all if self._is_chat else StreamView(snapshot.streams, view).happened_all
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
        may_stand_in = self._write_frames is not None and self._feeds.is_idle
        self._subscription.stand_in(self._tell_at_once if may_stand_in else None)
        try:
            await self._outbox.wait()
        finally:
            self._subscription.stand_in(None)
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
                self._note_transcripts()
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
            if replay.is_continuation:
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

    async def _send(self, outgoing: list[bytes], pieces: list[Piece] | None = None) -> None:
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
        self._note_transcripts()

    def _note_transcripts(self) -> None:
        if self._view is not None and self._view.transcripts != self._shown[0]:
            self._shown = (self._view.transcripts, self._directory.clock.now())

    # -- reading -------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        while True:
            message = await self._websocket.receive()
            text = text_of(message)
            try:
                frame = refusal_of(message, text, self._settings.max_frame) or parse(text)
                if not self._is_chat and not isinstance(frame, SetState | CallMethod | BadCall):
                    frame = Other(text)  # who does not chat is told what others say, as it came
                await self._received(frame)
            except (AgentStopped, MailboxFull, LogError):
                raise
            except EverywordError as exc:
                log.info("%r refused a frame of %s: %s", self._loaded.actor.agent, self._serial, exc)

    async def _received(self, frame: ClientFrame) -> None:
        match frame:
            case ResumeRequest() | ResumeAck():
                self._outbox.post(frame)
            case BadRequest():
                self._fail(frame.id, frame.text)
            case BadCall():
                self._outbox.post(frames.rpc_error(frame.id, frame.text))
            case ChatRequest():
                await self._ask_turn(frame)
            case SetState() | CallMethod() | Other():
                await self._meet(frame)
            case CancelTurn() | ClearChat() | SyncMessages() | AnswerCall():
                if not self._settings.is_read_only:
                    await self._command(frame)
                elif not isinstance(frame, CancelTurn):
                    self._show()  # the client has changed its own list already
            case _:
                assert_never(frame)

    async def _meet(self, frame: SetState | CallMethod | Other) -> None:
        """Hand over what is for the agent's own code."""
        if self._host is None:  # a responder that is no agent: it has no state and no methods
            if isinstance(frame, SetState):
                self._outbox.post(frames.state_error("State update rejected"))
            elif isinstance(frame, CallMethod):
                self._outbox.post(frames.rpc_error(frame.id, f"Method {frame.method} does not exist"))
        elif isinstance(frame, SetState):
            await self._host.set_state(frame)
        elif isinstance(frame, CallMethod):
            early = self._settings.may_call()
            if early:
                text = f"unable to call {frame.method} that often; wait {early // 1000 + 1} s"
                self._outbox.post(frames.rpc_error(frame.id, text))
            else:
                await self._host.connection.drain()  # no more calls are taken than replies are read
                self._host.call(frame)
        else:
            self._host.heard(frame.text)

    async def _command(self, frame: CancelTurn | ClearChat | SyncMessages | AnswerCall) -> None:
        actor = self._loaded.actor
        match frame:
            case CancelTurn():
                await actor.insist(Cancel(frame.id, by=self._settings.principal or self._owner))
            case ClearChat():
                await actor.insist(Clear(origin=self._serial))
            case SyncMessages():
                await self._sync(frame)
            case AnswerCall():
                await actor.ask(self._answer(frame))
            case _:
                assert_never(frame)

    async def _sync(self, frame: SyncMessages) -> None:
        """Store a client's list, or nothing of it; the client is sent the stored one if that is another (R-8)."""
        actor = self._loaded.actor
        try:
            if not frame.is_whole:
                raise MessageRefused("unable to take the messages; one of them has no id, no role or no parts")
            await actor.ask(PutMessages(frame.messages, trusted=False, cause="synced", origin=self._serial))
        except (AgentStopped, MailboxFull):
            raise
        except Rejected as exc:
            log.info("%r refused the messages of %s: %s", actor.agent, self._serial, exc)
        if not await actor.inspect(lambda state: is_stored(state, frame)):
            self._show()

    def _answer(self, frame: AnswerCall) -> Command:
        return Answer(
            frame.call,
            frame.answer,
            fresh_request_id(),
            auto_continue=frame.auto_continue,
            by=self._settings.principal or self._owner,
            origin=self._serial,
            owner=self._owner,
            client_tools=frame.client_tools,
        )

    async def _ask_turn(self, frame: ChatRequest) -> None:
        if self._settings.is_read_only:
            self._fail(frame.id, "unable to ask; this connection may only watch")
            return
        if self._directory.has_lost_store:
            self._fail(frame.id, "unable to ask; the server cannot store anything. Try again later.")
            return
        early = self._settings.may_ask()
        if early and not await self._is_known(frame.id):
            self._fail(frame.id, f"unable to ask that often; wait {early // 1000 + 1} s")
            return
        actor, view = self._loaded.actor, self._view
        assert view is not None, "who asks was greeted"
        is_written = view.transcripts == self._shown[0]  # none waits for a socket that is full
        if is_written and self._directory.clock.now() - self._shown[1] > ARRIVED_AFTER:
            view.has_arrived()
        known = await self._is_from_long_ago(frame.id)
        head, stale, new = await actor.inspect(
            lambda state: (actor.tail.head, is_stale(state, frame), is_new(state, frame))
        )
        view.asks(frame.id, frame.messages, head=head, is_stale=stale, is_new=new)
        command = Submit(
            frame.id,
            fresh_message_id(),
            frame.messages,
            trigger=frame.trigger,
            policy=self._loaded.rules.policy,
            body=frame.body,
            client_tools=frame.client_tools,
            origin=self._serial,
            owner=self._owner,
            known=known,
        )
        try:
            events = await actor.ask(command)
        except (AgentStopped, MailboxFull):
            raise
        except Rejected as exc:
            self._fail(frame.id, public_text(exc, "unable to ask; try again in a moment"))
            return
        if not events:
            await self._tell_again(frame.id)

    async def _is_known(self, request: RequestId) -> bool:
        """Tell whether this request was accepted before: sending it again asks for nothing new."""
        if await self._loaded.actor.inspect(lambda state: request in state.requests):
            return True
        return await self._is_from_long_ago(request)

    async def _is_from_long_ago(self, request: RequestId) -> bool:
        """Tell whether the store has a turn of this request that the state does not remember any more."""
        if self._loaded.agency.last_turn < RECENT_TURNS:
            return False
        return await self._loaded.store.find_turn(self._loaded.actor.agent, request) is not None

    async def _tell_again(self, request: RequestId) -> None:
        """A request that was sent again: its end, if it has one, whatever became of the conversation since (R-30)."""
        row = await self._loaded.actor.inspect(lambda state: _row_of(state, request))
        if row is None:
            row = await self._loaded.store.find_turn(self._loaded.actor.agent, request)
        if row is None or row.is_open:
            return
        accepted = decode_event(row.accepted)
        assert isinstance(accepted, TurnAccepted)
        # Its question may lie on a branch that was left, or nowhere: the client keeps it until it is told.
        self._show()
        ids, outcome = accepted.message_ids, Outcome(row.status)
        self._outbox.post(frames.terminal(request, outcome, error=row.error, message_ids=ids))

    def _show(self) -> None:
        """Send the conversation as it is stored."""
        self._outbox.post(frames.messages(body for _, body, _ in self._loaded.agency.conversation))

    def _fail(self, request: RequestId | None, text: str) -> None:
        """Answer a request that never became a turn; one without an id cannot be answered."""
        if request is not None:
            self._outbox.post(frames.terminal(request, Outcome.ERROR, error=text))


def _passed(view: ChatView, replay: TurnReplay, page: list[Committed]) -> list[bytes]:
    return [
        frame
        for each in page
        for frame in (view.passed(each, replay.request) if each.seq <= replay.head else view.happened(each))
    ]


def _row_of(state: State, request: RequestId) -> TurnRow | None:
    turn = state.by_request(request)
    return turn_row(turn) if turn is not None else None
