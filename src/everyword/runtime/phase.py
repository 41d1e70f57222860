"""Where a process is in its life, as far as work is concerned."""

from __future__ import annotations

import enum

__all__ = ["ShutdownPhase"]


class ShutdownPhase(enum.Enum):
    """What may begin and what may be written (R-19)."""

    SERVING = enum.auto()
    """Everything may begin."""
    DRAINING = enum.auto()
    """What runs may finish, and begin what it needs for that. New questions are stored for the next process."""
    CLOSED = enum.auto()
    """Nothing is written any more: what still runs ends as if the process had been killed."""
