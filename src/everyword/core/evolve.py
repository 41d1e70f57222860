"""What an event changes: the fold of the log into the state. Never refuses an event that `decide` made.

Mutates the state in place: copying it per event would cost more than deciding does.
"""

from __future__ import annotations

from typing import Any, Final, assert_never

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from ..errors import FoldError
from ..events import (
    ABSENT,
    AgentCreated,
    AgentDestroyed,
    AttemptDelayed,
    AttemptInterrupted,
    AttemptStarted,
    CallAnswered,
    CallStarted,
    CancelRequested,
    ChatCleared,
    Chunk,
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
    StateSet,
    TurnAccepted,
    TurnEnded,
    TurnKind,
    TurnRetargeted,
)
from ..ids import Millis
from ..messages.fold import MessageFold
from ..messages.message import UIMessage
from ..messages.tool_calls import ApprovalAnswer, CallAnswer, ErrorAnswer, OutputAnswer, settle
from .approvals import evolve_approval
from .attempts import PROGRESS_CHUNKS, Tries
from .fibers import evolve_fiber
from .jobs import evolve_job
from .runs import evolve_run
from .state import RECENT_TRANSIENTS, RECENT_TURNS, State, Turn
from .transitions import Status, next_status
from .tree import Node, Tree

__all__ = ["APPROVAL_REQUEST", "answer_of", "evolve", "open_fold", "without_bodies"]

APPROVAL_REQUEST = b'"tool-approval-request"'
"""How a chunk that asks somebody something is recognised without parsing it."""

_NULL = Raw(b"null")
_RUNNING: Final = Status.RUNNING
_decode: msgspec.json.Decoder[Any] = msgspec.json.Decoder()

_COUNTED: Final = frozenset({"start-step", "finish-step", "tool-output-available", "tool-output-error"})
"""Chunks that may be progress of an attempt."""


def evolve(state: State, event: Event, at: Millis) -> None:
    """Apply one event, committed or about to be, to the state."""
    if isinstance(event, Chunk):  # nearly all events are
        return _chunk(state, event, at)
    match event:
        case TurnAccepted():
            _accepted(state, event, at)
        case TurnRetargeted():
            _retargeted(state, _step(state, event), event)
        case AttemptStarted():
            _began(state, _step(state, event), event, at)
        case AttemptDelayed():
            _step(state, event).recovers_with = event.attempt
        case AttemptInterrupted():
            _step(state, event).tries.interrupt(at)
        case CallStarted():
            _step(state, event).calls[event.call] = event.attempt
        case CallAnswered():
            _answered(state, event, at)
        case MessageEnded():
            _step(state, event)
            state.tree.write(event.node, bytes(event.message))
        case CancelRequested():
            _step(state, event)
        case TurnEnded():
            _ended(state, event, at)
        case HookDone():
            _step(state, event).hook_due = False
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
        case AgentCreated():
            pass  # that its log has an event says it all
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
    return None


def _began(state: State, turn: Turn, event: AttemptStarted, at: Millis) -> None:
    turn.tries.begin(at, turn.progressed_at, is_fresh=event.fresh)
    turn.attempt, turn.recovers_with = event.attempt, event.attempt if event.attempt > 1 else None
    if (turn.fold is None or event.fresh) and not turn.accepted.kind.is_bare:
        turn.fold = open_fold(state, turn)


def open_fold(state: State, turn: Turn) -> MessageFold:
    """Return an empty fold for the turn's answer; a turn that extends a message starts from it."""
    base = state.tree.nodes[turn.node].body if turn.extends and turn.node in state.tree.nodes else None
    return MessageFold(turn.accepted.message_id, base=UIMessage.decode(base) if base is not None else None)


def without_bodies(event: TurnAccepted) -> TurnAccepted:
    """Return the event as turns remember it: which messages it placed, but not what they say."""
    if not event.messages:
        return event
    return replace(event, messages=[replace(placed, message=_NULL) for placed in event.messages])


def answer_of(event: CallAnswered) -> CallAnswer:
    """Return what the event says of its call, as `messages.tool_calls` understands it."""
    value = _decode.decode(bytes(event.value))
    match event.kind:
        case "result":
            return OutputAnswer(value)
        case "error":
            return ErrorAnswer(str(value))
        case "approval":
            return ApprovalAnswer(bool(value.get("approved")), value.get("reason"))
        case _:
            assert_never(event.kind)


def _step(
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
) -> Turn:
    turn = state.open.get(event.turn) or state.ended.get(event.turn)
    if turn is None:
        raise AssertionError(f"illegal {type(event).__name__} of unknown turn {event.turn}")
    turn.status = next_status(turn.status, event)
    return turn


def _chunk(state: State, event: Chunk, at: Millis) -> None:
    turn = state.open.get(event.turn)
    if turn is None or turn.status is not _RUNNING:  # a running turn runs on (`TRANSITIONS`)
        turn = _step(state, event)
    turn.chunks, turn.progressed_at = event.index + 1, at
    if turn.recovers_with == event.attempt:
        turn.recovers_with = None
    if turn.fold is None:
        return
    if event.transient:
        turn.transients.append(bytes(event.body))
        del turn.transients[:-RECENT_TRANSIENTS]
        return
    chunk = _decode.decode(event.body)
    try:
        turn.fold.apply(chunk)
    except FoldError:
        # Runners normalise, so this is a chunk of another writer; the log keeps it, the message does without.
        return
    if (kind := chunk["type"]) in _COUNTED or turn.chunks - turn.tries.chunks >= PROGRESS_CHUNKS:
        is_own_call = turn.calls.get(chunk.get("toolCallId", "")) == event.attempt
        turn.tries.hear(chunk, turn.chunks, is_own_call=is_own_call)
    if kind == "tool-approval-request":
        state.tree.write(turn.node, state.tree.nodes[turn.node].body, draft=turn.fold.message().encode())


def _accepted(state: State, event: TurnAccepted, at: Millis) -> None:
    assert event.turn not in state.open and event.turn not in state.ended, "a turn is accepted once"
    turn = Turn(without_bodies(event), at, progressed_at=at)
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
    answer = answer_of(event)
    node = state.tree.nodes[event.node]
    turn = state.open.get(event.turn) if event.turn is not None else None
    if turn is None or turn.fold is None:
        settled = settle(UIMessage.decode(node.body), event.call, answer) if node.body is not None else None
        if settled is not None:
            state.tree.write(event.node, settled.encode(), draft=node.draft)
        return
    turn.status = next_status(turn.status, event)
    if not event.auto_continue:
        turn.held.add(event.call)
    # Version 6 has no chunk for an approval, and a draft is read before the answer's chunk comes.
    turn.fold.answer(event.call, answer)
    if node.draft is not None:
        state.tree.write(event.node, node.body, draft=turn.fold.message().encode())
    elif node.body is not None:  # the turn extends a stored message, which clients are shown until it ends
        settled = settle(UIMessage.decode(node.body), event.call, answer)
        if settled is not None:
            state.tree.write(event.node, settled.encode())


def _ended(state: State, event: TurnEnded, at: Millis) -> None:
    turn = _step(state, event)
    assert turn.status is Status.ENDED
    turn.outcome, turn.reason, turn.error, turn.detail = event.outcome, event.reason, event.error, event.detail
    turn.finish_reason, turn.usage = event.finish_reason, bytes(event.usage) if event.usage is not ABSENT else None
    node = state.tree.nodes.get(turn.node)
    # A continuation that never began leaves another's draft alone.
    if node is not None and node.draft is not None and turn.fold is not None:
        state.tree.write(turn.node, node.body)
    turn.chunks, turn.ended_at, turn.hook_due, turn.fold = event.chunks, at, event.hook_due, None
    turn.progressed_at, turn.recovers_with, turn.tries = Millis(0), None, Tries()
    turn.transients.clear()
    turn.calls.clear()
    turn.held.clear()
    del state.open[turn.id]
    state.ended[turn.id] = turn
    if event.hook_due:
        state.hooks_due.add(turn.id)
    if len(state.ended) > RECENT_TURNS:
        others = [other for other in state.ended.values() if other is not turn]
        oldest = min(others, key=lambda other: (other.hook_due, other.id))  # who is still to be told of is remembered
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


def _retargeted(state: State, turn: Turn, event: TurnRetargeted) -> None:
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
