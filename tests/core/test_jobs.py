"""Schedules are added once: repeating ones by contents, others by key. Declared ones follow the class."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from everyword.core.commands import AddJob, CancelJobs, DeclareJobs, EndJob, StartJob
from everyword.core.decide import decide
from everyword.core.evolve import evolve
from everyword.core.jobs import job_row, restore_job, same_job
from everyword.core.state import Rules, State
from everyword.errors import Rejected
from everyword.events import Event, JobAdded, JobEnded, to_raw
from everyword.ids import JobId, Millis

NOW = Millis(1_000_000)


class Desk:
    """The jobs of an agent that takes commands."""

    def __init__(self) -> None:
        self.state = State()
        self.ids = iter(range(1, 100))

    def job(
        self,
        kind: Literal["queue", "once", "cron", "every"] = "cron",
        callback: str = "tick",
        payload: Any = None,
        **more: Any,
    ) -> AddJob:
        rule = {"cron": "0 9 * * *", "every": "60000"}.get(kind)
        due = Millis(more.pop("due", NOW + 1000))
        given = {"rule": rule, "zone": "UTC" if kind == "cron" else None, **more}
        return AddJob(JobId(f"j{next(self.ids)}"), kind, callback, due, to_raw(payload), **given)

    def do(self, command: Any) -> list[Event]:
        events = decide(self.state, command, NOW, Rules())
        for event in events:
            evolve(self.state, event, NOW)
        return events

    def add(self, *args: Any, **more: Any) -> JobId:
        """Add a job; return the id of the new or existing one."""
        command = self.job(*args, **more)
        events = self.do(command)
        found = same_job(self.state, command)
        return found.added.job if found is not None and not events else command.job

    @property
    def jobs(self) -> list[JobId]:
        return list(self.state.jobs)


@pytest.mark.parametrize("kind", ["cron", "every"])
def test_a_repeating_job_that_says_the_same_is_added_once(kind: Any) -> None:
    desk = Desk()
    first = desk.add(kind, payload={"a": 1, "b": [True]})
    before = desk.state.jobs[first].due
    assert desk.do(desk.job(kind, payload={"b": [True], "a": 1}, due=NOW + 5000)) == []
    assert (desk.jobs, desk.state.jobs[first].due) == ([first], before)


@pytest.mark.parametrize(
    "other",
    [
        {"callback": "tock"},
        {"rule": "0 10 * * *"},
        {"zone": "Europe/Berlin"},
        {"payload": {"a": 2}},
        {"payload": {"a": True}},
        {"payload": None},
        {"key": "mine"},
    ],
)
def test_a_repeating_job_that_says_something_else_is_another(other: dict[str, Any]) -> None:
    desk = Desk()
    desk.add("cron", payload={"a": 1})
    desk.do(desk.job("cron", **{"payload": {"a": 1}, **other}))
    assert len(desk.jobs) == 2


@pytest.mark.parametrize("kind", ["once", "queue"])
def test_delays_dates_and_the_queue_are_never_merged_without_a_key(kind: Any) -> None:
    desk = Desk()
    for _ in range(3):
        desk.do(desk.job(kind, payload="x"))
    assert len(desk.jobs) == 3


def test_a_delay_with_a_key_keeps_its_time_while_it_waits() -> None:
    desk = Desk()
    first = desk.add("once", rule="60000", key="hello", due=NOW + 60_000)
    assert desk.do(desk.job("once", rule="60000", key="hello", due=NOW + 99_000)) == []
    assert desk.state.jobs[first].due == NOW + 60_000
    desk.do(StartJob(first))
    desk.do(EndJob(first, 1, "done"))
    assert len(desk.do(desk.job("once", rule="60000", key="hello"))) == 1


@pytest.mark.parametrize(
    "other", [{"callback": "tock"}, {"payload": "new"}, {"rule": "90000"}, {"kind": "every"}, {"rule": None}]
)
def test_a_key_that_says_something_else_replaces_what_there_was(other: dict[str, Any]) -> None:
    desk = Desk()
    first = desk.add("once", rule="60000", key="hello")
    events = desk.do(desk.job(**{"kind": "once", "rule": "60000", "key": "hello", **other}))
    assert [type(event) for event in events] == [JobEnded, JobAdded]
    assert isinstance(events[0], JobEnded) and (events[0].job, events[0].outcome) == (first, "cancelled")
    assert len(desk.jobs) == 1 and first not in desk.jobs


def test_a_date_with_a_key_is_replaced_when_it_is_another_date() -> None:
    desk = Desk()
    first = desk.add("once", key="party", due=NOW + 60_000)
    assert desk.do(desk.job("once", key="party", due=NOW + 60_000)) == []
    second = desk.add("once", key="party", due=NOW + 90_000)
    assert desk.jobs == [second] != [first]


def test_a_run_that_schedules_its_own_key_again_is_followed_by_another() -> None:
    desk = Desk()
    first = desk.add("once", rule="60000", key="poll")
    desk.do(StartJob(first))
    assert desk.do(desk.job("once", rule="60000", key="poll")) == []  # other code: the job exists
    again = desk.job("once", rule="60000", key="poll", within=first)
    assert [type(event) for event in desk.do(again)] == [JobAdded]
    assert desk.do(desk.job("once", rule="60000", key="poll", within=first)) == []  # once
    desk.do(EndJob(first, 1, "done"))
    assert desk.jobs == [again.job]


def test_an_id_that_is_taken_is_refused() -> None:
    desk = Desk()
    command = desk.job("once")
    desk.do(command)
    with pytest.raises(Rejected, match="a job with this id exists"):
        desk.do(command)


# -- declared on the class -------------------------------------------------------------------------------------------


def test_declared_jobs_are_added_kept_and_cancelled_in_one_batch() -> None:
    desk = Desk()
    first = [desk.job("cron", "a"), desk.job("every", "b"), desk.job("cron", "c")]
    assert [type(event) for event in desk.do(DeclareJobs(first))] == [JobAdded] * 3
    assert desk.jobs == [job.job for job in first]
    assert [job.added.number for job in desk.state.jobs.values()] == [1, 2, 3]
    desk.state.jobs[first[1].job].due = Millis(NOW + 7)
    events = desk.do(
        DeclareJobs(
            [desk.job("every", "b", due=NOW + 99_000), desk.job("cron", "c", rule="0 8 * * *"), desk.job("cron", "d")]
        )
    )
    ended = [event.job for event in events if isinstance(event, JobEnded)]
    added = [event.callback for event in events if isinstance(event, JobAdded)]
    assert (ended, added) == ([first[0].job, first[2].job], ["c", "d"])
    assert desk.state.jobs[first[1].job].due == NOW + 7, "what is unchanged keeps its time"
    assert desk.state.last_job == 5


def test_declaring_the_same_again_writes_nothing() -> None:
    desk = Desk()
    desk.do(DeclareJobs([desk.job("cron", "a"), desk.job("every", "b", {"x": 1, "y": 2})]))
    assert desk.do(DeclareJobs([desk.job("every", "b", {"y": 2, "x": 1}), desk.job("cron", "a")])) == []


def test_declaring_nothing_cancels_what_was_declared_and_nothing_else() -> None:
    desk = Desk()
    others = [desk.add("cron", "own"), desk.add("once", "own"), desk.add("once", "own", key="k")]
    desk.do(desk.job("queue", "own"))
    desk.do(DeclareJobs([desk.job("cron", "a")]))
    desk.do(DeclareJobs([]))
    assert desk.jobs[:3] == others and len(desk.jobs) == 4


def test_a_declaration_takes_over_a_job_of_code_with_its_time() -> None:
    desk = Desk()
    by_code = desk.add("every", "a", due=NOW + 123)
    desk.do(DeclareJobs([desk.job("every", "a", due=NOW + 60_000)]))
    (left,) = desk.jobs
    assert left != by_code and desk.state.jobs[left].due == NOW + 123
    assert desk.do(desk.job("every", "a")) == [], "and code that still schedules it finds it"
    desk.do(DeclareJobs([]))
    assert desk.jobs == []


def test_more_attempts_are_another_declaration() -> None:
    desk = Desk()
    desk.do(DeclareJobs([desk.job("cron", "a")]))
    desk.do(DeclareJobs([desk.job("cron", "a", max_attempts=9)]))
    (left,) = desk.state.jobs.values()
    assert left.added.max_attempts == 9


def test_a_declared_job_that_was_cancelled_comes_back_with_the_next_start() -> None:
    desk = Desk()
    desk.do(DeclareJobs([desk.job("cron", "a")]))
    desk.do(CancelJobs(desk.jobs))
    assert desk.jobs == []
    desk.do(DeclareJobs([desk.job("cron", "a")]))
    assert len(desk.jobs) == 1


def test_rows_keep_keys_and_what_is_declared() -> None:
    desk = Desk()
    keyed = desk.add("once", key="k", rule="5")
    desk.do(DeclareJobs([desk.job("cron", "a")]))
    restored = restore_job([job_row(desk.state, job) for job in desk.jobs])
    assert restored == desk.state.jobs
    assert restored[keyed].added.key == "k"
    assert [job.added.is_declared for job in restored.values()] == [False, True]
