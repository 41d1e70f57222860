"""The usage of sub-agents is stored with the turn that waited for them, apart from its own usage, and once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from everyword.core.commands import BeginAttempt, EndRun, FinishTurn, StartRun
from everyword.core.runs import RECENT_RUNS
from everyword.core.usage import total_usage
from everyword.events import Outcome, TurnEnded, to_raw
from everyword.ids import Attempt, RunId, TurnId
from tests.core.histories import user
from tests.core.stage import Stage, stage, the

TURN = TurnId(1)


def begun() -> Stage:
    told = stage()
    told.ask("r1", user("u1"))
    told.begin(1)
    return told


def ran(told: Stage, name: str, used: Any, *, within: TurnId | None = TURN, detached: bool = False) -> None:
    told.tell(StartRun(RunId(name), "kid", within=within, is_detached=detached))
    told.tell(EndRun(RunId(name), "completed", usage=to_raw(used)))


def usage(told: Stage, own: Any = None, attempt: int = 1) -> Any:
    ended = the(TurnEnded, told.tell(FinishTurn(TURN, Attempt(attempt), Outcome.COMPLETED, usage=to_raw(own))))
    return msgspec.json.decode(ended.usage)


def test_the_use_of_runs_stands_beside_the_turns_own() -> None:
    told = begun()
    ran(told, "a", {"inputTokens": 1, "outputTokens": 2})
    ran(told, "b", {"outputTokens": 3})
    assert usage(told, {"outputTokens": 10}) == {"outputTokens": 10, "subAgents": {"inputTokens": 1, "outputTokens": 5}}


def test_a_turn_that_used_nothing_itself_tells_what_its_runs_used() -> None:
    told = begun()
    ran(told, "a", {"outputTokens": 2})
    assert usage(told) == {"subAgents": {"outputTokens": 2}}


@pytest.mark.parametrize("own", [None, {"outputTokens": 1}, "odd"])
def test_without_runs_that_tell_their_use_the_turns_own_is_as_it_was(own: Any) -> None:
    told = begun()
    ran(told, "a", None)
    assert usage(told, own) == own


def test_a_run_counts_once_however_often_the_turn_is_tried() -> None:
    told = begun()
    ran(told, "a", {"outputTokens": 2})
    told.tell(BeginAttempt(TURN, cause="crash"))
    assert told.tell(StartRun(RunId("a"), "kid", within=TURN)) == []
    assert usage(told, attempt=2) == {"subAgents": {"outputTokens": 2}}


def test_a_run_that_was_interrupted_and_taken_up_counts_with_its_real_end() -> None:
    told = begun()
    told.tell(StartRun(RunId("a"), "kid", within=TURN))
    told.tell(EndRun(RunId("a"), "interrupted"))
    ran(told, "a", {"outputTokens": 2})
    assert usage(told) == {"subAgents": {"outputTokens": 2}}


def test_runs_of_other_turns_and_of_none_do_not_count() -> None:
    told = begun()
    ran(told, "a", {"outputTokens": 2}, within=None, detached=True)
    ran(told, "b", {"outputTokens": 2}, within=TurnId(9))
    told.tell(StartRun(RunId("c"), "kid", within=TURN))
    assert usage(told) is None


def test_no_run_of_an_open_turn_is_forgotten_before_it_was_counted() -> None:
    told = begun()
    for number in range(RECENT_RUNS + 5):
        ran(told, str(number), {"outputTokens": 1})
    assert usage(told) == {"subAgents": {"outputTokens": RECENT_RUNS + 5}}


def test_a_total_has_what_was_used_below() -> None:
    used = {"outputTokens": 1, "subAgents": {"outputTokens": 2, "inputTokens": 3}, "cached": True}
    assert total_usage(used) == {"outputTokens": 3, "inputTokens": 3}
    assert (total_usage(None), total_usage({}), total_usage("odd")) == (None, None, None)
