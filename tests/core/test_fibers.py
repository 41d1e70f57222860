"""Fibers: started once, checkpointed, ended once, and recovered a limited number of times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everyword.core.commands import (
    Command,
    DestroyAgent,
    EndFiber,
    PauseFiber,
    RecoverFiber,
    ReplaceState,
    StartFiber,
    StashFiber,
)
from everyword.core.fibers import KEPT_FIBERS, MAX_ATTEMPTS
from everyword.core.project import all_rows
from everyword.core.restore import restore
from everyword.core.state import State
from everyword.core.wanted import NOW, wanted
from everyword.errors import AgentGone, Rejected
from everyword.events import AgentDestroyed, FiberEnded, FiberPaused, FiberStarted, FiberStashed, to_raw
from everyword.ids import FiberId, Millis
from everyword.rows import KeptRow
from tests.core.histories import Choices, History, refold

A, B = FiberId("a"), FiberId("b")


def started(*fibers: FiberId) -> History:
    history = History()
    for fiber in fibers:
        history.tell(StartFiber(fiber, f"name of {fiber}"))
    return history


def test_a_fiber_begins_once_under_its_id() -> None:
    history = started(A)
    assert history.tell(StartFiber(A, "again")) == []
    assert history.state.fibers[A].name == "name of a"
    history.tell(EndFiber(A, "done"))
    assert history.tell(StartFiber(A, "again")) == []
    assert [event for event, _ in history.log] == [FiberStarted(A, "name of a"), FiberEnded(A, "done")]


def test_an_open_fiber_wants_to_run_and_the_restart_scan_finds_it() -> None:
    history = started(A, B)
    found = wanted(history.state, Millis(history.now))
    assert (found.fibers, found.wake, found.later) == ((A, B), NOW, None)
    history.tell(EndFiber(A, "done"))
    history.tell(EndFiber(B, "failed", "why"))
    assert wanted(history.state, Millis(history.now)).wake is None


def test_a_checkpoint_takes_the_place_of_the_one_before_in_its_row() -> None:
    history = started(A)
    for value in (1, {"x": [2]}, None, "last"):
        assert history.tell(StashFiber(A, to_raw(value))) == [FiberStashed(A, to_raw(value))]
    assert history.state.fibers[A].snapshot == b'"last"'
    assert list(history.rows.kept) == [("fiber", "a")]
    assert b'"snapshot":"last"' in (history.rows.kept["fiber", "a"].body or b"")


def test_a_fiber_ends_once_and_the_first_outcome_counts() -> None:
    history = started(A)
    assert history.tell(EndFiber(A, "cancelled", "enough")) == [FiberEnded(A, "cancelled", "enough")]
    assert history.tell(EndFiber(A, "done")) == []
    assert history.tell(EndFiber(B, "done")) == []
    for command in (StashFiber(A, to_raw(1)), RecoverFiber(A), StashFiber(B, to_raw(1)), RecoverFiber(B)):
        with pytest.raises(Rejected, match="has ended or was never started"):
            history.tell(command)
    assert (history.state.fibers[A].outcome, history.state.fibers[A].detail) == ("cancelled", "enough")


def test_a_fiber_is_handed_back_so_often_and_then_set_aside() -> None:
    history = started(A)
    for attempt in range(2, MAX_ATTEMPTS + 1):
        assert history.tell(RecoverFiber(A)) == [FiberStarted(A, "name of a", attempt)]
    (ended,) = history.tell(RecoverFiber(A))
    assert isinstance(ended, FiberEnded) and ended.outcome == "set-aside"
    assert ended.detail == "5 attempts began and none of them ended"
    assert wanted(history.state, Millis(history.now)).fibers == ()


def test_an_attempt_that_was_stopped_in_good_order_does_not_count() -> None:
    history = started(A)
    for _ in range(3 * MAX_ATTEMPTS):
        assert history.tell(PauseFiber(A)) == [FiberPaused(A)]
        assert history.tell(RecoverFiber(A)) == [FiberStarted(A, "name of a", 1)]
    history.tell(EndFiber(A, "done"))
    with pytest.raises(Rejected):
        history.tell(PauseFiber(A))


def test_when_a_fiber_began_is_not_changed_by_handing_it_back() -> None:
    history = started(A)
    history.now += 5_000
    history.tell(RecoverFiber(A))
    assert (history.state.fibers[A].started_at, history.state.fibers[A].attempt) == (1_000, 2)


def test_only_the_newest_ends_are_remembered_and_open_fibers_always() -> None:
    history = started(B)
    for n in range(KEPT_FIBERS + 3):
        history.now += 1
        fiber = FiberId(f"f{n:03}")
        history.tell(StartFiber(fiber, "f"))
        history.tell(EndFiber(fiber, "done"))
    kept = [fiber for fiber in history.state.fibers if fiber != B]
    assert kept == [f"f{n:03}" for n in range(3, KEPT_FIBERS + 3)]
    assert B in history.state.fibers
    assert {key for _, key in history.rows.kept} == set(history.state.fibers)


def test_a_destroyed_agent_takes_no_command_and_is_woken_to_be_deleted() -> None:
    history = started(A)
    assert history.tell(DestroyAgent()) == [AgentDestroyed()]
    for command in (StartFiber(B, "b"), ReplaceState(to_raw(1)), DestroyAgent()):
        with pytest.raises(AgentGone):
            history.tell(command)
    assert wanted(history.state, Millis(history.now)).wake == NOW
    assert wanted(history.state, Millis(history.now)).fibers == ()
    assert loaded(history).is_destroyed


def test_a_row_that_cannot_be_read_costs_that_fiber_only() -> None:
    history = started(A, B)
    rows = [*history.rows.kept.values(), KeptRow("fiber", "c", b"{broken")]
    state, problems = restore(None, [], [], [], rows)
    assert list(state.fibers) == [A, B]
    assert len(problems) == 1 and "fiber 'c'" in problems[0]


# -- whatever happens ----------------------------------------------------------------------------------------------


def walk(source: bytes) -> History:
    """Return the history of fibers that these bytes choose; mostly legal."""
    choices, history = Choices(source), History()
    while choices.goes_on():
        history.now += choices.number(3)
        is_open = [fiber for fiber, each in history.state.fibers.items() if each.outcome is None]
        anybody = [*history.state.fibers, FiberId("nobody")]
        known = choices.of(is_open) if is_open and not choices.rarely() else choices.of(anybody)
        commands: list[Command] = [
            StartFiber(FiberId(f"f{choices.number(200)}"), f"n{choices.number(3)}"),
            StashFiber(known, to_raw(choices.of([0, None, {"at": choices.number(9)}, "x"]))),
            EndFiber(known, choices.of(["done", "failed", "cancelled", "interrupted"]), choices.of([None, "why"])),
            RecoverFiber(known),
            PauseFiber(known),
        ]
        history.play(choices.of(commands))
    return history


def loaded(history: History) -> State:
    return restore(history.rows.agent, [], [], [], history.rows.kept.values())[0]


@given(st.binary(min_size=300, max_size=900).map(walk))
def test_rows_restore_to_what_the_log_folds_to_and_nothing_follows_an_end(history: History) -> None:
    assert loaded(history).fibers == refold(history.log).fibers == history.state.fibers
    assert {row for row in all_rows(history.state) if isinstance(row, KeptRow)} == set(history.rows.kept.values())
    over, attempts = set[FiberId](), dict[FiberId, int]()
    for event, _ in history.log:
        assert isinstance(event, FiberStarted | FiberStashed | FiberPaused | FiberEnded)
        if isinstance(event, FiberStarted) and event.fiber in over:
            assert event.attempt == 1
            over.discard(event.fiber)  # its record was removed, and its id is free again
            del attempts[event.fiber]
        assert event.fiber not in over
        if isinstance(event, FiberStarted):
            attempts[event.fiber] = attempts.get(event.fiber, 0) + 1
            assert attempts[event.fiber] == event.attempt <= MAX_ATTEMPTS
        elif isinstance(event, FiberPaused):
            attempts[event.fiber] -= 1
        elif isinstance(event, FiberEnded):
            over.add(event.fiber)
    ended = [fiber for fiber in history.state.fibers.values() if fiber.outcome is not None]
    assert len(ended) <= KEPT_FIBERS
