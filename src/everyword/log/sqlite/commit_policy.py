"""Where and when the next transaction is made: by the event loop, by the writer's thread, or one iteration later.

With durability "process" a commit does not wait for the disk. A small one takes less time than waking the thread and
getting the interpreter back from it, so the loop makes it. Right after a commit, a loop that is busy waits: what it
does now will be more to write, and one transaction costs less than two. A loop that has nothing else to do hands over
to the thread, and what comes meanwhile is the next transaction: a source that yields before every chunk is four times
as fast that way. Measured in decisions 0015, 0018 and 0020.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from time import monotonic

from .write_job import WriteJob

__all__ = ["CommitPolicy", "Place"]

LIGHT = 64 * 1024
"""Bytes that the loop writes itself at most: a larger transaction would hold up everything else."""
CROWD, CROWDED = 128, 1024 * 1024
"""With so many agents in one transaction the loop is behind, and a thread would only compete with it for the
interpreter: then it writes up to so many bytes itself."""
PAUSE = 0.0005
"""Seconds after a commit in which the loop makes no other one."""
IDLE = 0.00005
"""A loop iteration shorter than this (seconds) counts as idle."""


class Place(Enum):
    """Who makes the next transaction."""

    LOOP = "loop"
    THREAD = "thread"


class CommitPolicy:
    """Chooses for one writer. `may_use_loop` is False if a commit waits for the disk."""

    def __init__(self, *, may_use_loop: bool) -> None:
        self._may_use_loop = may_use_loop
        self._last_commit = 0.0
        self._is_early = False
        """True if the last commit was less than a pause before the transaction that is chosen for."""
        self._waiting_since: float | None = None
        """When the loop was last given another iteration; None if it was not."""

    def is_to_wait(self) -> bool:
        """Return True if the loop is to have another iteration before the next transaction; ask again then."""
        if not self._may_use_loop:
            return False
        now, before = monotonic(), self._waiting_since
        self._is_early = now - self._last_commit < PAUSE
        is_busy = before is None or now - before > IDLE
        if self._is_early and is_busy:
            self._waiting_since = now
            return True
        self._waiting_since, self._last_commit = None, now
        return False

    def place(self, jobs: Sequence[WriteJob], *, is_checkpointing: bool) -> Place:
        """Choose who makes the transaction of these jobs, after `is_to_wait` was False.

        While the thread checkpoints, a small transaction is the loop's: the thread waits for the disk.
        """
        may_use_loop = self._may_use_loop and (not self._is_early or is_checkpointing)
        return Place.LOOP if may_use_loop and is_light(jobs) else Place.THREAD

    @property
    def is_waiting(self) -> bool:
        """True while the loop was given another iteration."""
        return self._waiting_since is not None

    def rest(self) -> None:
        """Note that nothing waits any more."""
        self._waiting_since = None


def is_light(jobs: Sequence[WriteJob]) -> bool:
    """Tell whether the loop may write the jobs itself."""
    size = 0
    for job in jobs:
        if job.size is None:
            return False
        size += job.size
    return size <= LIGHT or (len(jobs) >= CROWD and size <= CROWDED)
