"""Decide whether a turn may be tried again, or is given up (R-17)."""

from __future__ import annotations

from ..events import AttemptCause
from ..ids import Millis
from .state import Rules
from .turn_state import TurnState

__all__ = ["cause_of", "may_try_again", "why_given_up"]


def cause_of(turn: TurnState, cause: AttemptCause) -> AttemptCause:
    """Return why the next attempt of a turn is made. `cause` is what its runner knows about the attempt before."""
    if not turn.attempt:
        return "first"
    return "shutdown" if turn.attempt_counter.is_interrupted else cause


def may_try_again(turn: TurnState, rules: Rules) -> bool:
    """Return whether another attempt may follow if the running one fails."""
    return _why_out_of_attempts(turn, rules) is None


def why_given_up(turn: TurnState, heard_at: Millis | None, now: Millis, rules: Rules) -> str | None:
    """Return why a turn is given up, or None.

    Time without output does not count after a single attempt: the process may not have been running.
    """
    too_often = _why_out_of_attempts(turn, rules)
    if too_often is not None:
        return too_often
    idle = now - max(turn.progressed_at, heard_at or 0)
    if turn.attempt_counter.counted > 1 and idle > rules.give_up_after:
        return f"no output for {idle // 1000} s, over {turn.attempt_counter.counted} attempts"
    return None


def _why_out_of_attempts(turn: TurnState, rules: Rules) -> str | None:
    counter = turn.attempt_counter
    if counter.counted >= rules.max_attempts:
        return f"{counter.counted} attempts did not end"
    if turn.attempt >= rules.max_total_attempts:
        return f"{turn.attempt} attempts did not end, which is the limit in total"
    if (ran := counter.running_time(turn.progressed_at)) > rules.max_running_time:
        return f"it ran for {ran // 1000} s, over {turn.attempt} attempts, which is the limit"
    return None
