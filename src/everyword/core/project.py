"""Compute rows from events: the tables that the store writes with the log, in the same transaction (I-9).

A chunk changes no row, so that a token costs one insert. The exception is an approval request (R-2).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, assert_never

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
    encode_event,
)
from ..ids import NodeId, TurnId
from ..rows import AgentRow, KeptRow, MessageRow, Row, RowsCleared, RowsRemoved, TurnRow
from .approvals import approval_row, approval_rows
from .conversations import conversation_row
from .evolve import APPROVAL_REQUEST
from .fibers import fiber_row, fiber_rows
from .jobs import job_row
from .runs import run_row, run_rows
from .shares import share_rows
from .state import State
from .transitions import TurnStatus
from .turn_state import TurnState
from .waiting_approvals import waiting_rows

__all__ = ["agent_row", "all_rows", "message_row", "project", "turn_row", "unlisted_rows"]


DESTROYED: Final = KeptRow("destroyed", "", b"true")
"""Marks an agent whose data is to be deleted by the process that loads it."""


def project(state: State, event: Event) -> list[Row]:
    """Return the rows that `event` changed. Call it right after `evolve(state, event, …)`."""
    if isinstance(event, Chunk) and APPROVAL_REQUEST not in bytes(event.body):
        return []
    return [*_changed_rows(state, event), *state.listed]


def _changed_rows(state: State, event: Event) -> list[Row]:
    match event:
        case Chunk():
            turn = state.find(event.turn)
            return _messages(state, [turn.node]) if turn is not None else []
        case AgentCreated() | ApprovalRequested() | ConversationChanged() | ConversationRead():
            return []
        case ShareCreated() | ShareRevoked():
            return []
        case CallStarted() | AttemptDelayed() | AttemptInterrupted():
            return []  # `restore` reads the events of open turns
        case TurnAccepted():
            nodes = [placed.node for placed in event.messages]
            if event.kind is TurnKind.CHAT:
                nodes.append(event.node)
            return [*_turn(state, event.turn), *_messages(state, nodes), agent_row(state)]
        case TurnRetargeted() | AttemptStarted() | CancelRequested() | HookDone():
            return _turn(state, event.turn)
        case CallAnswered():
            return [*_messages(state, [event.node]), *approval_rows(state, event)]
        case MessageReplaced():
            return _messages(state, [event.node])
        case MessageEnded():
            return _messages(state, [event.node])
        case TurnEnded():
            turn = state.find(event.turn)
            assert turn is not None
            return [*_turn(state, event.turn), *_messages(state, [turn.node])]
        case MessagesPut():
            nodes = [placed.node for placed in event.messages]
            if event.turn is None:
                return [*_messages(state, nodes), agent_row(state)]
            turn = state.open[event.turn]
            return [*_messages(state, [*nodes, turn.node]), turn_row(turn), agent_row(state)]
        case MessagesRemoved():
            emptied = _messages(state, event.nodes)
            return emptied or [RowsRemoved(event.nodes)]
        case LeafMoved():
            return [agent_row(state)]
        case ChatCleared():
            return [RowsCleared(event.generation), agent_row(state)]
        case JobAdded() | JobStarted() | JobEnded():
            return [job_row(state, event.job)]
        case RunStarted() | RunEnded() | RunTold():
            return [*run_rows(state, event)]
        case FiberStarted() | FiberStashed() | FiberPaused() | FiberEnded():
            return [*fiber_rows(state, event)]
        case AgentDestroyed():
            return [DESTROYED]
        case StateSet():
            return [KeptRow("state", "", bytes(event.state))]
        case _:
            assert_never(event)


def all_rows(state: State) -> list[Row]:
    """Return every row of the state, for an agent whose rows are rebuilt. Of the turns, those that the state has."""
    turns = sorted([*state.open.values(), *state.ended.values()], key=lambda turn: turn.id)
    kept = [*(job_row(state, job) for job in state.jobs), *(fiber_row(state, fiber) for fiber in state.fibers)]
    kept += [run_row(state, run) for run in state.runs]
    kept += [approval_row(state, call) for call in state.approvals]
    kept += [*waiting_rows(state), *share_rows(state)]
    if state.conversation is not None:
        kept.append(conversation_row(state))
    if state.value is not None:
        kept.append(KeptRow("state", "", state.value))
    if state.is_destroyed:
        kept.append(DESTROYED)
    return [*map(turn_row, turns), *_messages(state, state.tree.nodes), agent_row(state), *kept]


def unlisted_rows(state: State) -> list[KeptRow]:
    """Return the rows for lists of an agent that has none, once; a release without lists has written it."""
    settled, state.unlisted = state.unlisted, None
    return [] if settled is None else [*settled, *waiting_rows(state), conversation_row(state)]


def agent_row(state: State) -> AgentRow:
    return AgentRow(state.generation, state.tree.leaf, state.last_turn, state.tree.last_node)


def turn_row(turn: TurnState) -> TurnRow:
    """Return the row of a turn. `chunks` is 0 until the turn has ended: the log has the number."""
    accepted = turn.accepted
    ended = turn.status is TurnStatus.ENDED
    return TurnRow(
        turn=turn.id,
        request=turn.request,
        kind=accepted.kind,
        generation=accepted.generation,
        node=accepted.node,
        message_id=accepted.message_id,
        status=turn.outcome.value if turn.outcome is not None else turn.status.value,
        accepted=encode_event(accepted),
        accepted_at=turn.accepted_at,
        attempt=turn.attempt,
        chunks=turn.chunks if ended else 0,
        reason=turn.reason,
        error=turn.error,
        detail=turn.detail,
        finish_reason=turn.finish_reason,
        usage=turn.usage,
        ended_at=turn.ended_at,
        hook_due=turn.hook_due,
    )


def message_row(state: State, node: NodeId) -> MessageRow:
    place = state.tree.nodes[node]
    return MessageRow(node, place.parent, place.id, place.role, place.body, place.draft, place.at)


def _turn(state: State, turn: TurnId) -> list[Row]:
    found = state.find(turn)
    return [turn_row(found)] if found is not None else []


def _messages(state: State, nodes: Iterable[NodeId]) -> list[Row]:
    return [message_row(state, node) for node in nodes if node in state.tree.nodes]
