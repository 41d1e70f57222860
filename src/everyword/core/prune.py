"""Which events time makes redundant, and why nobody can tell that they are gone (I-10).

A chunk of an ended turn is redundant: `message.ended` carries what all of them fold to, and a reader that saw some of
them replaces its partial message when it gets there. Chunks of a bare stream (`rsm`) are its only content and stay.
"""

from __future__ import annotations

from ..events import Chunk, Event, TurnKind
from ..ids import Millis

__all__ = ["is_redundant", "turn_is_prunable"]


def turn_is_prunable(kind: TurnKind, ended_at: Millis | None, before: Millis) -> bool:
    """Tell whether the chunks of a turn may be deleted by a retention that keeps everything since `before`."""
    return kind is not TurnKind.RSM and ended_at is not None and ended_at < before


def is_redundant(event: Event, *, prunable: bool) -> bool:
    """Tell whether an event of a turn may be deleted; `prunable` is what `turn_is_prunable` says of its turn."""
    return prunable and isinstance(event, Chunk)
