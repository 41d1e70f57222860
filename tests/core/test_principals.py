"""The principal of a question is stored with it, and decides which questions may be merged (R-35)."""

from __future__ import annotations

import msgspec
import pytest

from everyword.core.approvals import RECENT_APPROVALS
from everyword.core.commands import AddJob, StartFiber, StartRun
from everyword.core.restore import restore
from everyword.core.state import State
from everyword.events import CallAnswered, FiberStarted, Identity, JobAdded, RunStarted, TurnAccepted
from everyword.ids import CallId, FiberId, JobId, Millis, RunId
from everyword.messages.tool_calls import ApprovalAnswer, OutputAnswer
from tests.core.histories import ANN, BOB, user
from tests.core.stage import Stage, call, endings, stage, text, the
from tests.core.test_late_calls import pays

YES, NO = ApprovalAnswer(True), ApprovalAnswer(False)


def asked_by(principal: Identity | None) -> Stage:
    """u1 (node 1) has a principal and is being answered by turn 1 (node 2)."""
    told = stage(server_tools=frozenset({"pay"}))
    told.ask("r1", user("u1"), principal=principal)
    told.begin(1)
    return told


def asking(*calls: str) -> Stage:
    """The answer to Ann's question has calls that wait for approval."""
    told = asked_by(ANN)
    told.emit(1, *(chunk for name in calls for chunk in pays(name)))
    told.finish(1, finish_reason="tool-calls")
    return told


def loaded_again(told: Stage) -> State:
    kept = told.rows.kept.values()
    turns = sorted(told.rows.turns.values(), key=lambda row: row.turn)
    messages = sorted(told.rows.messages.values(), key=lambda row: row.node)
    state, problems = restore(told.rows.agent, turns, messages, [], kept)
    assert list(problems) == []
    return state


# -- turns ---------------------------------------------------------------------------------------------------


def test_a_turn_keeps_its_principal_when_it_is_loaded_again() -> None:
    told = asked_by(ANN)
    (turn,) = loaded_again(told).open.values()
    assert turn.accepted.principal == ANN
    assert turn.accepted.principal is not None
    assert msgspec.json.decode(turn.accepted.principal.claims) == {"role": "agent"}


@pytest.mark.parametrize("policy", ["merge", "latest", "debounce"])
def test_a_question_takes_nothing_away_from_another_principals(policy: str) -> None:
    told = asked_by(ANN)
    told.ask("r2", user("u2"), policy=policy, principal=ANN)
    events = told.ask("r3", user("u3"), policy=policy, principal=BOB)
    assert endings(events) == []
    assert [turn.accepted.principal for turn in told.state.open.values()] == [ANN, ANN, BOB]
    assert {"u2", "u3"} <= set(told.path)


@pytest.mark.parametrize("policy", ["merge", "latest", "debounce"])
def test_a_question_supersedes_ones_own(policy: str) -> None:
    told = asked_by(ANN)
    told.ask("r2", user("u2"), policy=policy, principal=Identity("bob", "Robert"))
    events = told.ask("r3", user("u3"), policy=policy, principal=BOB)
    assert endings(events) == [(2, "skipped", "superseded")], "a principal is known by its id"


def test_only_questions_after_the_last_one_of_another_principal_are_merged() -> None:
    told = asked_by(ANN)
    for request, principal in (("r2", BOB), ("r3", ANN), ("r4", BOB)):
        told.ask(request, user(f"u-{request}"), policy="merge", principal=principal)
    assert endings(told.ask("r5", user("u-r5"), policy="merge", principal=BOB)) == [(4, "skipped", "superseded")]


# -- what goes on --------------------------------------------------------------------------------------------


def test_a_continuation_has_the_principal_of_the_question() -> None:
    told = asking("pay-1")
    accepted = the(TurnAccepted, told.answer("pay-1", YES, principal=BOB))
    assert accepted.principal == ANN


def test_a_continuation_of_a_streaming_answer_has_the_same_principal() -> None:
    told = asked_by(ANN)
    told.emit(1, call("look-1"))
    accepted = the(TurnAccepted, told.answer("look-1", OutputAnswer("seen"), principal=BOB))
    assert (accepted.during, accepted.principal) == (1, ANN)


def test_a_continuation_by_a_client_has_the_principal_of_the_question() -> None:
    told = asked_by(ANN)
    told.emit(1, *text("half"))
    told.finish(1)
    answer = {"id": "a-r1", "role": "assistant", "parts": []}
    assert the(TurnAccepted, told.ask("r2", user("u1"), answer, principal=BOB)).principal == ANN
    told.run(2, *text("more"))
    assert the(TurnAccepted, told.go_on("r3", principal=BOB)).principal == ANN


def test_late_calls_have_the_principal_of_the_question() -> None:
    told = asking("pay-1")
    told.ask("r2", user("u2"), principal=BOB)
    told.run(2, *text("on"))
    accepted = the(TurnAccepted, told.answer("pay-1", YES, principal=BOB))
    assert (accepted.kind.value, accepted.principal) == ("calls", ANN)


def test_the_principal_of_an_approval_is_kept_and_loaded_again() -> None:
    told = asking("pay-1", "pay-2", "pay-3")
    told.answer("pay-1", YES, principal=BOB)
    told.answer("pay-2", NO, principal=BOB)
    told.answer("pay-3", YES)
    for state in (told.state, loaded_again(told)):
        assert {name: approved.by for name, approved in state.approvals.items()} == {"pay-1": BOB}


def test_of_many_approvals_the_oldest_is_forgotten() -> None:
    calls = [f"pay-{n}" for n in range(RECENT_APPROVALS + 1)]
    told = asking(*calls)
    for name in calls[:-1]:
        told.wait(1)
        told.answer(name, YES, principal=BOB)
    assert list(told.state.approvals) == calls[:-1]
    answered = the(CallAnswered, told.answer(calls[-1], YES, principal=ANN))
    assert answered.forgets == calls[0]
    for state in (told.state, loaded_again(told)):
        assert list(state.approvals) == calls[1:]


# -- work ----------------------------------------------------------------------------------------------------


def test_jobs_fibers_and_runs_keep_their_principal() -> None:
    told = stage()
    job = AddJob(JobId("j"), "queue", "write", Millis(0), principal=ANN)
    assert the(JobAdded, told.tell(job)).principal == ANN
    assert the(FiberStarted, told.tell(StartFiber(FiberId("f"), "import", ANN))).principal == ANN
    assert the(RunStarted, told.tell(StartRun(RunId("r"), "kid", principal=BOB))).principal == BOB
    state = loaded_again(told)
    assert state.jobs[JobId("j")].added.principal == ANN
    assert state.fibers[FiberId("f")].principal == ANN
    assert state.runs[RunId("r")].started.principal == BOB
    assert CallId("pay-1") not in state.approvals
