"""Count the attempts of a turn: which of them count, and what counts as progress (R-17).

An attempt counts when it begins. A graceful shutdown takes it off the count, and progress resets the count: so a
long answer survives any number of deploys, and a question that kills its process does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ..ids import Millis

__all__ = ["PROGRESS_CHUNKS", "Tries"]

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
