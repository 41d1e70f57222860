"""The lifecycle tracker: what must have been said before content, said exactly once.

A reader that joins late has missed the events that open a message or a step. The tracker remembers, per
scope, which of these phases were seen, and builds the missing ones in order. It knows nothing of chunks:
whoever makes it says what the phases are and how their events are built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

__all__ = ["Context", "LifecycleTracker", "Phase", "create_lifecycle_tracker"]

E = TypeVar("E")

Context = Mapping[str, str | None]
"""What the builders may need to know, such as the message's id; handed through untouched."""


class Phase(Generic[E]):
    """Something that must precede content, and how to make it up when it was missed."""

    __slots__ = ("build", "key")

    def __init__(self, key: str, build: Callable[[Context], Iterable[E]]) -> None:
        self.key = key
        self.build = build


class LifecycleTracker(Generic[E]):
    """Which phases each scope has seen. Scopes are independent; a scope exists from its first phase on."""

    def __init__(self, phases: Iterable[Phase[E]]) -> None:
        self._phases: Sequence[Phase[E]] = tuple(phases)
        self._emitted: dict[str, set[str]] = {}

    @property
    def scopes(self) -> frozenset[str]:
        """The scopes that take up memory."""
        return frozenset(self._emitted)

    def ensure_phases(self, scope: str, context: Context) -> list[E]:
        """Return the events of every phase that the scope has not seen, in order; it has seen them now.

        A phase counts as seen before it is built: if a builder raises, the next call goes on behind it.
        """
        emitted = self._emitted.setdefault(scope, set())
        events: list[E] = []
        for phase in self._phases:
            if phase.key not in emitted:
                emitted.add(phase.key)
                events.extend(phase.build(context))
        return events

    def mark_emitted(self, scope: str, key: str) -> None:
        """Note that the real event of a phase was seen."""
        self._emitted.setdefault(scope, set()).add(key)

    def reset_phase(self, scope: str, key: str) -> None:
        """Forget that a phase was seen: the next content needs it again."""
        emitted = self._emitted.get(scope)
        if emitted is not None:
            emitted.discard(key)

    def clear_scope(self, scope: str) -> None:
        """Forget the scope altogether."""
        self._emitted.pop(scope, None)


def create_lifecycle_tracker(phases: Iterable[Phase[E]]) -> LifecycleTracker[E]:
    """Return a tracker that knows no scope yet."""
    return LifecycleTracker(phases)
