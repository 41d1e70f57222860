"""Load an agent: compute its state from its rows. Only events of open turns are read from the log.

The rows of a log give the same state as applying all of its events (property-tested).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ..errors import BadMessage
from ..events import (
    Chunk,
    Event,
    Outcome,
    TurnAccepted,
    decode_event,
    kind_of,
    turn_of,
)
from ..ids import CallId, Millis, NodeId
from ..messages.message import UIMessage
from ..rows import CONVERSATION, SEARCHABLE, SHARE, WAITING, AgentRow, KeptRow, MessageRow, TurnRow
from .approvals import APPROVAL, restore_approval
from .conversations import restore_conversation, summarise_rows
from .fibers import FIBER, restore_fiber
from .jobs import restore_job
from .runs import RUN, restore_run
from .shares import restore_share
from .state import State
from .transitions import TurnStatus
from .tree import Node, Tree
from .turn_state import TurnProgress, TurnState
from .waiting_approvals import find_waiting, restore_waiting

__all__ = ["restore"]


def restore(
    agent: AgentRow | None,
    turns: Iterable[TurnRow],
    messages: Iterable[MessageRow],
    streamed: Iterable[tuple[Millis, Event]],
    kept: Iterable[KeptRow] = (),
) -> tuple[State, Sequence[str]]:
    """Return the state that these rows and the events of open turns describe, and a sentence for each unreadable row.

    An unreadable row is left out: losing one message is better than losing the agent.
    """
    problems: list[str] = []
    nodes = _restore_nodes(messages, problems)
    state = State(tree=Tree(nodes))
    if agent is not None:
        tree = Tree(nodes, agent.leaf, agent.last_node)
        state = State(agent.generation, agent.last_turn, tree)
    for row in turns:
        try:
            _add_turn(state, row)
        except (msgspec.DecodeError, ValueError) as exc:
            problems.append(f"unable to read turn {row.turn}; {exc}")
    rows = list(kept)
    _restore_kept(state, rows, problems)
    _restore_lists(state, rows, problems)
    for at, event in streamed:
        try:
            _replay(state, event, at)
        except Exception as exc:  # noqa: BLE001 - stored bytes may be anything; go on with the rest of the turn
            problems.append(f"unable to fold a stored {kind_of(event)} of turn {turn_of(event)}; {exc!r}")
    return state, problems


def _restore_kept(state: State, kept: Sequence[KeptRow], problems: list[str]) -> None:
    for row in kept:
        if row.kind == "state":
            state.value = row.body
        elif row.kind == "destroyed":
            state.is_destroyed = True
        elif row.kind == SEARCHABLE:
            state.is_searchable = True
    for row in (row for row in kept if row.kind == "job"):
        try:
            state.jobs |= restore_job([row])
        except (msgspec.DecodeError, ValueError) as exc:
            problems.append(f"unable to read job {row.key!r}; {exc}")
    runs = []
    for row in (row for row in kept if row.kind == RUN):
        try:
            runs.append(restore_run(row))
        except (msgspec.DecodeError, ValueError) as exc:
            problems.append(f"unable to read run {row.key!r}; {exc}")
    state.runs = {each.id: each for each in sorted(runs, key=lambda each: each.started.number)}
    state.last_run = max((each.started.number for each in runs), default=0)
    approvals = []
    for row in (row for row in kept if row.kind == APPROVAL):
        try:
            approvals.append((CallId(row.key), restore_approval(row)))
        except (msgspec.DecodeError, ValueError) as exc:
            problems.append(f"unable to read the approval of call {row.key!r}; {exc}")
    state.approvals = dict(sorted(approvals, key=lambda each: each[1].at))
    fibers = []
    for row in (row for row in kept if row.kind == FIBER):
        try:
            fibers.append(restore_fiber(row))
        except (msgspec.DecodeError, ValueError) as exc:
            problems.append(f"unable to read fiber {row.key!r}; {exc}")
    state.fibers = {each.id: each for each in sorted(fibers, key=lambda each: (each.started_at, each.id))}
    state.jobs = dict(sorted(state.jobs.items(), key=lambda item: item[1].added.number))
    state.last_job = max((job.added.number for job in state.jobs.values()), default=0)


def _restore_lists(state: State, kept: Sequence[KeptRow], problems: list[str]) -> None:
    """Restore links and what lists show; compute it for an agent of a release that had no lists."""
    waiting = []
    for row in (row for row in kept if row.kind == WAITING):
        try:
            waiting.append((row.key, restore_waiting(row)))
        except (msgspec.DecodeError, ValueError) as exc:
            problems.append(f"unable to read the approval that call {row.key!r} waits for; {exc}")
    state.waiting = dict(sorted(waiting, key=lambda each: (each[1].asked_at, each[0])))
    shares = []
    for row in (row for row in kept if row.kind == SHARE):
        try:
            shares.append(restore_share(row))
        except (msgspec.DecodeError, ValueError) as exc:
            problems.append(f"unable to read a shared link; {exc}")
    state.shares = {each.id: each for each in sorted(shares, key=lambda each: (each.created_at, each.id))}
    for row in (row for row in kept if row.kind == CONVERSATION):
        try:
            state.conversation = restore_conversation(row)
        except (msgspec.DecodeError, ValueError) as exc:
            problems.append(f"unable to read the summary of the conversation; {exc}")
    if state.conversation is None:
        find_waiting(state)
        state.conversation = summarise_rows(state)
        state.unlisted = [] if state.tree.last_node > 0 else None
    if state.conversation is not None:
        state.indexed_title = state.conversation.title


def _check_body(message: MessageRow) -> str | None:
    for body in (message.body, message.draft):
        if body is None:
            continue
        try:
            UIMessage.decode(body)
        except BadMessage as exc:
            return f"unable to load message {message.id!r} (node {message.node}); {exc}"
    return None


def _restore_nodes(messages: Iterable[MessageRow], problems: list[str]) -> dict[NodeId, Node]:
    nodes: dict[NodeId, Node] = {}
    for row in messages:
        problem = _check_body(row)
        if problem is None:
            nodes[row.node] = Node(row.parent, row.id, row.role, row.at, row.body, row.draft)
        else:
            problems.append(problem)
            nodes[row.node] = Node(row.parent, row.id, row.role, row.at)
    return nodes


def _add_turn(state: State, row: TurnRow) -> None:
    state.requests[row.request] = row.turn  # even if the rest is unreadable: the request id is taken (I-6)
    accepted = decode_event(row.accepted)
    if not isinstance(accepted, TurnAccepted):
        raise ValueError("its event is not turn.accepted")
    if row.ended_at is None:
        state.open[row.turn] = _open_turn(state, row, accepted)
        return
    state.ended[row.turn] = _ended_turn(row, accepted)
    if row.hook_due:
        state.hooks_due.add(row.turn)


def _open_turn(state: State, row: TurnRow, accepted: TurnAccepted) -> TurnState:
    """Return an open turn as its row describes it; `_replay` adds what its chunks and other events say."""
    turn = TurnState(
        accepted,
        row.accepted_at,
        status=TurnStatus(row.status),
        attempt=row.attempt,
        progressed_at=row.accepted_at,
        hook_due=row.hook_due,
    )
    if turn.status is not TurnStatus.ACCEPTED:
        turn.open_fold(state.tree.stored(turn.node))
    return turn


def _ended_turn(row: TurnRow, accepted: TurnAccepted) -> TurnState:
    return TurnState(
        accepted,
        row.accepted_at,
        status=TurnStatus.ENDED,
        attempt=row.attempt,
        chunks=row.chunks,
        outcome=Outcome(row.status),
        reason=row.reason,
        error=row.error,
        detail=row.detail,
        finish_reason=row.finish_reason,
        usage=row.usage,
        ended_at=row.ended_at,
        hook_due=row.hook_due,
    )


def _replay(state: State, event: Event, at: Millis) -> None:
    """Repeat what an event did to its open turn. The rows have the rest: statuses, messages, drafts and approvals."""
    if isinstance(event, Chunk):  # nearly all events are
        turn = state.open.get(event.turn)
        if turn is not None:
            turn.apply_chunk(event, at)
    elif isinstance(event, TurnProgress) and event.turn is not None:
        turn = state.open.get(event.turn)
        if turn is not None:
            turn.apply(event, at, state.tree.stored(turn.node))
