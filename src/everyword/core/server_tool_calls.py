"""Calls of server tools: recorded before the tool runs, and with an output or an error once the turn has ended."""

from __future__ import annotations

from ..errors import Rejected, StaleAttempt
from ..events import CallStarted, Event, Outcome
from ..ids import CallId
from ..messages.fold import MessageFold
from ..messages.message import Chunk, Part, UIMessage
from ..messages.tool_calls import find_call, tool_name, tool_parts
from .commands import RecordCallStart
from .state import Rules, State
from .transitions import TurnStatus
from .turn_state import TurnState

__all__ = ["interrupted_calls", "start_call", "with_errors"]


def start_call(turn: TurnState, command: RecordCallStart) -> list[Event]:
    """Return the event that records the start of a call.

    Raises:
        Rejected: the message has no such call, the call waits for an approval or has an output, or it was started
            before and its tool is not idempotent.
    """
    if turn.status is not TurnStatus.RUNNING or turn.fold is None:
        raise StaleAttempt(f"unable to start a call of turn {turn.id}; it is not running")
    part = find_call(turn.fold.message(), command.call)
    if part is None:
        raise Rejected(f"unable to start call {command.call!r}; the answer has no such call. Announce its input first.")
    if not _is_ready(part):
        raise Rejected(f"unable to start call {command.call!r}; it is {part.get('state')}")
    started = turn.started_calls.get(command.call)
    if started is not None and (started == command.attempt or not command.is_idempotent):
        raise Rejected(f"unable to start call {command.call!r} again; attempt {started} started it")
    return [CallStarted(turn.id, command.attempt, command.call, command.tool)]


def interrupted_calls(state: State, turn: TurnState, outcome: Outcome, rules: Rules) -> list[Chunk]:
    """Return error chunks for the calls that will never have an output when the turn ends with this outcome."""
    if turn.fold is None or not (turn.started_calls or rules.server_tools):
        return []
    error = {"type": "tool-output-error", "errorText": rules.interrupted_text}
    return [
        {**error, "toolCallId": part["toolCallId"]}
        for part in tool_parts(turn.fold.message())
        if not _has_output(part) and _is_abandoned(state, turn, part, outcome, rules)
    ]


def with_errors(message: UIMessage, errors: list[Chunk]) -> UIMessage:
    """Return the message with these `tool-output-error` chunks applied."""
    if not errors:
        return message
    fold = MessageFold(message.id, base=message)
    for error in errors:
        fold.apply(error)
    return fold.message()


def _is_ready(part: Part) -> bool:
    state = part.get("state")
    approved = (part.get("approval") or {}).get("approved")
    # A preliminary output of a crashed attempt is no output: an idempotent call may start again.
    has_progress = state == "output-available" and bool(part.get("preliminary"))
    return state == "input-available" or has_progress or (state == "approval-responded" and approved is True)


def _has_output(part: Part) -> bool:
    state = part.get("state")
    return state in ("output-error", "output-denied") or (state == "output-available" and not part.get("preliminary"))


def _is_abandoned(state: State, turn: TurnState, part: Part, outcome: Outcome, rules: Rules) -> bool:
    if CallId(part["toolCallId"]) in turn.started_calls:
        return True
    if tool_name(part) not in rules.server_tools or part.get("providerExecuted"):
        return False
    if part.get("state") == "approval-responded":
        # Approved while the answer was streamed: the waiting continuation will run it.
        return outcome is not Outcome.COMPLETED and not any(
            other.node == turn.node for other in state.message_turns() if other is not turn
        )
    return part.get("state") in ("input-available", "input-streaming")
