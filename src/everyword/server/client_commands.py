"""What the client of a socket asks for: its frames as commands, each committed before the next is looked at."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, assert_never

from ..core.commands import AnswerToolCall, CancelTurns, ClearConversation, Command, PutMessages, Submit
from ..core.project import turn_row
from ..core.state import RECENT_TURNS, State
from ..errors import AgentStopped, MailboxFull, MessageRefused, Rejected, public_text
from ..events import Outcome, TurnAccepted, decode_event
from ..ids import Millis, RequestId
from ..principals import LOCAL
from ..rows import TurnRow
from ..runtime.directory import Directory, LoadedAgent
from ..runtime.outbox import Outbox
from ..runtime.random_ids import random_message_id, random_request_id
from ..wire import frames
from ..wire.client_list import ClientList
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
)
from .client_list_checks import is_new, is_stale, is_stored
from .connection_hooks import ConnectionHooks
from .open_connections import OpenConnections
from .permissions import Action, Permit
from .shared_slices import SharedSlices

__all__ = ["ClientCommands", "Probe", "SocketSettings"]

log = logging.getLogger("everyword.server")

ARRIVED_AFTER: Final = 10_000
"""Milliseconds after which a frame that was written has reached its client, or never will."""

Probe = ResumeRequest | ResumeAck
"""A frame of the handshake: answered by the writer, in order with what it writes."""


ACTIONS: Final[Mapping[type[ClientFrame], Action]] = {
    CancelTurn: "stop",
    ClearChat: "clear",
    SyncMessages: "edit",
    AnswerCall: "answer",
}
"""What the frames do that have no answer of their own."""


@dataclass(frozen=True, slots=True)
class SocketSettings:
    """What one socket may do."""

    max_frame: int = 32 * 1024 * 1024
    max_unread: int = 4 * 1024 * 1024
    """Bytes that may wait to be sent besides what is in the log."""
    unread_seconds: float = 20.0
    """How long is waited until half of that is read."""
    permit: Permit = field(default_factory=Permit)
    """Who it is, and what it may do."""
    admissions: OpenConnections | None = None
    """Where it is noted as open, to be closed when its principal expires or is revoked."""
    may_ask: Callable[[], int] = lambda: 0
    """Counts a turn that is asked for; returns how many milliseconds too early it is."""
    may_call: Callable[[], int] = lambda: 0
    """Counts a call of a method; returns how many milliseconds too early it is."""
    sharing: SharedSlices = field(default_factory=SharedSlices)
    """Where sockets share what they are sent alike."""


class ClientCommands:
    """The commands of one connection. What is answered at once goes into the outbox."""

    def __init__(
        self,
        directory: Directory,
        loaded: LoadedAgent,
        settings: SocketSettings,
        host: ConnectionHooks | None,
        outbox: Outbox[Probe],
        client_list: ClientList,
        *,
        serial: str,
        owner: str,
    ) -> None:
        self._directory, self._loaded, self._settings = directory, loaded, settings
        self._host, self._outbox, self._client_list = host, outbox, client_list
        self._serial, self._owner = serial, owner
        principal = settings.permit.principal
        self._principal = principal.identity
        self._by = principal.id if principal is not LOCAL else owner
        """Who it is, for the record; where nobody is known, the client's own word for itself."""
        self._written = (0, Millis(0))
        """How many transcripts were written, and when the last one was."""

    def has_written(self) -> None:
        """Note that what was to be sent is on its way."""
        if self._client_list.transcripts != self._written[0]:
            self._written = (self._client_list.transcripts, self._directory.clock.now())

    def _note_arrival(self) -> None:
        is_written = self._client_list.transcripts == self._written[0]  # none waits for a socket that is full
        if is_written and self._directory.clock.now() - self._written[1] > ARRIVED_AFTER:
            self._client_list.has_arrived()

    async def received(self, frame: ClientFrame) -> None:
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
                if await self._settings.permit.refuse(ACTIONS[type(frame)]) is None:
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
            await self._host.set_state(frame, await self._settings.permit.refuse("state"))
        elif isinstance(frame, CallMethod):
            early = self._settings.may_call()
            if (refused := await self._settings.permit.refuse("call")) is not None:
                self._outbox.post(frames.rpc_error(frame.id, refused.reason))
            elif early:
                text = f"unable to call {frame.method} that often; wait {early // 1000 + 1} s"
                self._outbox.post(frames.rpc_error(frame.id, text))
            else:
                await self._host.connection.drain()  # no more calls are taken than replies are read
                self._host.call(frame)
        elif (refused := await self._settings.permit.refuse("send")) is None:
            self._host.heard(frame.text)
        else:
            log.info("%r passes over a frame of %s: %s", self._loaded.actor.agent, self._serial, refused.reason)

    async def _command(self, frame: CancelTurn | ClearChat | SyncMessages | AnswerCall) -> None:
        actor = self._loaded.actor
        match frame:
            case CancelTurn():
                await actor.insist(CancelTurns(frame.id, by=self._by))
            case ClearChat():
                await actor.insist(ClearConversation(origin=self._serial))
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
            given = PutMessages(frame.messages, False, "synced", origin=self._serial, principal=self._principal)
            await actor.ask(given)
        except (AgentStopped, MailboxFull):
            raise
        except Rejected as exc:
            log.info("%r refused the messages of %s: %s", actor.agent, self._serial, exc)
        if not await actor.inspect(lambda state: is_stored(state, frame)):
            self._show()

    def _answer(self, frame: AnswerCall) -> Command:
        return AnswerToolCall(
            frame.call,
            frame.answer,
            random_request_id(),
            auto_continue=frame.auto_continue,
            by=self._by,
            origin=self._serial,
            owner=self._owner,
            client_tools=frame.client_tools,
            principal=self._principal,
        )

    async def _ask_turn(self, frame: ChatRequest) -> None:
        if (refused := await self._settings.permit.refuse("ask")) is not None:
            self._fail(frame.id, refused.reason)
            return
        if self._directory.has_lost_store:
            self._fail(frame.id, "unable to ask; the server cannot store anything. Try again later.")
            return
        early = self._settings.may_ask()
        if early and not await self._is_known(frame.id):
            self._fail(frame.id, f"unable to ask that often; wait {early // 1000 + 1} s")
            return
        actor = self._loaded.actor
        self._note_arrival()
        known = await self._is_from_long_ago(frame.id)
        head, stale, new = await actor.inspect(
            lambda state: (actor.tail.head, is_stale(state, frame), is_new(state, frame))
        )
        self._client_list.asks(frame.id, frame.messages, head=head, is_stale=stale, is_new=new)
        command = Submit(
            frame.id,
            random_message_id(),
            frame.messages,
            trigger=frame.trigger,
            policy=self._loaded.rules.policy,
            body=frame.body,
            client_tools=frame.client_tools,
            origin=self._serial,
            owner=self._owner,
            known=known,
            principal=self._principal,
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
        if self._loaded.reconciler.view.last_turn < RECENT_TURNS:
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
        self._outbox.post(frames.messages(body for _, body, _ in self._loaded.reconciler.view.conversation))

    def _fail(self, request: RequestId | None, text: str) -> None:
        """Answer a request that never became a turn; one without an id cannot be answered."""
        if request is not None:
            self._outbox.post(frames.terminal(request, Outcome.ERROR, error=text))


def _row_of(state: State, request: RequestId) -> TurnRow | None:
    turn = state.by_request(request)
    return turn_row(turn) if turn is not None else None
