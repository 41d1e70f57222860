"""Count the attempts of a turn: which of them count, and what counts as progress (R-17).

An attempt counts when it begins. A graceful shutdown takes it off the count, and progress resets the count: so a
long answer survives any number of deploys, and a question that kills its process does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ..ids import Millis

__all__ = ["PROGRESS_CHUNKS", "AttemptCounter"]

PROGRESS_CHUNKS: Final = 1_000
"""Chunks that count as progress by themselves, for answers that have no steps."""


@dataclass(slots=True)
class AttemptCounter:
    """The attempts of an open turn that count against its limits."""

    counted: int = 0
    """Attempts since the last progress, without those that a shutdown interrupted."""
    restarts: int = 0
    """Counted attempts that discarded the answer so far. Progress does not reset these: each may repeat it."""
    chunks: int = 0
    """The number of chunks at the last progress."""
    has_step: bool = False
    """True when the running attempt has started a step. The end of an older attempt's step is no progress."""
    began_at: Millis | None = None
    """When the last attempt began; None when its running time is already in `ran`."""
    ran: int = 0
    """Milliseconds that earlier attempts ran, each up to its last chunk."""
    is_fresh: bool = False
    """True when the last attempt discarded the answer so far."""
    is_interrupted: bool = False
    """True when a shutdown interrupted the last attempt."""

    def begin(self, at: Millis, last_chunk_at: Millis, *, is_fresh: bool = False) -> None:
        """Count a new attempt."""
        self.ran = self.running_time(last_chunk_at)
        self.counted, self.restarts, self.is_fresh = self.counted + 1, self.restarts + is_fresh, is_fresh
        self.began_at, self.has_step, self.is_interrupted = at, False, False

    def interrupt(self, at: Millis) -> None:
        """Take the running attempt off the count, because a shutdown interrupts it."""
        self.ran = self.running_time(at)
        self.counted, self.restarts = self.counted - 1, self.restarts - self.is_fresh
        self.began_at, self.is_interrupted = None, True

    def count_chunk(self, chunk: dict[str, Any], chunks: int, *, is_own_call: bool) -> None:
        """Reset the count if this chunk is progress. `chunks` is the number of chunks with this one."""
        kind = chunk["type"]
        if kind == "start-step":
            self.has_step = True
        is_step = kind == "finish-step" and self.has_step
        is_output = is_own_call and kind.startswith("tool-output-") and not chunk.get("preliminary")
        if is_step or is_output or chunks - self.chunks >= PROGRESS_CHUNKS:
            self.counted, self.chunks = min(self.counted, self.restarts + 1), chunks

    def running_time(self, until: Millis) -> int:
        """Return how many milliseconds the attempts ran, the last one until `until`."""
        return self.ran if self.began_at is None else self.ran + max(until - self.began_at, 0)
