"""Which events time makes redundant, and why nobody can tell that they are gone (I-10).

A chunk of an ended turn is redundant: `message.ended` carries what all of them fold to, and a reader that saw some of
them replaces its partial message when it gets there. Chunks of a bare stream (`rsm`) are its only content and stay.

A state that was replaced is redundant: each `state.set` carries the whole state, so a reader that gets to the newer one
has what it would have had. It goes when the newer one is older than the retention: a reader that starts within the
retention comes after both.
"""

from __future__ import annotations

from ..events import Chunk, Event, StateSet, TurnKind
from ..ids import Millis

__all__ = ["is_redundant", "state_is_prunable", "turn_is_prunable"]


def turn_is_prunable(kind: TurnKind, ended_at: Millis | None, before: Millis) -> bool:
    """Tell whether the chunks of a turn may be deleted by a retention that keeps everything since `before`."""
    return kind is not TurnKind.RSM and ended_at is not None and ended_at < before


def state_is_prunable(replaced_at: Millis | None, before: Millis) -> bool:
    """Tell whether a state that was replaced at that time may be deleted; None for the last one, which stays."""
    return replaced_at is not None and replaced_at < before


def is_redundant(event: Event, *, prunable: bool) -> bool:
    """Tell whether an event may be deleted.

    `prunable` is what `turn_is_prunable` says of its turn, or `state_is_prunable` of the state that it sets.
    """
    return prunable and isinstance(event, Chunk | StateSet)
