"""The table says how many times better we are, and which promise is not kept."""

from __future__ import annotations

from benchmarks.measures import Figures, Metric, Row, Sizes, combine
from benchmarks.processes import Server
from benchmarks.table import render, verdicts

TITLES = {"everyword": "ours", "peer": "theirs", "stored": "floor"}


async def _nothing(server: Server, sizes: Sizes) -> Figures:
    return {}


def row(*metrics: Metric) -> Row:
    return Row("row", "a row", metrics, _nothing)


RATE = row(Metric("rate", "per second", "more", times_peer=2))
TIME = row(Metric("time", "ms", "less", times_peer=2))


def test_more_is_better_for_rates_and_less_for_times() -> None:
    results = {"row": {"everyword": {"rate": 30.0, "time": 10.0}, "peer": {"rate": 10.0, "time": 30.0}}}
    for each in (RATE, TIME):
        assert "| 3.00 | ≥ 2 × |" in render([each], TITLES, results, {})
        assert verdicts([each], results, {}) == []


def test_a_promise_that_is_not_kept_is_named() -> None:
    results = {"row": {"everyword": {"rate": 15.0}, "peer": {"rate": 10.0}}}
    assert verdicts([RATE], results, {}) == ["a row, per second: 1.50 × the peer, 2 × was wanted"]


def test_nothing_may_be_three_times_worse_than_the_floor_with_storage() -> None:
    results = {"row": {"everyword": {"time": 31.0}, "stored": {"time": 10.0}}}
    assert verdicts([TIME], results, {}) == ["a row, ms: 3.1 × worse than the floor with storage, 3 × is the limit"]


def test_figures_of_another_run_are_marked() -> None:
    results = {"row": {"everyword": {"rate": 30.0}}}
    assert "| 10.0\\* |" in render([RATE], TITLES, results, {"row": {"peer": {"rate": 10.0}}})


def test_an_outright_promise_is_checked_without_a_peer() -> None:
    held = row(Metric("held", "%", "more", at_least=99), Metric("lost", "chunks", "less", at_most=0))
    kept = {"row": {"everyword": {"held": 99.5, "lost": 0.0}}}
    broken = {"row": {"everyword": {"held": 98.0, "lost": 1.0}}}
    assert verdicts([held], kept, {}) == []
    assert len(verdicts([held], broken, {})) == 2


def test_the_median_of_several_runs_counts() -> None:
    assert combine([{"rate": 1.0}, {"rate": 9.0}, {"rate": 2.0}]) == {"rate": 2.0}


def test_latencies_of_a_server_that_does_not_keep_up_are_not_compared() -> None:
    late = row(Metric("p50", "ms", "less", times_peer=1, needs_rate=True))
    ours = {"p50": 10.0, "held": 100.0}
    assert verdicts([late], {"row": {"everyword": ours, "peer": {"p50": 1.0, "held": 99.0}}}, {}) != []
    assert verdicts([late], {"row": {"everyword": ours, "peer": {"p50": 1.0, "held": 40.0}}}, {}) == []
