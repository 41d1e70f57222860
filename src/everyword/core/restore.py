"""State out of rows: how an agent is loaded. Folds only the chunks of open turns, never the log.

Restoring the rows that a log projected gives the state that folding the log gives (property-tested).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ..errors import BadMessage
from ..events import (
    AttemptDelayed,
    AttemptInterrupted,
    AttemptStarted,
    CallAnswered,
    CallStarted,
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
from ..rows import AgentRow, KeptRow, MessageRow, TurnRow
from .approvals import APPROVAL, restore_approval
from .evolve import evolve, open_fold
from .fibers import FIBER, restore_fiber
from .jobs import restore_job
from .runs import RUN, restore_run
from .state import State, Turn
from .transitions import Status
from .tree import Node, Tree

__all__ = ["restore"]

_Replayed = AttemptStarted | AttemptDelayed | AttemptInterrupted | Chunk | CallStarted | CallAnswered


def restore(
    agent: AgentRow | None,
    turns: Iterable[TurnRow],
    messages: Iterable[MessageRow],
    streamed: Iterable[tuple[Millis, Event]],
    kept: Iterable[KeptRow] = (),
) -> tuple[State, Sequence[str]]:
    """Return the state that these rows and the open turns' events describe, and a sentence per row left out.

    A row that cannot be read is left out: losing one message is better than losing the agent.
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
    _restore_kept(state, list(kept), problems)
    for at, event in streamed:
        try:
            _stream(state, event, at)
        except Exception as exc:  # noqa: BLE001 - stored bytes may be anything; the rest of the turn still counts
            problems.append(f"unable to fold a stored {kind_of(event)} of turn {turn_of(event)}; {exc!r}")
    return state, problems


def _restore_kept(state: State, kept: Sequence[KeptRow], problems: list[str]) -> None:
    for row in kept:
        if row.kind == "state":
            state.value = row.body
        elif row.kind == "destroyed":
            state.is_destroyed = True
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
            problems.append(f"unable to read who approved {row.key!r}; {exc}")
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
    state.requests[row.request] = row.turn  # even if the rest cannot be read: the id was accepted (I-6)
    accepted = decode_event(row.accepted)
    if not isinstance(accepted, TurnAccepted):
        raise ValueError("its acceptance is another event")
    turn = Turn(accepted, row.accepted_at, attempt=row.attempt, hook_due=row.hook_due)
    turn.progressed_at = row.accepted_at if row.ended_at is None else Millis(0)
    if row.ended_at is None:
        turn.status = Status(row.status)
        if turn.status is not Status.ACCEPTED and not accepted.kind.is_bare:
            turn.fold = open_fold(state, turn)
        state.open[row.turn] = turn
        return
    turn.status, turn.outcome, turn.ended_at = Status.ENDED, Outcome(row.status), row.ended_at
    turn.reason, turn.error, turn.detail = row.reason, row.error, row.detail
    turn.finish_reason, turn.usage, turn.chunks = row.finish_reason, row.usage, row.chunks
    state.ended[row.turn] = turn
    if row.hook_due:
        state.hooks_due.add(row.turn)


def _stream(state: State, event: Event, at: Millis) -> None:
    """Fold one event of an open turn; others were projected already."""
    if not isinstance(event, _Replayed) or event.turn is None:
        return
    turn = state.open.get(event.turn)
    if turn is None:
        return
    status = turn.status  # the row's, which is that of the last event: this one may lie before it
    turn.status = Status.ACCEPTED if status is Status.ACCEPTED else Status.RUNNING
    try:
        evolve(state, event, at)
    finally:
        turn.status = status
