"""The calls that wait for a person, over all branches of the conversation, and when they expire."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, cast

import msgspec
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
from ..ids import CallId, Millis, NodeId, TurnId
from ..messages.message import UIMessage
from ..messages.tool_calls import find_call, tool_name, tool_parts
from ..rows import SETTLED, WAITING, ApprovalRecord, ApprovalStatus, KeptRow, Participant, decode_listed, encode_listed
from .commands import RequestApproval
from .state import State
from .transitions import TurnStatus
from .turn_state import TurnState

__all__ = [
    "EXPIRED",
    "announce_approvals",
    "due_approvals",
    "evolve_waiting",
    "find_waiting",
    "request_approval",
    "restore_waiting",
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


def announce_approvals(state: State, turn: TurnState, events: list[Event]) -> list[Event]:
    """Return the events with an announcement before each request that has none: the agent's own code asks.

    Chunks are deleted some day; the announcement stays, and with it when the person was asked.
    """
    announced: list[Event] = []
    for event in events:
        if isinstance(event, Chunk) and _ASKS in bytes(event.body):
            chunk = msgspec.json.decode(bytes(event.body))
            call = chunk.get("toolCallId") if chunk.get("type") == "tool-approval-request" else None
            if isinstance(call, str) and call not in state.waiting:
                announced.append(ApprovalRequested(turn.id, event.attempt, CallId(call), ""))
        announced.append(event)
    return announced


def due_approvals(state: State, now: Millis) -> tuple[tuple[CallId, ...], Millis | None]:
    """Return the calls whose time to be approved is over, and when that of the next one is."""
    due: list[CallId] = []
    wake: Millis | None = None
    for call, record in state.waiting.items():
        if record.status != "waiting" or record.expires_at is None:
            continue
        if record.expires_at <= now:
            due.append(call)
        elif wake is None or record.expires_at < wake:
            wake = record.expires_at
    return tuple(due), wake


# -- events and rows -------------------------------------------------------------------------------------------------


def evolve_waiting(state: State, event: Event, at: Millis) -> list[KeptRow]:
    """Apply an event to the calls that wait; return the rows that changed."""
    match event:
        case ApprovalRequested():
            state.waiting[event.call] = _announced(state, event, at)
            return [waiting_row(state, event.call)]
        case Chunk() | TurnEnded() | AttemptStarted():
            turn = state.find(event.turn)
            changed = _look_at(state, [turn.node], at) if turn is not None else []
            return [*changed, *(_withdraw(state, event.turn) if isinstance(event, TurnEnded) else ())]
        case CallAnswered():
            settled = _settled(state, event, at)
            return [*settled, *_look_at(state, [event.node], at)]
        case MessageEnded() | MessageReplaced():
            return _look_at(state, [event.node], at)
        case MessagesPut():
            return _look_at(state, [placed.node for placed in event.messages], at)
        case MessagesRemoved():
            return _look_at(state, event.nodes, at)
        case ChatCleared():
            return _forget(state, list(state.waiting))
        case _:
            return []


def _announced(state: State, event: ApprovalRequested, at: Millis) -> ApprovalRecord:
    turn = state.find(event.turn)
    asked_by = turn.accepted.principal if turn is not None else None
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


def _participant(who: Identity | None) -> Participant | None:
    return Participant(who.id, who.name) if who is not None else None


def _look_at(state: State, nodes: Iterable[NodeId], at: Millis) -> list[KeptRow]:
    """Compare the calls that wait with those that the messages at these nodes have."""
    rows: list[KeptRow] = []
    for node in nodes:
        place = state.tree.nodes.get(node)
        shown = place.shown if place is not None and place.role == "assistant" else None
        found = _requested(shown) if shown is not None and _REQUESTED in shown else {}
        known = {call for call, each in state.waiting.items() if each.node == node and each.status == "waiting"}
        rows += _forget(state, [call for call in known if call not in found])
        for call, (tool, input) in found.items():
            record = _shown(state, node, call, tool, input, at)
            if record != state.waiting.get(call):
                state.waiting[call] = record
                rows.append(waiting_row(state, call))
    return rows


def _requested(body: bytes) -> dict[CallId, tuple[str, object]]:
    try:
        message = UIMessage.decode(body)
    except BadMessage:
        return {}
    waiting = (part for part in tool_parts(message) if part.get("state") == "approval-requested")
    return {CallId(part["toolCallId"]): (tool_name(part), part.get("input")) for part in waiting}


def _shown(state: State, node: NodeId, call: CallId, tool: str, input: object, at: Millis) -> ApprovalRecord:
    """Return the record of a call that its message now asks to approve."""
    place = state.tree.nodes[node]
    record = state.waiting.get(call)
    if record is None:  # a message was stored that has a request
        turn = next((each for each in state.message_turns() if each.node == node), None) or next(
            (each for each in reversed(state.ended.values()) if each.node == node), None
        )
        principal = turn.accepted.principal if turn is not None else None
        record = ApprovalRecord(
            call, turn.id if turn is not None else TurnId(0), tool, at, asked_by=_participant(principal)
        )
    return replace(record, status="waiting", node=node, message_id=place.id, input=to_raw(input), tool=tool)


def _settled(state: State, event: CallAnswered, at: Millis) -> list[KeptRow]:
    record = state.waiting.get(event.call)
    # A result instead of an approval: the message tells whether the call still waits. A model may repeat the id.
    if record is None or event.kind != "approval":
        return []
    if record.status == "announced" and not event.tool:
        return []  # it did not wait when it was answered; that is known from deleted chunks only
    value = msgspec.json.decode(event.value)
    status: ApprovalStatus = "approved" if value.get("approved") else "denied"
    if event.by == EXPIRED and event.principal is None:
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
    return [KeptRow(SETTLED, f"{event.call}@{at}", encode_listed(settled)), *_forget(state, [event.call])]


def _withdraw(state: State, turn: TurnId) -> list[KeptRow]:
    """Forget the calls that a turn announced and did not ask for."""
    left = [call for call, each in state.waiting.items() if each.turn == turn and each.status == "announced"]
    return _forget(state, left)


def _forget(state: State, calls: Iterable[CallId]) -> list[KeptRow]:
    for call in calls:
        state.waiting.pop(call, None)
    return [KeptRow(WAITING, call, None) for call in calls]


def waiting_row(state: State, call: CallId) -> KeptRow:
    """Return the row of a call; without a body if it no longer waits."""
    record = state.waiting.get(call)
    return KeptRow(WAITING, call, encode_listed(record) if record is not None else None)


def waiting_rows(state: State) -> list[KeptRow]:
    """Return the rows of all calls that wait."""
    return [waiting_row(state, call) for call in state.waiting]


def restore_waiting(row: KeptRow) -> ApprovalRecord:
    """Return the record of a row.

    Raises:
        msgspec.DecodeError: the row is unreadable.
    """
    return decode_listed(row.body, ApprovalRecord)


def find_waiting(state: State) -> None:
    """Fill in the calls that wait, from the messages: the rows of a release without this feature have none."""
    for node in list(state.tree.nodes):
        _look_at(state, [node], state.tree.nodes[node].at)
