"""`decide` and `wanted` read the state and change nothing of it: a commit that fails must leave no trace."""

from __future__ import annotations

import dataclasses
import enum
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from everyword.core.commands import (
    AddJob,
    CancelJobs,
    Command,
    DeclareJobs,
    EndFiber,
    EndJob,
    EndRun,
    MarkRunTold,
    PauseFiber,
    RecoverFiber,
    StartFiber,
    StartJob,
    StartRun,
    StashFiber,
)
from everyword.core.decide import decide
from everyword.core.state import Rules, State
from everyword.core.tree import Tree
from everyword.core.wanted import wanted
from everyword.errors import Rejected
from everyword.events import to_raw
from everyword.ids import FiberId, JobId, Millis, RunId
from everyword.messages.fold import MessageFold
from tests.core.histories import History, histories
from tests.core.stage import stage

MANY = settings(max_examples=100, deadline=None)


def observed(value: Any) -> Any:
    """Return everything that a reader of a state can see, field by field, in a form that shares nothing with it."""
    match value:
        case Tree():
            reads = (list(value.active_path()), list(value.shown_path()), sorted(value.known_ids()))
            return dict(value.nodes), value.leaf, value.last_node, value.revision, reads
        case MessageFold():
            ends = (value.is_empty, value.is_finished, value.finish_reason, value.open_parts)
            return value.message().to_dict(), ends, value.closing_chunks()
        case msgspec.Struct():
            return type(value).__name__, msgspec.json.encode(value)
        case dict():
            return [(observed(key), observed(each)) for key, each in value.items()]
        case list() | tuple():
            return [observed(each) for each in value]
        case set() | frozenset():
            return sorted(value)
        case None | bool() | int() | str() | bytes() | enum.Enum():
            return value
    assert dataclasses.is_dataclass(value), f"say how a {type(value).__name__} is compared"
    return {field.name: observed(getattr(value, field.name)) for field in dataclasses.fields(value)}


def assert_only_reads(state: State, command: Command, now: int, rules: Rules) -> None:
    before = observed(state)
    for time in (now, now + 10_000):
        wanted(state, Millis(time))
    assert observed(state) == before, "wanted"
    with suppress(Rejected):
        decide(state, command, Millis(now), rules)
    assert observed(state) == before, f"decide({command})"


@MANY
@given(histories())
def test_neither_decide_nor_wanted_changes_the_state(history: History) -> None:
    twin = History(history.rules)
    for now, command in history.told:
        assert_only_reads(twin.state, command, now, twin.rules)
        twin.now = now
        twin.play(command)


BACKGROUND: list[Command] = [
    AddJob(JobId("j1"), "queue", "work", Millis(0)),
    AddJob(JobId("j2"), "every", "beat", Millis(0), rule="PT1M"),
    DeclareJobs([AddJob(JobId("j3"), "every", "beat", Millis(0), rule="PT1M")]),
    StartJob(JobId("j1")),
    EndJob(JobId("j1"), 1, "retry", due=Millis(9)),
    CancelJobs([JobId("j1")]),
    StartFiber(FiberId("f1"), "work"),
    StashFiber(FiberId("f1"), to_raw({"n": 1})),
    PauseFiber(FiberId("f1")),
    RecoverFiber(FiberId("f1")),
    EndFiber(FiberId("f1"), "done"),
    StartRun(RunId("c1"), "helper"),
    EndRun(RunId("c1"), "completed"),
    MarkRunTold(RunId("c1")),
]


@pytest.mark.parametrize("has_run_hook", [True, False])
def test_deciding_about_background_work_changes_nothing(*, has_run_hook: bool) -> None:
    told = stage(has_run_hook=has_run_hook)
    for command in BACKGROUND:
        assert_only_reads(told.state, command, told.now, told.rules)
        told.tell(command)


def test_reading_a_tree_changes_nothing_that_can_be_read() -> None:
    told = stage()
    told.talk("r1", "u1")
    told.talk("r2", "u2")
    tree = told.state.tree
    unread = Tree(dict(tree.nodes), tree.leaf, tree.last_node)
    revision = tree.revision
    assert tree.shown_path() == unread.shown_path()
    assert (tree.active_path(), tree.known_ids()) == (unread.active_path(), unread.known_ids())
    assert (tree.revision, unread.revision) == (revision, 0)
