"""The lifecycle tracker: make sure that the events that must come before content are emitted exactly once.

A reader that joins late has missed the events that open a message or a step. The tracker remembers, per scope, which
of these phases were emitted, and builds the missing ones in order. It is generic: the caller gives the phases and the
functions that build their events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

__all__ = ["Context", "LifecycleTracker", "Phase", "create_lifecycle_tracker"]

E = TypeVar("E")

Context = Mapping[str, str | None]
"""Data for the build functions, such as the message id; passed through unchanged."""


class Phase(Generic[E]):
    """A phase that must come before content, and the function that builds its events if they were missed."""

    __slots__ = ("build", "key")

    def __init__(self, key: str, build: Callable[[Context], Iterable[E]]) -> None:
        self.key = key
        self.build = build


class LifecycleTracker(Generic[E]):
    """Tracks which phases were emitted per scope. Scopes are independent; a scope exists from its first phase on."""

    def __init__(self, phases: Iterable[Phase[E]]) -> None:
        self._phases: Sequence[Phase[E]] = tuple(phases)
        self._emitted: dict[str, set[str]] = {}

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes that the tracker holds in memory."""
        return frozenset(self._emitted)

    def ensure_phases(self, scope: str, context: Context) -> list[E]:
        """Return the events of every phase not yet emitted in the scope, in order, and mark them as emitted.

        A phase is marked before it is built: if its build function raises, the next call continues after it.
        """
        emitted = self._emitted.setdefault(scope, set())
        events: list[E] = []
        for phase in self._phases:
            if phase.key not in emitted:
                emitted.add(phase.key)
                events.extend(phase.build(context))
        return events

    def mark_emitted(self, scope: str, key: str) -> None:
        """Mark a phase as emitted, because its real event was received."""
        self._emitted.setdefault(scope, set()).add(key)

    def reset_phase(self, scope: str, key: str) -> None:
        """Mark a phase as not emitted, so that the next `ensure_phases` builds it again."""
        emitted = self._emitted.get(scope)
        if emitted is not None:
            emitted.discard(key)

    def clear_scope(self, scope: str) -> None:
        """Forget the scope and free its memory."""
        self._emitted.pop(scope, None)


def create_lifecycle_tracker(phases: Iterable[Phase[E]]) -> LifecycleTracker[E]:
    """Return a tracker without scopes."""
    return LifecycleTracker(phases)
