"""Apply events to the state. Every event that `decide` returns can be applied.

The state is changed in place: copying it for each event would cost more than `decide`.
"""

from __future__ import annotations

from typing import Any, Final, assert_never

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from ..events import (
    AgentCreated,
    AgentDestroyed,
    ApprovalRequested,
    AttemptDelayed,
    AttemptInterrupted,
    AttemptStarted,
    CallAnswered,
    CallStarted,
    CancelRequested,
    ChatCleared,
    Chunk,
    ConversationChanged,
    ConversationRead,
    Event,
    FiberEnded,
    FiberPaused,
    FiberStarted,
    FiberStashed,
    HookDone,
    JobAdded,
    JobEnded,
    JobStarted,
    LeafMoved,
    MessageEnded,
    MessageReplaced,
    MessagesPut,
    MessagesRemoved,
    Placed,
    RunEnded,
    RunStarted,
    RunTold,
    ShareCreated,
    ShareRevoked,
    StateSet,
    TurnAccepted,
    TurnEnded,
    TurnKind,
    TurnRetargeted,
)
from ..ids import Millis
from ..messages.message import UIMessage
from ..messages.tool_calls import settle
from .approvals import evolve_approval
from .conversations import conversation_row, evolve_conversation
from .fibers import evolve_fiber
from .jobs import evolve_job
from .runs import evolve_run
from .shares import evolve_share
from .state import RECENT_TURNS, State
from .transitions import TurnStatus, next_status
from .tree import Node, Tree
from .turn_state import TurnState, answer_of
from .waiting_approvals import evolve_waiting

__all__ = ["APPROVAL_REQUEST", "evolve", "without_bodies"]

APPROVAL_REQUEST = b'"tool-approval-request"'
"""The bytes by which an approval request is recognised without parsing the chunk."""

_NULL = Raw(b"null")
_RUNNING: Final = TurnStatus.RUNNING
_decode: msgspec.json.Decoder[Any] = msgspec.json.Decoder()


def evolve(state: State, event: Event, at: Millis) -> None:
    """Apply one event to the state. The event is committed, or about to be."""
    if isinstance(event, Chunk):  # nearly all events are
        turn = state.open.get(event.turn)
        if turn is None or turn.status is not _RUNNING:  # a chunk leaves a running turn running (`TRANSITIONS`)
            turn = _transition(state, event)
        if turn.apply_chunk(event, at) == "tool-approval-request":
            _save_draft(state, turn)
            _update_lists(state, event, at)
        return
    _apply(state, event, at)
    _update_lists(state, event, at)


def _update_lists(state: State, event: Event, at: Millis) -> None:
    """Apply an event, after its effect on messages and turns, to what lists over all agents show, and to links."""
    rows = [*evolve_waiting(state, event, at), *evolve_share(state, event, at)]
    if evolve_conversation(state, event, at):
        rows.append(conversation_row(state))
    state.listed = rows


def _apply(state: State, event: Event, at: Millis) -> None:
    match event:
        case Chunk():
            pass  # applied above
        case TurnAccepted():
            _accepted(state, event, at)
        case TurnRetargeted():
            _retargeted(state, _transition(state, event), event)
        case AttemptStarted() | AttemptDelayed() | AttemptInterrupted() | CallStarted():
            turn = _transition(state, event)
            turn.apply(event, at, state.tree.stored(turn.node))
        case CallAnswered():
            _answered(state, event, at)
        case MessageEnded():
            _transition(state, event)
            state.tree.write(event.node, bytes(event.message))
        case CancelRequested():
            _transition(state, event)
        case TurnEnded():
            _ended(state, event, at)
        case HookDone():
            _transition(state, event).hook_due = False
            state.hooks_due.discard(event.turn)
        case MessagesPut():
            _put(state, event, at)
        case MessageReplaced():
            state.tree.write(event.node, bytes(event.message), draft=state.tree.nodes[event.node].draft)
        case MessagesRemoved():
            _removed(state.tree, event)
        case LeafMoved():
            state.tree.move_leaf(event.node)
        case ChatCleared():
            state.generation = event.generation
            state.tree.clear()
        case StateSet():
            state.value = bytes(event.state)
        case ApprovalRequested() | ConversationChanged() | ConversationRead() | ShareCreated() | ShareRevoked():
            pass  # `_update_lists` applies them
        case AgentCreated():
            pass  # that the log has an event is all that is needed
        case JobAdded() | JobStarted() | JobEnded():
            evolve_job(state, event)
        case RunStarted() | RunEnded() | RunTold():
            evolve_run(state, event, at)
        case FiberStarted() | FiberStashed() | FiberPaused() | FiberEnded():
            evolve_fiber(state, event, at)
        case AgentDestroyed():
            state.is_destroyed = True
        case _:
            assert_never(event)


def without_bodies(event: TurnAccepted) -> TurnAccepted:
    """Return the event as `TurnState` keeps it: without the bodies of its messages."""
    if not event.messages:
        return event
    return replace(event, messages=[replace(placed, message=_NULL) for placed in event.messages])


def _transition(
    state: State,
    event: Chunk
    | TurnRetargeted
    | AttemptStarted
    | AttemptDelayed
    | AttemptInterrupted
    | CallStarted
    | MessageEnded
    | CancelRequested
    | TurnEnded
    | HookDone,
) -> TurnState:
    turn = state.open.get(event.turn) or state.ended.get(event.turn)
    if turn is None:
        raise AssertionError(f"illegal {type(event).__name__} of unknown turn {event.turn}")
    turn.status = next_status(turn.status, event)
    return turn


def _save_draft(state: State, turn: TurnState) -> None:
    """Show the answer so far while it waits for an approval (R-2)."""
    assert turn.fold is not None
    state.tree.write(turn.node, state.tree.nodes[turn.node].body, draft=turn.fold.message().encode())


def _accepted(state: State, event: TurnAccepted, at: Millis) -> None:
    assert event.turn not in state.open and event.turn not in state.ended, "a turn is accepted once"
    turn = TurnState(without_bodies(event), at, progressed_at=at)
    state.open[event.turn] = turn
    state.requests[event.request] = event.turn
    state.last_turn = max(state.last_turn, event.turn)
    if event.dropped or event.kind.is_bare:
        return
    _place(state, event.messages, at)
    if event.kind is TurnKind.CHAT:
        state.tree.add(event.node, Node(event.parent, event.message_id, "assistant", at))
        state.tree.move_leaf(event.node)


def _place(state: State, messages: list[Placed], at: Millis) -> None:
    for placed in messages:
        state.tree.add(placed.node, Node(placed.parent, placed.id, placed.role, at, bytes(placed.message)))


def _answered(state: State, event: CallAnswered, at: Millis) -> None:
    evolve_approval(state, event, at)
    node = state.tree.nodes[event.node]
    turn = state.open.get(event.turn) if event.turn is not None else None
    is_streaming = turn is not None and turn.fold is not None
    if turn is not None and is_streaming:
        turn.status = next_status(turn.status, event)
        turn.apply(event, at, node.body)
    if turn is not None and is_streaming and node.draft is not None:
        _save_draft(state, turn)
    elif node.body is not None:  # clients are shown the stored message until a turn that extends it ends
        settled = settle(UIMessage.decode(node.body), event.call, answer_of(event))
        if settled is not None:
            state.tree.write(event.node, settled.encode(), draft=node.draft)


def _ended(state: State, event: TurnEnded, at: Millis) -> None:
    turn = _transition(state, event)
    node = state.tree.nodes.get(turn.node)
    # A continuation that never began leaves the draft of another turn alone.
    if node is not None and node.draft is not None and turn.fold is not None:
        state.tree.write(turn.node, node.body)
    turn.end(event, at)
    del state.open[turn.id]
    state.ended[turn.id] = turn
    if event.hook_due:
        state.hooks_due.add(turn.id)
    if len(state.ended) > RECENT_TURNS:
        others = [other for other in state.ended.values() if other is not turn]
        oldest = min(others, key=lambda other: (other.hook_due, other.id))  # turns whose hook is due are forgotten last
        del state.ended[oldest.id]
        state.hooks_due.discard(oldest.id)
        state.requests.pop(oldest.request, None)


def _removed(tree: Tree, event: MessagesRemoved) -> None:
    if event.cause in ("cap", "merged"):
        tree.remove(event.nodes)
        return
    for node in event.nodes:
        if node in tree.nodes:  # nodes below it stay, so its place stays, without a message
            tree.write(node, None)


def _retargeted(state: State, turn: TurnState, event: TurnRetargeted) -> None:
    writing = (other.id for other in state.chat_turns() if other.node == event.node and other.fold is not None)
    turn.accepted = replace(
        turn.accepted,
        node=event.node,
        parent=state.tree.nodes[event.node].parent,
        message_id=event.message_id,
        not_before=event.not_before,
        owner=event.owner,
        origin=event.origin,
        during=next(writing, None),
    )


def _put(state: State, event: MessagesPut, at: Millis) -> None:
    _place(state, event.messages, at)
    if event.turn is None:
        state.tree.move_leaf(event.messages[-1].node)
        return
    turn = state.open[event.turn]
    last = event.messages[-1].node if event.messages else state.tree.nodes[turn.node].parent
    turn.status = next_status(turn.status, event)
    ids = [placed.id for placed in event.messages if placed.role == "user"]
    turn.accepted = replace(turn.accepted, deferred=False, parent=last, message_ids=ids)
    state.tree.reparent(turn.node, last)
