from __future__ import annotations

import pytest

from everyword.codec.lifecycle import Context, LifecycleTracker, Phase, create_lifecycle_tracker


def tracker() -> LifecycleTracker[str]:
    return create_lifecycle_tracker(
        [Phase("start", lambda context: [f"start:{context.get('id') or ''}"]), Phase("step", lambda _: ["step"])]
    )


@pytest.mark.obligation("002-1", "002-3")
def test_a_fresh_scope_gets_every_phase_in_order() -> None:
    assert tracker().ensure_phases("t1", {"id": "msg-1"}) == ["start:msg-1", "step"]


@pytest.mark.obligation("002-3")
def test_phases_are_given_once() -> None:
    made = tracker()
    made.ensure_phases("t1", {"id": "msg-1"})
    assert made.ensure_phases("t1", {"id": "msg-1"}) == []


@pytest.mark.obligation("002-4")
def test_a_marked_phase_is_not_made_up() -> None:
    made = tracker()
    made.mark_emitted("t1", "start")
    assert made.ensure_phases("t1", {"id": "msg-1"}) == ["step"]


@pytest.mark.obligation("002-5")
def test_a_reset_phase_is_made_up_once_more() -> None:
    made = tracker()
    made.ensure_phases("t1", {"id": "msg-1"})
    made.reset_phase("t1", "step")
    assert made.ensure_phases("t1", {"id": "msg-1"}) == ["step"]
    assert made.ensure_phases("t1", {"id": "msg-1"}) == []


@pytest.mark.obligation("002-6")
def test_a_cleared_scope_begins_anew_and_takes_no_memory() -> None:
    made = tracker()
    made.ensure_phases("t1", {"id": "msg-1"})
    made.clear_scope("t1")
    assert made.scopes == frozenset()
    assert made.ensure_phases("t1", {"id": "msg-2"}) == ["start:msg-2", "step"]


@pytest.mark.obligation("002-7")
def test_scopes_are_independent() -> None:
    made = tracker()
    made.ensure_phases("t1", {"id": "msg-1"})
    assert made.ensure_phases("t2", {"id": "msg-2"}) == ["start:msg-2", "step"]


@pytest.mark.obligation("002-8")
def test_the_context_reaches_the_builder_untouched() -> None:
    seen: list[Context] = []

    def build(context: Context) -> list[str]:
        seen.append(context)
        return [f"{context['x']}-{context['y']}"]

    context = {"x": "hello", "y": "world"}
    assert create_lifecycle_tracker([Phase("a", build)]).ensure_phases("s1", context) == ["hello-world"]
    assert seen[0] is context


@pytest.mark.obligation("002-1")
def test_phases_come_in_the_order_of_the_list() -> None:
    phases: list[Phase[str]] = [
        Phase("c", lambda _: ["1"]),
        Phase("b", lambda _: ["2"]),
        Phase("a", lambda _: ["3"]),
    ]
    assert create_lifecycle_tracker(phases).ensure_phases("s1", {}) == ["1", "2", "3"]


def test_a_marked_later_phase_does_not_imply_the_earlier_ones() -> None:
    made = tracker()
    made.mark_emitted("t", "step")
    assert made.ensure_phases("t", {"id": "m"}) == ["start:m"]


@pytest.mark.obligation("002-9")
def test_marking_an_unknown_phase_does_no_harm() -> None:
    made = tracker()
    made.mark_emitted("t", "nope")
    assert made.ensure_phases("t", {"id": "m"}) == ["start:m", "step"]


@pytest.mark.obligation("002-9")
def test_resetting_an_unknown_scope_makes_none() -> None:
    made = tracker()
    made.reset_phase("t", "step")
    assert made.scopes == frozenset()
    assert made.ensure_phases("t", {"id": "m"}) == ["start:m", "step"]


@pytest.mark.obligation("002-9")
def test_resetting_an_unknown_phase_does_no_harm() -> None:
    made = tracker()
    made.ensure_phases("t", {"id": "m"})
    made.reset_phase("t", "nope")
    assert made.ensure_phases("t", {"id": "m"}) == []


def test_a_reset_first_phase_comes_alone() -> None:
    made = tracker()
    made.ensure_phases("t", {"id": "a"})
    made.reset_phase("t", "start")
    assert made.ensure_phases("t", {"id": "b"}) == ["start:b"]


@pytest.mark.obligation("002-9")
def test_clearing_an_unknown_scope_does_no_harm() -> None:
    made = tracker()
    made.clear_scope("t")
    assert made.ensure_phases("t", {"id": "m"}) == ["start:m", "step"]


@pytest.mark.obligation("002-7")
def test_clearing_a_scope_leaves_the_others_alone() -> None:
    made = tracker()
    made.ensure_phases("t", {"id": "m"})
    made.ensure_phases("u", {"id": "m"})
    made.clear_scope("t")
    assert made.ensure_phases("u", {"id": "m"}) == []
    assert made.ensure_phases("t", {"id": "m"}) == ["start:m", "step"]


def test_one_reset_undoes_any_number_of_marks() -> None:
    made = tracker()
    for _ in range(3):
        made.mark_emitted("t", "start")
    made.reset_phase("t", "start")
    assert made.ensure_phases("t", {"id": "m"}) == ["start:m", "step"]


def test_a_tracker_without_phases_gives_nothing() -> None:
    made: LifecycleTracker[str] = create_lifecycle_tracker([])
    assert made.ensure_phases("t", {}) == []
    assert made.ensure_phases("t", {}) == []


@pytest.mark.obligation("002-2")
def test_a_builder_may_give_no_event_or_several() -> None:
    made = create_lifecycle_tracker([Phase("none", lambda _: []), Phase("two", lambda _: ["x", "y"])])
    assert [made.ensure_phases("t", {}), made.ensure_phases("t", {})] == [["x", "y"], []]


def test_of_two_phases_with_one_key_the_first_counts() -> None:
    made = create_lifecycle_tracker([Phase("a", lambda _: ["1"]), Phase("a", lambda _: ["2"])])
    assert made.ensure_phases("t", {}) == ["1"]


def test_a_builder_that_raises_is_not_asked_again() -> None:
    def build(context: Context) -> list[str]:
        raise RuntimeError("no")

    made = create_lifecycle_tracker([Phase("a", build), Phase("b", lambda _: ["b"])])
    with pytest.raises(RuntimeError, match="no"):
        made.ensure_phases("t", {})
    assert made.ensure_phases("t", {}) == ["b"]


def test_the_empty_scope_is_a_scope_like_any_other() -> None:
    made = tracker()
    assert made.ensure_phases("", {"id": "m"}) == ["start:m", "step"]
    assert made.ensure_phases("", {"id": "m"}) == []
    assert made.ensure_phases("t", {"id": "m"}) == ["start:m", "step"]


def test_a_context_may_lack_what_the_builder_asks_for() -> None:
    assert tracker().ensure_phases("t", {}) == ["start:", "step"]


def test_a_phase_marked_after_a_clear_stays_marked() -> None:
    made = tracker()
    made.ensure_phases("t", {"id": "m"})
    made.clear_scope("t")
    made.mark_emitted("t", "start")
    assert made.ensure_phases("t", {"id": "m"}) == ["step"]


@pytest.mark.obligation("002-16")
def test_events_may_be_of_any_type() -> None:
    numbers: LifecycleTracker[int] = create_lifecycle_tracker([Phase("n", lambda _: [1, 2])])
    pairs: LifecycleTracker[tuple[str, None]] = create_lifecycle_tracker([Phase("p", lambda _: [("a", None)])])
    assert numbers.ensure_phases("t", {}) == [1, 2]
    assert pairs.ensure_phases("t", {}) == [("a", None)]
