"""Retention: delete old chunks and superseded states, in slices, from the oldest arrival on.

Arrival order makes this one sequential sweep: it deletes events that are old enough, remembers the first event that a
later sweep has to delete, and starts there the next time. A state is deleted when the sweep reaches the state that
replaced it, so the last state of an agent, which may stay for years, does not hold the sweep back. Later events use the
freed pages, so the file keeps its size; nothing is moved to make it smaller.
"""

from __future__ import annotations

import sqlite3
from typing import Final, NamedTuple

from ...ids import Millis
from ..base import Pruned
from .statements import SQL

__all__ = ["REMOVE", "Retention", "Sweep"]

SLICE = 512
"""Rows examined in one transaction: an append that arrives meanwhile waits for it."""
MAX_BYTES = 4 * 1024 * 1024
"""Bytes deleted in one transaction, approximately, for the same reason: a state may be as large as a frame."""

REMOVE: Final = ("mark_cuts", "remove_marks", "remove_events", "clear_doomed")
"""The statements that delete the events listed in the table `doomed`, in this order."""


class _Progress(NamedTuple):
    """The progress of a sweep. `waiting` is the first event that it had to keep, `since` its first `before`."""

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
    """Runs slices of sweeps. The caller begins and commits the transactions."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._progress: _Progress | None = None

    def advance(self, sweep: Sweep) -> Pruned | None:
        """Run one slice; return the result when the sweep is over. The caller must commit the transaction afterwards.

        If the commit fails, the caller must call `forget`.
        """
        progress = self._progress or self._start(sweep)
        found = self._connection.execute(SQL["first_event_after"], (progress.cursor,)).fetchone()
        if found is None or found[1] >= sweep.before:
            return self._turn_back(progress, sweep)
        (last,) = self._connection.execute(SQL["last_arrival"]).fetchone()
        return self._slice(progress, sweep, until=min(found[0] + SLICE - 1, last))

    def forget(self) -> None:
        """Start the next sweep at the position that is stored in the file."""
        self._progress = None

    def _start(self, sweep: Sweep) -> _Progress:
        (_, pruned) = self._connection.execute(SQL["store_row"]).fetchone()
        return _Progress(pruned, None, sweep.before)

    def _turn_back(self, progress: _Progress, sweep: Sweep) -> Pruned | None:
        """Store where the next sweep starts. It starts at once if `before` has moved on since this one started."""
        begin = progress.cursor if progress.waiting is None else progress.waiting - 1
        self._connection.execute(SQL["set_pruned"], (begin,))
        if progress.waiting is not None and progress.since < sweep.before:
            self._progress = _Progress(begin, None, sweep.before)
            return None
        self._progress = None
        return sweep.result(more=False)

    def _slice(self, progress: _Progress, sweep: Sweep, until: int) -> Pruned | None:
        execute = self._connection.execute
        rows = execute(SQL["doom"], (progress.cursor, until, sweep.before, max(sweep.room, 1), MAX_BYTES)).rowcount
        if rows and not sweep.room:
            execute(SQL["clear_doomed"])
            self._progress = progress
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
        execute(SQL["pass_states"], (progress.cursor, until, sweep.before))
        waiting = progress.waiting
        if waiting is None:
            (waiting,) = execute(SQL["first_waiting"], (progress.cursor, until, sweep.before)).fetchone()
        self._progress = _Progress(until, waiting, progress.since)
        return None
