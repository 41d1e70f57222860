"""How often a turn may be tried: which attempts count, what counts as progress, and when a turn is given up (R-17).

An attempt counts when it begins. A shutdown in good order takes it off the count, and progress resets the count: so a
long answer survives any number of deploys, and a question that kills its process does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ..events import AttemptCause
from ..ids import Millis

if TYPE_CHECKING:
    from .state import Rules, Turn

__all__ = ["PROGRESS_CHUNKS", "Tries", "cause_of", "may_try_again", "why_given_up"]

PROGRESS_CHUNKS: Final = 1_000
"""Chunks that count as progress by themselves, for answers that have no steps."""


@dataclass(slots=True)
class Tries:
    """The attempts of an open turn, as far as they count against its bounds."""

    counted: int = 0
    """Attempts since the last progress, without those that a shutdown interrupted."""
    restarts: int = 0
    """Counted attempts that discarded what was said before. Progress does not reset these: each can make it again."""
    chunks: int = 0
    """How many chunks the turn had at the last progress."""
    has_step: bool = False
    """Whether the running attempt has begun a step of its own: the end of an older one is no progress of it."""
    began_at: Millis | None = None
    """When the attempt began that runs, or died; None when there is none whose time is still to be counted."""
    ran: int = 0
    """Milliseconds that earlier attempts ran, up to their last chunk."""
    is_fresh: bool = False
    """Whether the last attempt discarded what was said before."""
    is_interrupted: bool = False
    """Whether a shutdown interrupted the last attempt."""

    def begin(self, at: Millis, last_chunk_at: Millis, *, is_fresh: bool = False) -> None:
        """Count an attempt that begins."""
        self.ran = self.running_time(last_chunk_at)
        self.counted, self.restarts, self.is_fresh = self.counted + 1, self.restarts + is_fresh, is_fresh
        self.began_at, self.has_step, self.is_interrupted = at, False, False

    def interrupt(self, at: Millis) -> None:
        """Take the running attempt off the count: a shutdown ended it."""
        self.ran = self.running_time(at)
        self.counted, self.restarts = self.counted - 1, self.restarts - self.is_fresh
        self.began_at, self.is_interrupted = None, True

    def hear(self, chunk: dict[str, Any], chunks: int, *, is_own_call: bool) -> None:
        """Reset the count if this chunk of the running attempt is progress. `chunks` includes this chunk."""
        kind = chunk["type"]
        if kind == "start-step":
            self.has_step = True
        is_step = kind == "finish-step" and self.has_step
        is_output = is_own_call and kind.startswith("tool-output-") and not chunk.get("preliminary")
        if is_step or is_output or chunks - self.chunks >= PROGRESS_CHUNKS:
            self.counted, self.chunks = min(self.counted, self.restarts + 1), chunks

    def running_time(self, until: Millis) -> int:
        """Return for how many milliseconds the turn's attempts ran, the last of them until then."""
        return self.ran if self.began_at is None else self.ran + max(until - self.began_at, 0)


def cause_of(turn: Turn, cause: AttemptCause) -> AttemptCause:
    """Return why the turn's next attempt is made; `cause` is what its runner knows of the attempt before."""
    if not turn.attempt:
        return "first"
    return "shutdown" if turn.tries.is_interrupted else cause


def may_try_again(turn: Turn, rules: Rules) -> bool:
    """Tell whether the running attempt may fail and be followed by another."""
    return _why_too_often(turn, rules) is None


def why_given_up(turn: Turn, heard_at: Millis | None, now: Millis, rules: Rules) -> str | None:
    """Return why the turn is not tried again, or None. A single attempt always is: the process may have been away."""
    too_often = _why_too_often(turn, rules)
    if too_often is not None:
        return too_often
    idle = now - max(turn.progressed_at, heard_at or 0)
    if turn.tries.counted > 1 and idle > rules.give_up_after:
        return f"no word in {idle // 1000} s, over {turn.tries.counted} attempts"
    return None


def _why_too_often(turn: Turn, rules: Rules) -> str | None:
    tries = turn.tries
    if tries.counted >= rules.max_attempts:
        return f"{tries.counted} attempts did not end"
    if turn.attempt >= rules.max_total_attempts:
        return f"{turn.attempt} attempts did not end, which is the limit in total"
    if (ran := tries.running_time(turn.progressed_at)) > rules.max_running_time:
        return f"it ran for {ran // 1000} s, over {turn.attempt} attempts, which is the limit"
    return None
