"""Which events may be deleted after the retention time, so that no reader notices (I-10).

A chunk of an ended turn is redundant: `message.ended` has the message that the chunks add up to, and a reader that saw
some of them replaces its partial message there. Chunks of a bare stream (`rsm`) are its only content and stay.

A replaced state is redundant: each `state.set` has the whole state, so a reader needs the newer one only. It is deleted
when the newer one is older than the retention: a reader that starts within the retention comes after both.
"""

from __future__ import annotations

from ..events import Chunk, Event, StateSet, TurnKind
from ..ids import Millis

__all__ = ["is_redundant", "state_is_prunable", "turn_is_prunable"]


def turn_is_prunable(kind: TurnKind, ended_at: Millis | None, before: Millis) -> bool:
    """Return whether the chunks of a turn may be deleted when everything since `before` is kept."""
    return kind is not TurnKind.RSM and ended_at is not None and ended_at < before


def state_is_prunable(replaced_at: Millis | None, before: Millis) -> bool:
    """Return whether a state that was replaced at this time may be deleted. None is the newest state, which stays."""
    return replaced_at is not None and replaced_at < before


def is_redundant(event: Event, *, prunable: bool) -> bool:
    """Return whether an event may be deleted.

    `prunable` is `turn_is_prunable` of its turn, or `state_is_prunable` of the state that it sets.
    """
    return prunable and isinstance(event, Chunk | StateSet)
