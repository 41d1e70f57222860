"""Deleting old chunks and superseded states, a slice at a time, from the oldest arrival on.

Arrival order makes this one sequential sweep: it deletes what is old enough, remembers the first event that will
be wanted later, and begins there the next time. A state is deleted when the sweep comes to the one that replaced it;
the last state of an agent, which may stay for years, so holds nothing up. Freed pages are used again by later events,
so the file stays as large as it has been; nothing is moved about to make it smaller.
"""

from __future__ import annotations

import sqlite3
from typing import Final, NamedTuple

from ...ids import Millis
from ..base import Pruned
from .statements import SQL

__all__ = ["REMOVE", "Retention", "Sweep"]

SLICE = 512
"""Rows looked at in one transaction: what an append that comes meanwhile has to wait for."""
MAX_BYTES = 4 * 1024 * 1024
"""Bytes deleted in one transaction, about, for the same reason: a state may be as large as a frame."""

REMOVE: Final = ("mark_cuts", "remove_marks", "remove_events", "clear_doomed")
"""How what was doomed goes, in this order."""


class _Place(NamedTuple):
    """How far a sweep is. `waiting` is the first event it had to leave, `since` the `before` that it began with."""

    cursor: int
    waiting: int | None
    since: Millis


class Sweep:
    """One call of `prune`, which may take many slices."""

    def __init__(self, before: Millis, limit: int) -> None:
        self.before = before
        self.room = limit
        self.chunks = self.states = 0

    def result(self, *, more: bool) -> Pruned:
        return Pruned(self.chunks, more, self.states)


class Retention:
    """Runs slices in transactions that somebody else begins and ends."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._place: _Place | None = None

    def advance(self, sweep: Sweep) -> Pruned | None:
        """Do one slice; returns the result when the sweep is over. The transaction must be committed afterwards.

        If it is not, `forget` must be called.
        """
        place = self._place or self._start(sweep)
        found = self._connection.execute(SQL["first_event_after"], (place.cursor,)).fetchone()
        if found is None or found[1] >= sweep.before:
            return self._turn_back(place, sweep)
        (last,) = self._connection.execute(SQL["last_arrival"]).fetchone()
        return self._slice(place, sweep, until=min(found[0] + SLICE - 1, last))

    def forget(self) -> None:
        """Begin the next sweep at the place that the file knows."""
        self._place = None

    def _start(self, sweep: Sweep) -> _Place:
        (_, pruned) = self._connection.execute(SQL["store_row"]).fetchone()
        return _Place(pruned, None, sweep.before)

    def _turn_back(self, place: _Place, sweep: Sweep) -> Pruned | None:
        """Note where the next sweep begins; that is at once if time has moved on since this one began."""
        begin = place.cursor if place.waiting is None else place.waiting - 1
        self._connection.execute(SQL["set_pruned"], (begin,))
        if place.waiting is not None and place.since < sweep.before:
            self._place = _Place(begin, None, sweep.before)
            return None
        self._place = None
        return sweep.result(more=False)

    def _slice(self, place: _Place, sweep: Sweep, until: int) -> Pruned | None:
        execute = self._connection.execute
        rows = execute(SQL["doom"], (place.cursor, until, sweep.before, max(sweep.room, 1), MAX_BYTES)).rowcount
        if rows and not sweep.room:
            execute(SQL["clear_doomed"])
            self._place = place
            return sweep.result(more=True)
        if rows:
            last, count, states, size = execute(SQL["last_doomed"]).fetchone()
            if count >= sweep.room or size >= MAX_BYTES:
                until = last
            if states:
                execute(SQL["count_states"])
            for name in REMOVE:
                execute(SQL[name])
            sweep.room = max(0, sweep.room - count)
            sweep.chunks += count - states
            sweep.states += states
        execute(SQL["pass_states"], (place.cursor, until, sweep.before))
        waiting = place.waiting
        if waiting is None:
            (waiting,) = execute(SQL["first_waiting"], (place.cursor, until, sweep.before)).fetchone()
        self._place = _Place(until, waiting, place.since)
        return None
