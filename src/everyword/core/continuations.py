"""Continue an answer whose calls were answered, or run its approved calls when it may not be continued (R-3).

An answer may be continued until a later one has begun. After that, its approved calls run in a turn of kind `calls`:
it runs beside the conversation, its outputs go into the old message, and the model reads them with the next question.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from ..errors import Rejected
from ..events import ABSENT, CallAnswered, Chunk, Event, Identity, Outcome, TurnAccepted, TurnEnded, TurnKind, to_raw
from ..ids import Attempt, CallId, NodeId, RequestId, TurnId
from ..messages.message import Part, UIMessage
from ..messages.tool_calls import (
    ErrorAnswer,
    answer_chunks,
    is_mid_batch,
    is_tool_part,
    last_step,
    open_calls,
    own_approval_id,
    tool_name,
    tool_parts,
)
from .state import Rules, State
from .transitions import TurnStatus
from .turn_state import TurnState

__all__ = [
    "accept_late_calls",
    "continuation_is_due",
    "end_approved_calls",
    "events_before_first_attempt",
    "is_held",
    "may_continue",
    "principal_of_answer",
    "runs_here",
    "waiting_continuations",
]

APPROVED: Final = b'"approval-responded"'
"""A stored message without these bytes has no approved call. Most messages need not be decoded to know that."""


def may_continue(state: State, node: NodeId) -> bool:
    """Return whether the answer at `node` may be continued: it is shown, and no later answer has begun.

    Questions that wait are behind it on the path. It is continued before they begin.
    """
    for below in reversed(state.tree.active_path()):
        if below == node:
            return True
        place = state.tree.nodes[below]
        if place.role == "assistant" and (place.shown is not None or _has_begun(state, below)):
            return False
    return False


def _has_begun(state: State, node: NodeId) -> bool:
    """Return whether a turn of this node, which has no message yet, has had an attempt."""
    return any(turn.attempt > 0 and turn.node == node for turns in (state.open, state.ended) for turn in turns.values())


def waiting_continuations(state: State) -> Iterator[TurnState]:
    """Iterate over the continuations that have not begun."""
    return (turn for turn in state.chat_turns() if turn.is_continuation and turn.status is TurnStatus.ACCEPTED)


def continuation_is_due(state: State, turn: TurnState) -> bool:
    """Return whether a waiting continuation has no other open call of its message to wait for (R-3).

    Also true when its message may no longer be continued: the continuation begins, and `decide` skips it.
    """
    if not may_continue(state, turn.node):
        return True
    body = state.tree.nodes[turn.node].body
    return body is None or not is_mid_batch(UIMessage.decode(body))


def _why_skipped(state: State, turn: TurnState) -> str | None:
    """Return why a continuation that is about to begin is skipped, or None (R-3)."""
    if not may_continue(state, turn.node):
        return "target-not-last"
    if state.tree.nodes[turn.node].role != "assistant":
        return "target-not-an-answer"
    before = state.ended.get(turn.accepted.during) if turn.accepted.during is not None else None
    if before is None:
        return None
    body = state.tree.nodes[turn.node].body
    message = UIMessage.decode(body) if body is not None else UIMessage(id="", role="assistant")
    if open_calls(message) or any(part.get("state") == "approval-responded" for part in tool_parts(message)):
        return None
    # If the last step of a completed answer has no calls, the model had read all results.
    calls = [part for part in message.parts[last_step(message.parts) :] if is_tool_part(part)]
    is_answered = before.finish_reason == "stop" or (before.outcome is Outcome.COMPLETED and not calls)
    return "already-answered" if is_answered else None


def is_held(state: State, turn: TurnState) -> bool:
    """Return whether a running turn must not go on with the answers to the calls of its last step.

    A client gave one of them with `autoContinue: false`, and continues by itself. Another answer to the same message
    that asks for a continuation outweighs it, as it does for a stored message.
    """
    if not turn.held_calls or turn.fold is None or any(each.node == turn.node for each in waiting_continuations(state)):
        return False
    parts = turn.fold.message().parts
    return any(part.get("toolCallId") in turn.held_calls for part in parts[last_step(parts) :])


# -- late calls -------------------------------------------------------------------------------------


def runs_here(part: Part, rules: Rules) -> bool:
    """Return whether a call that needs approval is a call of a server tool."""
    is_ours = tool_name(part) in rules.server_tools or _is_asked_by_us(part)
    return is_ours and not part.get("providerExecuted")


def _is_asked_by_us(part: Part) -> bool:
    return (part.get("approval") or {}).get("id") == own_approval_id(str(part["toolCallId"]))


def accept_late_calls(state: State, node: NodeId, request: RequestId) -> TurnAccepted:
    """Return the event that accepts a turn for the approved calls of the message at `node`.

    Raises:
        Rejected: the request id is taken.
    """
    if request in state.requests:
        raise Rejected(f"unable to run approved calls as {request!r}; that request id is taken")
    place = state.tree.nodes[node]
    wrote = _turn_of(state, node)
    return TurnAccepted(
        turn=TurnId(state.last_turn + 1),
        request=request,
        kind=TurnKind.CALLS,
        generation=state.generation,
        node=node,
        parent=place.parent,
        message_id=place.id,
        body=wrote.accepted.body if wrote is not None else ABSENT,
        client_tools=wrote.accepted.client_tools if wrote is not None else ABSENT,
        principal=principal_of_answer(state, node),
    )


def principal_of_answer(state: State, node: NodeId) -> Identity | None:
    """Return the principal that asked for the answer at `node`. Its continuations work for the same one (R-35)."""
    wrote = _turn_of(state, node)
    return wrote.accepted.principal if wrote is not None else None


def _turn_of(state: State, node: NodeId) -> TurnState | None:
    """Return the newest turn of the message at `node`; None if the state has forgotten it."""
    return _newest_turn(turn for turns in (state.open, state.ended) for turn in turns.values() if turn.node == node)


def events_before_first_attempt(state: State, turn: TurnState, request: RequestId | None, rules: Rules) -> list[Event]:
    """Return the events that come before the first attempt of a turn.

    A question skips continuations that still wait for an answer to another call. A continuation that has nothing to
    continue skips itself. If a call of a skipped continuation, or of the answer before the question, was approved and
    has not run, the last event accepts a turn that runs it. A question then has to wait for that turn.
    """
    skipped: list[tuple[TurnState, str]] = []
    before: NodeId | None = None
    if turn.accepted.kind is TurnKind.CHAT:
        skipped = [(each, "target-not-last") for each in waiting_continuations(state)]
        above = state.tree.shown_path(turn.accepted.parent) if turn.accepted.parent is not None else ()
        before = next((node for node, place in reversed(above) if place.role == "assistant"), None)
    elif turn.is_continuation and (reason := _why_skipped(state, turn)) is not None:
        skipped = [(turn, reason)]
    events: list[Event] = [TurnEnded(each.id, Outcome.SKIPPED, reason=reason) for each, reason in skipped]
    node = next((each.node for each, _ in skipped if _approved_calls_at(state, each.node, rules)), None)
    if node is None and before is not None and any(map(_is_asked_by_us, _approved_calls_at(state, before, rules))):
        node = before  # an imported message may have calls that were approved elsewhere
    if node is None:
        return events
    if request is None:
        raise Rejected(f"unable to begin turn {turn.id}; approved calls of node {node} have to run first")
    return [*events, accept_late_calls(state, node, request)]


def end_approved_calls(state: State, stopped: Collection[TurnState], by: str | None, rules: Rules) -> list[Event]:
    """Return the events that end the approved calls of turns which are stopped before they began.

    Without them the calls would stay approved, and the next question would run them.
    """
    nodes, ids = dict.fromkeys(turn.node for turn in stopped if turn.extends), {turn.id for turn in stopped}
    kept = {turn.node for turn in state.message_turns() if turn.extends and turn.id not in ids}
    return [event for node in nodes if node not in kept for event in _stopped_calls(state, node, by, rules)]


def _stopped_calls(state: State, node: NodeId, by: str | None, rules: Rules) -> list[Event]:
    answer, writer = ErrorAnswer(rules.stopped_text), state.writer(node)
    if writer is None or writer.fold is None:
        calls = [CallId(part["toolCallId"]) for part in _approved_calls_at(state, node, rules)]
        return [CallAnswered(node, call, "error", to_raw(answer.error_text), by=by) for call in calls]
    events: list[Event] = []
    calls = [CallId(part["toolCallId"]) for part in _approved_calls(writer.fold.message(), rules)]
    for index, call in enumerate((call for call in calls if call not in writer.started_calls), writer.chunks):
        (chunk,) = answer_chunks(call, answer)
        events.append(CallAnswered(node, call, "error", to_raw(answer.error_text), turn=writer.id, by=by))
        events.append(Chunk(writer.id, Attempt(writer.attempt), index, to_raw(chunk)))
    return events


def _approved_calls_at(state: State, node: NodeId, rules: Rules) -> list[Part]:
    """Return the approved calls of a stored message."""
    place = state.tree.nodes.get(node)
    if place is None or place.body is None or APPROVED not in place.body:
        return []
    return _approved_calls(UIMessage.decode(place.body), rules)


def _approved_calls(message: UIMessage, rules: Rules) -> list[Part]:
    """Return the approved calls of server tools that have not run."""
    responded = [part for part in tool_parts(message) if part.get("state") == "approval-responded"]
    approved = [part for part in responded if (part.get("approval") or {}).get("approved") is True]
    return [part for part in approved if runs_here(part, rules)]


def _newest_turn(turns: Iterable[TurnState]) -> TurnState | None:
    return max(turns, key=lambda turn: turn.id, default=None)
