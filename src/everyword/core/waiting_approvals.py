"""The calls that wait for a person, over all branches of the conversation, and when they expire."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable
from typing import Final, cast

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from ..errors import BadMessage, Rejected
from ..events import (
    ApprovalRequested,
    AttemptStarted,
    CallAnswered,
    ChatCleared,
    Chunk,
    Event,
    Identity,
    MessageEnded,
    MessageReplaced,
    MessagesPut,
    MessagesRemoved,
    TurnEnded,
    to_raw,
)
from ..ids import Attempt, CallId, MessageId, Millis, NodeId, TurnId
from ..messages.message import UIMessage
from ..messages.tool_calls import ApprovalAnswer, find_call, tool_name, tool_parts
from ..rows import SETTLED, WAITING, ApprovalRecord, ApprovalStatus, KeptRow, Participant, decode_listed, encode_listed
from .commands import AnswerToolCall, RequestApproval
from .runs import RUN_REQUEST
from .state import State
from .transitions import TurnStatus
from .turn_state import TurnState

__all__ = [
    "EXPIRED",
    "announce_approvals",
    "copied_requests",
    "due_approvals",
    "evolve_waiting",
    "find_waiting",
    "request_approval",
    "request_to_settle",
    "requests_at",
    "restore_waiting",
    "shown_request",
]
__all__ += ["waiting_row", "waiting_rows"]

EXPIRED: Final = "expired"
"""`CallAnswered.by` of an approval that was not given in time."""

_ASKS: Final = b'"tool-approval-request"'
_REQUESTED: Final = b'"approval-requested"'
"""The bytes without which a message has no call that waits for an approval."""


# -- deciding ------------------------------------------------------------------------------------------------------


def request_approval(turn: TurnState, command: RequestApproval) -> list[Event]:
    """Return the event that announces the request for an approval.

    Raises:
        Rejected: the answer has no such call.
    """
    if turn.status is not TurnStatus.RUNNING or turn.fold is None:
        return []
    if find_call(turn.fold.message(), command.call) is None:
        raise Rejected(f"unable to ask for an approval of {command.call!r}; the answer has no such call")
    return [
        ApprovalRequested(
            turn.id,
            command.attempt,
            command.call,
            command.tool,
            summary=command.summary,
            risk=command.risk,
            approvers=list(command.approvers),
            expires_at=command.expires_at,
        )
    ]


def requests_at(state: State, nodes: Container[NodeId]) -> list[ApprovalRecord]:
    """Return the requests of the messages at these nodes, for a copy of the messages."""
    return [each for each in state.waiting.values() if each.node in nodes and each.status == "waiting"]


def copied_requests(requests: Iterable[ApprovalRecord]) -> list[Event]:
    """Return the events that announce copied calls: without them, nobody would know who may approve them."""
    return [
        ApprovalRequested(
            TurnId(0),
            Attempt(0),
            each.call,
            each.tool,
            summary=each.summary,
            risk=each.risk,
            approvers=each.approvers,
            expires_at=each.expires_at,
            asked_by=Identity(each.asked_by.id, each.asked_by.name) if each.asked_by is not None else None,
        )
        for each in requests
    ]


def announce_approvals(state: State, turn: TurnState, events: list[Event]) -> list[Event]:
    """Return the events with an announcement before each request that has none: the agent's own code asks.

    Chunks are deleted some day; the announcement stays, and with it when the person was asked.
    """
    announced: list[Event] = []
    for event in events:
        if isinstance(event, Chunk) and _ASKS in bytes(event.body):
            chunk = msgspec.json.decode(bytes(event.body))
            call = chunk.get("toolCallId") if chunk.get("type") == "tool-approval-request" else None
            if isinstance(call, str) and not _is_announced(state, turn, CallId(call)):
                announced.append(ApprovalRequested(turn.id, event.attempt, CallId(call), ""))
        announced.append(event)
    return announced


def _is_announced(state: State, turn: TurnState, call: CallId) -> bool:
    record = state.waiting.get(call)
    return record is not None and (record.status == "announced" or record.node == turn.node)


def due_approvals(state: State, now: Millis) -> tuple[tuple[ApprovalRecord, ...], Millis | None]:
    """Return the requests whose time is over, and when that of the next one is."""
    due: list[ApprovalRecord] = []
    wake: Millis | None = None
    for record in state.waiting.values():
        if record.status != "waiting" or record.expires_at is None:
            continue
        if record.expires_at <= now:
            due.append(record)
        elif wake is None or record.expires_at < wake:
            wake = record.expires_at
    return tuple(due), wake


def shown_request(state: State, call: CallId, message: MessageId | None = None) -> ApprovalRecord | None:
    """Return the request for an approval of a call that a page means: of this message, if the page names one.

    A model may repeat the id of a call, so several may wait, with other arguments. Pages show those on the active path,
    and answer the last of them.
    """
    meant = (each for each in state.waiting.values() if each.call == call)
    found = {each.node: each for each in meant if message is None or each.message_id == message}
    if len(found) > 1:
        asked = (found[node] for node in reversed(state.tree.active_path()) if node in found)
        if (shown := next((each for each in asked if each.status == "waiting"), None)) is not None:
            return shown
    newest = state.waiting.get(call)
    return newest if newest in found.values() else next(reversed(found.values()), None)


def request_to_settle(state: State, command: AnswerToolCall, now: Millis) -> ApprovalRecord | None:
    """Return the request that an approval settles; None if it comes too early, too late, or for another one.

    A call cannot be approved before the person is asked: until then it is not known who may approve it. A call of an
    agent that works as a tool cannot be approved at all: its parent does not wait for it.
    """
    asked = shown_request(state, command.call) if command.asked is UNSET else command.asked
    if asked is None or asked.status != "waiting" or asked not in state.waiting.values():
        return None
    if isinstance(command.answer, ApprovalAnswer) and command.answer.approved and _works_as_tool(state, asked):
        return None
    is_in_time = asked.expires_at is None or now < asked.expires_at
    return asked if is_in_time or _is_expiry(command) else None


def _works_as_tool(state: State, asked: ApprovalRecord) -> bool:
    """Return whether the turn that asks is a run of the agent as a tool. A client may choose such a request id, too."""
    turn = state.find(asked.turn)
    return turn is not None and turn.accepted.trusted and turn.request.startswith(RUN_REQUEST)


def _is_expiry(answer: AnswerToolCall | CallAnswered) -> bool:
    return answer.by == EXPIRED and answer.principal is None


# -- events and rows -------------------------------------------------------------------------------------------------


def evolve_waiting(state: State, event: Event, at: Millis) -> list[KeptRow]:
    """Apply an event to the calls that wait; return the rows that changed."""
    match event:
        case ApprovalRequested():
            moved = _move_aside(state, event)
            state.waiting[event.call] = _announced(state, event, at)
            return [*moved, waiting_row(state, event.call)]
        case Chunk() | TurnEnded() | AttemptStarted():
            turn = state.find(event.turn)
            changed = _look_at(state, [turn.node]) if turn is not None else []
            return [*changed, *(_withdraw(state, event.turn) if isinstance(event, TurnEnded) else ())]
        case CallAnswered():
            settled = _settled(state, event, at)
            return [*settled, *_look_at(state, [event.node])]
        case MessageEnded() | MessageReplaced():
            return _look_at(state, [event.node])
        case MessagesPut():
            return _look_at(state, [placed.node for placed in event.messages])
        case MessagesRemoved():
            return _look_at(state, event.nodes)
        case ChatCleared():
            return _forget(state, list(state.waiting))
        case _:
            return []


def _announced(state: State, event: ApprovalRequested, at: Millis) -> ApprovalRecord:
    turn = state.find(event.turn)
    asked_by = turn.accepted.principal if turn is not None else event.asked_by
    return ApprovalRecord(
        event.call,
        event.turn,
        event.tool,
        at,
        asked_by=_participant(asked_by),
        summary=event.summary,
        risk=event.risk,
        approvers=event.approvers,
        expires_at=event.expires_at,
    )


def _move_aside(state: State, event: ApprovalRequested) -> list[KeptRow]:
    """Make room for a request, if a call of another message that has the same id waits: a model may repeat ids."""
    turn, other = state.find(event.turn), state.waiting.get(event.call)
    if other is None or other.status != "waiting" or (turn is not None and other.node == turn.node):
        return []
    del state.waiting[event.call]
    key = _aside(event.call, other.node)
    state.waiting[key] = other
    return [waiting_row(state, key)]


def _aside(call: CallId, node: NodeId) -> str:
    return f"{call}@{node}"


def _key_at(state: State, node: NodeId, call: CallId) -> str:
    """Return the key under which the request of a call of this message is, or will be."""
    here = (key for key, each in state.waiting.items() if each.call == call and each.node == node)
    other = state.waiting.get(call)
    return next(here, call if other is None or other.status == "announced" else _aside(call, node))


def _participant(who: Identity | None) -> Participant | None:
    return Participant(who.id, who.name) if who is not None else None


def _look_at(state: State, nodes: Iterable[NodeId]) -> list[KeptRow]:
    """Compare the calls that wait with those that the messages at these nodes have."""
    rows: list[KeptRow] = []
    for node in nodes:
        place = state.tree.nodes.get(node)
        shown = place.shown if place is not None and place.role == "assistant" else None
        found = _requested(shown) if shown is not None and _REQUESTED in shown else {}
        known = [(key, each) for key, each in state.waiting.items() if each.node == node and each.status == "waiting"]
        rows += _forget(state, [key for key, each in known if each.call not in found])
        for call, (tool, input) in found.items():
            key = _key_at(state, node, call)
            record = _shown(state, key, node, call, tool, input)
            if record != state.waiting.get(key):
                state.waiting[key] = record
                rows.append(waiting_row(state, key))
    return rows


def _requested(body: bytes) -> dict[CallId, tuple[str, object]]:
    try:
        message = UIMessage.decode(body)
    except BadMessage:
        return {}
    waiting = (part for part in tool_parts(message) if part.get("state") == "approval-requested")
    return {CallId(part["toolCallId"]): (tool_name(part), part.get("input")) for part in waiting}


def _shown(state: State, key: str, node: NodeId, call: CallId, tool: str, input: object) -> ApprovalRecord:
    """Return the record of a call that its message now asks to approve."""
    place = state.tree.nodes[node]
    record = state.waiting.get(key)
    if record is None:  # a message was stored that has a request
        turn = next((each for each in state.message_turns() if each.node == node), None) or next(
            (each for each in reversed(state.ended.values()) if each.node == node), None
        )
        principal = turn.accepted.principal if turn is not None else None
        record = ApprovalRecord(
            # The time of the message: when chunks asked is not known any more after they are deleted.
            call,
            turn.id if turn is not None else TurnId(0),
            tool,
            place.at,
            asked_by=_participant(principal),
        )
    return replace(record, status="waiting", node=node, message_id=place.id, input=to_raw(input), tool=tool)


def _settled(state: State, event: CallAnswered, at: Millis) -> list[KeptRow]:
    key = _key_at(state, event.node, event.call)
    record = state.waiting.get(key)
    # A result instead of an approval: the message tells whether the call still waits. A model may repeat the id.
    if record is None or event.kind != "approval":
        return []
    if record.status == "announced" and not event.tool:
        return []  # it did not wait when it was answered; that is known from deleted chunks only
    value = msgspec.json.decode(event.value)
    status: ApprovalStatus = "approved" if value.get("approved") else "denied"
    if _is_expiry(event):
        status = "expired"
    settled = replace(
        record,
        status=status,
        # As the event has it: after the chunks are deleted, a record that is made anew is still `announced`.
        node=event.node,
        message_id=state.tree.nodes[event.node].id,
        input=event.input if event.tool else record.input,
        tool=event.tool or record.tool,
        settled_at=at,
        settled_by=_participant(event.principal),
        reason=cast("str | None", value.get("reason")),
    )
    place = f"{_aside(event.call, event.node)}@{at}"
    return [KeptRow(SETTLED, place, encode_listed(settled)), *_forget(state, [key])]


def _withdraw(state: State, turn: TurnId) -> list[KeptRow]:
    """Forget the calls that a turn announced and did not ask for."""
    left = [key for key, each in state.waiting.items() if each.turn == turn and each.status == "announced"]
    return _forget(state, left)


def _forget(state: State, keys: Collection[str]) -> list[KeptRow]:
    for key in keys:
        state.waiting.pop(key, None)
    return [KeptRow(WAITING, key, None) for key in keys]


def waiting_row(state: State, key: str) -> KeptRow:
    """Return the row of a call; without a body if it no longer waits."""
    record = state.waiting.get(key)
    return KeptRow(WAITING, key, encode_listed(record) if record is not None else None)


def waiting_rows(state: State) -> list[KeptRow]:
    """Return the rows of all calls that wait."""
    return [waiting_row(state, key) for key in state.waiting]


def restore_waiting(row: KeptRow) -> ApprovalRecord:
    """Return the record of a row.

    Raises:
        msgspec.DecodeError: the row is unreadable.
    """
    return decode_listed(row.body, ApprovalRecord)


def find_waiting(state: State) -> None:
    """Fill in the calls that wait, from the messages: the rows of a release without this feature have none."""
    for node in list(state.tree.nodes):
        _look_at(state, [node])
