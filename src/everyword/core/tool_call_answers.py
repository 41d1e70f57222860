"""Answer tool calls: results of client tools, and approvals (R-1, R-2, R-3)."""

from __future__ import annotations

from collections.abc import Container
from typing import assert_never

import msgspec
from msgspec import Raw

from ..errors import Rejected
from ..events import (
    ABSENT,
    AnswerKind,
    CallAnswered,
    Chunk,
    Event,
    TurnAccepted,
    TurnKind,
    TurnRetargeted,
    to_raw,
)
from ..ids import Attempt, CallId, Millis, NodeId, TurnId
from ..messages.message import UIMessage
from ..messages.tool_calls import (
    ApprovalAnswer,
    CallAnswer,
    ErrorAnswer,
    OutputAnswer,
    answer_chunks,
    answered_part,
    find_call,
    own_approval_id,
    tool_name,
)
from ..rows import ApprovalRecord
from .approvals import approval_to_remove
from .commands import AnswerToolCall
from .continuations import accept_late_calls, may_continue, principal_of_answer, runs_here, waiting_continuations
from .state import Rules, State
from .transitions import TurnStatus
from .turn_state import TurnState
from .waiting_approvals import request_to_settle

__all__ = ["answer_call"]


def answer_call(state: State, command: AnswerToolCall, now: Millis, rules: Rules) -> list[Event]:
    """Return the events of an answer; none if the call is unknown or was answered before: the first answer wins."""
    asked: ApprovalRecord | None = None
    if isinstance(command.answer, ApprovalAnswer):
        asked = request_to_settle(state, command, now)
        if asked is None:
            return []
    streaming = _streaming_call(state, command, asked, rules)
    if streaming is not None:
        node, turn = streaming.node, streaming
        events: list[Event] = [_answered(state, command, asked, node, turn.id)]
        for index, chunk in enumerate(answer_chunks(command.call, command.answer), turn.chunks):
            events.append(Chunk(turn.id, Attempt(turn.attempt), index, to_raw(chunk)))
    else:
        stored = _stored_call(state, command, asked, rules)
        if stored is None:
            return []
        node = stored
        events = [_answered(state, command, asked, node, None)]
    return [*events, *_continuation_events(state, command, node, streaming, now, rules)]


def _streaming_call(
    state: State, command: AnswerToolCall, asked: ApprovalRecord | None, rules: Rules
) -> TurnState | None:
    """Return the turn that writes the message with this call, if the call is open."""
    for turn in state.message_turns():
        if turn.fold is None or (asked is not None and asked.node != turn.node):
            continue
        if _has_open_call(turn.fold.message(), command, rules, turn.started_calls):
            return turn
    return None


def _stored_call(state: State, command: AnswerToolCall, asked: ApprovalRecord | None, rules: Rules) -> NodeId | None:
    """Return the node of the stored message in which this call is open: on the active path first, the newest first.

    Only assistant messages have calls. A call in a user message came from a client and never runs.
    """
    quoted = msgspec.json.encode(command.call)
    busy = {turn.node for turn in state.message_turns() if turn.fold is not None}
    on_path = list(state.tree.ancestors(state.tree.leaf))
    others = [node for node in reversed([*state.tree.nodes]) if node not in set(on_path)]
    for node in [*on_path, *others]:
        place = state.tree.nodes[node]
        body = place.body
        if place.role != "assistant" or body is None or node in busy or quoted not in body:
            continue
        if asked is not None and asked.node != node:
            continue
        if _has_open_call(UIMessage.decode(body), command, rules):
            return node
    return None


def _has_open_call(message: UIMessage, command: AnswerToolCall, rules: Rules, running: Container[CallId] = ()) -> bool:
    """Return whether the message has this call, open for this answer. Clients cannot answer calls of server tools."""
    part = find_call(message, command.call)
    if part is None:
        return False
    if not isinstance(command.answer, ApprovalAnswer):
        asked = (part.get("approval") or {}).get("id")
        if tool_name(part) in rules.server_tools or command.call in running or asked == own_approval_id(command.call):
            return False
    return answered_part(part, command.answer) is not None


def _answered(
    state: State, command: AnswerToolCall, asked: ApprovalRecord | None, node: NodeId, turn: TurnId | None
) -> CallAnswered:
    kind, value = _encode_answer(command.answer)
    return CallAnswered(
        node=node,
        call=command.call,
        kind=kind,
        value=to_raw(value),
        turn=turn,
        by=command.by,
        origin=command.origin,
        auto_continue=command.auto_continue,
        principal=command.principal,
        forgets=approval_to_remove(state, command),
        input=asked.input if asked is not None else ABSENT,
        tool=asked.tool if asked is not None else "",
    )


def _encode_answer(answer: CallAnswer) -> tuple[AnswerKind, object]:
    match answer:
        case OutputAnswer():
            return "result", answer.output
        case ErrorAnswer():
            return "error", answer.error_text
        case ApprovalAnswer():
            reason = {} if answer.reason is None else {"reason": answer.reason}
            return "approval", {"approved": answer.approved, **reason}
        case _:
            assert_never(answer)


def _client_tools(command: AnswerToolCall, last: TurnState | None) -> Raw:
    if command.client_tools is not ABSENT or last is None:
        return command.client_tools
    return last.accepted.client_tools


def _continuation_events(
    state: State, command: AnswerToolCall, node: NodeId, streaming: TurnState | None, now: Millis, rules: Rules
) -> list[Event]:
    """Return the event that an answer causes: a new continuation, the delay of a waiting one, or a late call's turn."""
    if not may_continue(state, node):
        return _late_call_turn(state, command, node, streaming, rules)
    not_before = Millis(now + rules.continuation_delay)
    waiting = next((turn for turn in waiting_continuations(state) if turn.node == node), None)
    place = state.tree.nodes[node]
    if waiting is not None:
        owner = command.owner if command.auto_continue else waiting.accepted.owner
        origin = command.origin if command.auto_continue else waiting.accepted.origin
        return [TurnRetargeted(waiting.id, node, place.id, not_before, owner=owner, origin=origin)]
    if not command.auto_continue:
        return []
    if command.continuation in state.requests:
        raise Rejected(f"unable to continue as {command.continuation!r}; that request id is taken")
    writer = streaming if streaming is not None and streaming.accepted.kind.is_chat else None
    last = state.last_ended if writer is None else writer
    return [
        TurnAccepted(
            turn=TurnId(state.last_turn + 1),
            request=command.continuation,
            kind=TurnKind.CONTINUATION,
            generation=state.generation,
            node=node,
            parent=place.parent,
            message_id=place.id,
            origin=command.origin,
            owner=command.owner,
            # A continuation has the body and the client tools of the turn before.
            body=last.accepted.body if last is not None else ABSENT,
            client_tools=_client_tools(command, last),
            not_before=not_before,
            during=writer.id if writer is not None else None,
            principal=principal_of_answer(state, node),
        )
    ]


def _late_call_turn(
    state: State, command: AnswerToolCall, node: NodeId, streaming: TurnState | None, rules: Rules
) -> list[Event]:
    """Return the turn that runs an approved call of a message which may not be continued. Other answers cause none.

    `autoContinue` does not matter: the model is not called, and no other turn would run the call.
    """
    if not isinstance(command.answer, ApprovalAnswer) or not command.answer.approved:
        return []
    body = state.tree.nodes[node].body
    message = streaming.fold.message() if streaming is not None and streaming.fold is not None else None
    part = find_call(message or UIMessage.decode(body or b""), command.call)
    if part is None or not runs_here(part, rules):
        return []
    if any(turn.node == node and turn.status is TurnStatus.ACCEPTED for turn in state.late_calls()):
        return []  # the waiting turn runs every call that is approved when it begins
    return [accept_late_calls(state, node, command.continuation)]
