"""What the client of a socket asks for: its frames as commands, each committed before the next is looked at."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, assert_never

import msgspec
from msgspec import UNSET

from ..core.commands import AnswerToolCall, CancelTurns, ClearConversation, Command, PutMessages, Submit
from ..core.project import turn_row
from ..core.state import RECENT_TURNS, State
from ..errors import AgentStopped, AttachmentsUnavailable, MailboxFull, MessageRefused, Rejected, public_text
from ..events import Outcome, TurnAccepted, decode_event
from ..ids import RequestId
from ..principals import LOCAL
from ..rows import TurnRow
from ..runtime.outbox import ConnectionOutbox
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
    HandshakeFrame,
    Other,
    ResumeAck,
    ResumeRequest,
    SetState,
    SyncMessages,
)
from .asked_approvals import Asked, check_answer
from .client_list_checks import is_new, is_stale, is_stored
from .connection_hooks import ConnectionHooks
from .permissions import NO_DETAILS, Action, Reject
from .refusals import NO_ATTACHMENTS
from .socket_context import SocketContext
from .transcript_arrival import TranscriptArrival

__all__ = ["ClientCommands"]

log = logging.getLogger("everyword.server")

ACTIONS: Final[Mapping[type[ClientFrame], Action]] = {
    CancelTurn: "stop",
    ClearChat: "clear",
    SyncMessages: "edit",
}
"""What the frames do that have no answer of their own, besides answers to calls."""


class ClientCommands:
    """The commands of one connection. What is answered at once goes into the outbox."""

    def __init__(
        self,
        context: SocketContext,
        hooks: ConnectionHooks | None,
        outbox: ConnectionOutbox[HandshakeFrame],
        client_list: ClientList,
        arrival: TranscriptArrival,
    ) -> None:
        self._context, self._hooks, self._outbox = context, hooks, outbox
        self._client_list, self._arrival = client_list, arrival
        self._loaded, self._permit = context.loaded, context.settings.permit
        principal = self._permit.principal
        self._principal = principal.identity
        self._by = principal.id if principal is not LOCAL else context.owner
        """The client's name in the log: its principal, or, without authentication, its own name for itself."""

    async def received(self, frame: ClientFrame) -> None:
        match frame:
            case ResumeRequest() | ResumeAck():
                self._outbox.post(frame)
            case BadRequest():
                if frame.is_too_large:
                    self._show()  # or the page would send the same messages again, with every later question
                self._fail(frame.id, frame.text)
            case BadCall():
                self._outbox.post(frames.rpc_error(frame.id, frame.text))
            case ChatRequest():
                await self._ask_turn(frame)
            case SetState() | CallMethod() | Other():
                await self._meet(frame)
            case AnswerCall():
                await self._answer_call(frame)
            case CancelTurn() | ClearChat() | SyncMessages():
                if await self._refuse(frame) is None:
                    await self._command(frame)
                elif not isinstance(frame, CancelTurn):
                    self._show()  # the client has changed its own list already
            case _:
                assert_never(frame)

    async def _answer_call(self, frame: AnswerCall) -> None:
        asked = await check_answer(self._permit, self._loaded, frame.call, frame.answer)
        if isinstance(asked, Reject):
            self._show()  # the client has changed its own list already
        elif not await self._loaded.actor.ask(self._answer(frame, asked)) and asked is not UNSET:
            self._show()  # another answer was first, or the time for it is over

    async def _refuse(self, frame: CancelTurn | ClearChat | SyncMessages) -> Reject | None:
        what = {"request": frame.id} if isinstance(frame, CancelTurn) else NO_DETAILS
        return await self._permit.refuse(ACTIONS[type(frame)], what=what)

    async def _meet(self, frame: SetState | CallMethod | Other) -> None:
        """Hand over what is for the agent's own code."""
        if self._hooks is None:  # a responder that is no agent: it has no state and no methods
            if isinstance(frame, SetState):
                self._outbox.post(frames.state_error("State update rejected"))
            elif isinstance(frame, CallMethod):
                self._outbox.post(frames.rpc_error(frame.id, f"Method {frame.method} does not exist"))
        elif isinstance(frame, SetState):
            await self._hooks.set_state(frame, await self._permit.refuse("state"))
        elif isinstance(frame, CallMethod):
            early = self._context.settings.may_call()
            if (refused := await self._permit.refuse("call", what={"method": frame.method})) is not None:
                self._outbox.post(frames.rpc_error(frame.id, refused.reason))
            elif early:
                text = f"unable to call {frame.method}; too many calls within a minute. Wait {early // 1000 + 1} s."
                self._outbox.post(frames.rpc_error(frame.id, text))
            else:
                await self._hooks.connection.drain()  # no more calls are taken than replies are read
                self._hooks.call(frame)
        elif (refused := await self._permit.refuse("send")) is None:
            self._hooks.heard(frame.text)
        else:
            log.info("%r passes over a frame of %s: %s", self._loaded.actor.agent, self._context.serial, refused.reason)

    async def _command(self, frame: CancelTurn | ClearChat | SyncMessages) -> None:
        actor = self._loaded.actor
        match frame:
            case CancelTurn():
                await actor.insist(CancelTurns(frame.id, by=self._by))
            case ClearChat():
                await actor.insist(ClearConversation(origin=self._context.serial))
            case SyncMessages():
                await self._sync(frame)
            case _:
                assert_never(frame)

    async def _sync(self, frame: SyncMessages) -> None:
        """Store a client's list, or nothing of it; the client is sent the stored one if that is another (R-8)."""
        actor, origin = self._loaded.actor, self._context.serial
        try:
            if not frame.is_whole:
                raise MessageRefused("unable to take the messages; one of them has no id, no role or no parts")
            async with self._context.storing(frame.messages) as messages:
                await actor.ask(PutMessages(messages, False, "synced", origin=origin, principal=self._principal))
        except (AgentStopped, MailboxFull):
            raise
        except Rejected as exc:
            log.info("%r refused the messages of %s: %s", actor.agent, self._context.serial, exc)
        except AttachmentsUnavailable as exc:
            log.error("%r cannot store the files of a client's messages: %s", actor.agent, exc)
        if not await actor.inspect(lambda state: is_stored(state, frame)):
            self._show()

    def _answer(self, frame: AnswerCall, asked: Asked) -> Command:
        return AnswerToolCall(
            frame.call,
            frame.answer,
            random_request_id(),
            auto_continue=frame.auto_continue,
            by=self._by,
            origin=self._context.serial,
            owner=self._context.owner,
            client_tools=frame.client_tools,
            principal=self._principal,
            asked=asked,
        )

    async def _ask_turn(self, frame: ChatRequest) -> None:
        if (refused := await self._permit.refuse("ask", what={"request": frame.id})) is not None:
            self._fail(frame.id, refused.reason)
            return
        if self._context.directory.has_lost_store:
            self._fail(frame.id, "unable to ask; the server cannot store anything. Try again later.")
            return
        early = self._context.settings.may_ask()
        if early and not await self._is_known(frame.id):
            self._fail(frame.id, f"unable to ask; too many questions within a minute. Wait {early // 1000 + 1} s.")
            return
        actor = self._loaded.actor
        self._arrival.update()
        known = await self._is_from_long_ago(frame.id)
        limit = self._context.data_url_limit
        head, stale, new = await actor.inspect(
            lambda state: (actor.tail.head, is_stale(state, frame, limit), is_new(state, frame))
        )
        self._client_list.asks(frame.id, frame.messages, head=head, is_stale=stale, is_new=new)
        command = Submit(
            frame.id,
            random_message_id(),
            None,
            trigger=frame.trigger,
            policy=self._loaded.rules.policy,
            body=frame.body,
            client_tools=frame.client_tools,
            origin=self._context.serial,
            owner=self._context.owner,
            known=known,
            principal=self._principal,
        )
        try:
            async with self._context.storing(frame.messages) as messages:
                events = await actor.ask(msgspec.structs.replace(command, messages=messages))
        except (AgentStopped, MailboxFull):
            raise
        except Rejected as exc:
            if isinstance(exc, MessageRefused):
                self._show()  # or the page would send the refused message again, with every later question
            self._fail(frame.id, public_text(exc, "unable to ask; try again in a moment"))
            return
        except AttachmentsUnavailable as exc:
            log.error("%r cannot store the files of a question: %s", actor.agent, exc)
            self._fail(frame.id, NO_ATTACHMENTS)
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
        # The question may be on a hidden branch, or not stored: the client shows it until it gets the transcript.
        self._show()
        ids, outcome = accepted.message_ids, Outcome(row.status)
        self._outbox.post(frames.terminal(request, outcome, error=row.error, message_ids=ids))

    def _show(self) -> None:
        """Send the conversation as it is stored.

        A question that the client sends before it reads this is missing in it: so the client is sent another one then.
        """
        self._client_list.shown(is_whole=False)
        self._outbox.post(frames.messages(body for _, body, _ in self._loaded.reconciler.view.conversation))

    def _fail(self, request: RequestId | None, text: str) -> None:
        """Answer a request that never became a turn; one without an id cannot be answered."""
        if request is not None:
            self._outbox.post(frames.terminal(request, Outcome.ERROR, error=text))


def _row_of(state: State, request: RequestId) -> TurnRow | None:
    turn = state.by_request(request)
    return turn_row(turn) if turn is not None else None
