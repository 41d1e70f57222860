"""Which work should be running, and when to compute it again (R-22, I-12)."""

from __future__ import annotations

import pytest

from everyword.core.commands import AddJob, ChangeConversation, DestroyAgent
from everyword.core.continuations import continuation_is_due
from everyword.core.wanted import NOW, Wanted, wanted
from everyword.errors import Rejected
from everyword.events import JobKind, Outcome
from everyword.ids import JobId, Millis, TurnId
from everyword.messages.tool_calls import OutputAnswer
from tests.core.histories import user
from tests.core.stage import Stage, call, endings, kinds, open_text, stage, text

OK = OutputAnswer({"ok": 1})


def parked() -> Stage:
    """An answer (turn 1) called two tools, one has its result: the continuation (turn 2) waits for the other."""
    told = stage()
    told.ask("r1", user("u1"))
    told.run(1, call("k1"), call("k2"), finish_reason="tool-calls")
    told.answer("k1", OK)
    told.wait(1000)
    return told


def test_an_idle_agent_calls_for_nothing() -> None:
    told = stage()
    assert told.wanted() == Wanted()
    told.talk("r1", "u1")
    assert told.wanted() == Wanted()


def test_an_accepted_turn_should_run_now() -> None:
    told = stage()
    told.ask("r1", user("u1"))
    assert told.wanted() == Wanted(run=TurnId(1), wake=NOW)


def test_a_turn_that_has_begun_should_run() -> None:
    told = stage()
    told.ask("r1", user("u1"))
    told.begin(1)
    told.emit(1, *open_text("half"))
    assert told.wanted() == Wanted(run=TurnId(1), wake=NOW)
    assert wanted(told.restored()[0], Millis(told.now)) == told.wanted()


def test_a_turn_that_is_being_cancelled_should_stop_and_nothing_else_starts() -> None:
    told = stage()
    told.ask("r1", user("u1"))
    told.ask("r2", user("u2"))
    told.begin(1)
    told.cancel("r1")
    assert told.wanted() == Wanted(stop=(TurnId(1),), wake=NOW)
    told.finish(1)
    assert told.wanted() == Wanted(run=TurnId(2), wake=NOW)


def test_turns_run_in_the_order_of_their_acceptance() -> None:
    told = stage()
    for number in (1, 2, 3):
        told.ask(f"r{number}", user(f"u{number}"))
    order = []
    while (run := told.wanted().run) is not None:
        order.append(run)
        told.run(run, *text("x"))
    assert order == [1, 2, 3]


def test_the_question_that_runs_is_the_one_that_began() -> None:
    told = stage()
    told.ask("r1", user("u1"))
    told.ask("r2", user("u2"))
    told.begin(2)
    assert told.wanted().run == 2


def test_a_deferred_turn_should_run_to_get_its_messages() -> None:
    told = stage()
    told.defer("r1")
    assert told.wanted() == Wanted(run=TurnId(1), wake=NOW)


def test_bare_streams_are_never_wanted() -> None:
    told = stage()
    told.open_stream("s1")
    assert told.wanted() == Wanted()
    told.begin(1)
    assert told.wanted() == Wanted()


# -- waiting for a time ------------------------------------------------------------------------------------


def test_a_turn_with_a_start_time_is_wanted_from_then_on() -> None:
    told = stage()
    told.ask("r1", user("u1"), policy="debounce")
    start = Millis(told.now + 750)
    assert told.wanted() == Wanted(wake=start)
    told.wait(750)
    assert told.wanted() == Wanted(run=TurnId(1), wake=NOW)
    told.wait(10**9)
    assert told.wanted().run == 1


def test_a_debounced_question_keeps_its_place() -> None:
    told = stage()
    told.ask("r1", user("u1"), policy="debounce")
    told.ask("r2", user("u1"), trigger="regenerate-message")
    assert told.wanted() == Wanted(wake=Millis(told.now + 750))


@pytest.mark.parametrize("policy", ["queue", "latest", "merge", "debounce"])
def test_a_continuation_that_only_waits_for_its_time_goes_before_a_question(policy: str) -> None:
    told = stage()
    told.ask("r1", user("u1"))
    told.run(1, call("k1"), finish_reason="tool-calls")
    told.answer("k1", OK)
    assert told.wanted() == Wanted(wake=Millis(told.now + 50))
    told.ask("r2", user("u2"), policy=policy)
    assert told.wanted() == Wanted(wake=Millis(told.now + 50))
    told.wait(1000)
    assert told.wanted().run == 2
    told.run(2, *text("seen"))
    assert told.wanted().run == 3
    assert told.path == ["u1", "a-r1", "u2"]


def test_of_two_start_times_the_earlier_is_the_next_wake() -> None:
    told = stage()
    told.ask("r1", user("u1"))
    told.run(1, call("k1"), finish_reason="tool-calls")
    told.answer("k1", OK)
    told.ask("r2", user("u2"), policy="debounce")
    assert told.wanted() == Wanted(wake=Millis(told.now + 50))


# -- parked continuations ----------------------------------------------------------------------------------


def test_a_continuation_with_an_open_call_waits_without_a_wake_time() -> None:
    told = parked()
    assert told.wanted() == Wanted()
    assert not continuation_is_due(told.state, told.state.open[TurnId(2)])


def test_a_question_that_begins_ends_the_wait_of_a_parked_continuation() -> None:
    told = parked()
    told.ask("r2", user("u2"))
    assert told.wanted().run == 3
    begun = told.begin(3)
    assert (endings(begun), kinds(begun)[-1]) == ([(2, "skipped", "target-not-last")], "AttemptStarted")
    assert told.wanted().run == 3


def test_a_parked_continuation_is_due_when_the_batch_is_complete() -> None:
    told = parked()
    told.answer("k2", OK)
    assert told.wanted() == Wanted(wake=Millis(told.now + 50))
    told.wait(50)
    assert told.wanted() == Wanted(run=TurnId(2), wake=NOW)


def test_a_question_that_never_ran_leaves_a_parked_continuation_waiting() -> None:
    told = parked()
    told.ask("r2", user("u2"))
    told.cancel("r2")
    assert told.wanted() == Wanted()
    told.answer("k2", OK)
    told.wait(50)
    assert told.wanted().run == 2
    assert kinds(told.begin(2)) == ["AttemptStarted"]


def test_a_continuation_of_a_hidden_message_is_due_so_that_it_is_skipped() -> None:
    told = parked()
    told.put({"id": "b1", "role": "assistant", "parts": [{"type": "text", "text": "Never mind."}]})
    assert told.wanted().run == 2
    assert endings(told.begin(2)) == [(2, "skipped", "target-not-last")]
    assert told.wanted() == Wanted()


def test_a_continuation_does_not_start_while_a_turn_runs() -> None:
    told = parked()
    told.answer("k2", OK)
    told.wait(50)
    told.ask("r2", user("u2"))
    told.begin(3)
    assert told.wanted().run == 3


# -- hooks -------------------------------------------------------------------------------------------------


def test_due_hooks_are_named_in_order_and_keep_the_agent_awake() -> None:
    told = stage(has_response_hook=True)
    told.talk("r1", "u1")
    told.talk("r2", "u2")
    assert told.wanted() == Wanted(hooks=(TurnId(1), TurnId(2)), wake=NOW)


@pytest.mark.parametrize("policy", ["queue", "debounce"])
def test_hooks_and_turns_are_wanted_side_by_side(policy: str) -> None:
    told = stage(has_response_hook=True)
    told.talk("r1", "u1")
    told.ask("r2", user("u2"), policy=policy)
    work = told.wanted()
    assert work.hooks == (1,)
    assert work.run == (2 if policy == "queue" else None)
    assert work.wake == NOW


def test_hooks_are_wanted_while_a_turn_is_being_cancelled() -> None:
    told = stage(has_response_hook=True)
    told.talk("r1", "u1")
    told.ask("r2", user("u2"))
    told.begin(2)
    told.cancel("r2")
    assert told.wanted() == Wanted(stop=(TurnId(2),), hooks=(TurnId(1),), wake=NOW)


# -- conversations that are kept for some time ---------------------------------------------------------------


def kept(*jobs: AddJob) -> Stage:
    """A conversation that is kept for a second."""
    told = stage()
    told.talk("r1", "u1")
    told.play(ChangeConversation(keep_for=1000))
    for job in jobs:
        told.play(job)
    return told


def job(kind: JobKind, due: Millis) -> AddJob:
    return AddJob(JobId(kind), kind, "tick", due, rule="0 0 * * *" if kind == "cron" else None)


def test_a_conversation_that_was_kept_long_enough_is_outdated() -> None:
    told = kept()
    assert told.wanted() == Wanted(wake=Millis(told.now + 1000))
    told.wait(1000)
    assert told.wanted() == Wanted(is_outdated=True, wake=NOW)


def test_a_repeating_job_does_not_keep_a_conversation() -> None:
    told = kept(job("cron", Millis(2**50)))
    told.wait(1000)
    assert told.wanted() == Wanted(is_outdated=True, wake=NOW, later=Millis(2**50))


@pytest.mark.parametrize("kind", ["once", "queue"])
def test_a_conversation_is_kept_for_a_job_that_is_still_to_run_and_wakes_for_it(kind: JobKind) -> None:
    due = Millis(stage().now + 5000)
    told = kept(job(kind, due))
    told.wait(1000)
    assert told.wanted() == Wanted(wake=due)


@pytest.mark.parametrize("kind", ["once", "cron"])
def test_a_conversation_is_not_deleted_if_work_came_in_before_its_deletion(kind: JobKind) -> None:
    told = kept()
    told.wait(1000)
    assert told.wanted().is_outdated
    told.play(job(kind, Millis(told.now)))
    with pytest.raises(Rejected, match="used again"):
        told.tell(DestroyAgent(only_outdated=True))


# -- the next process wants the same -----------------------------------------------------------------------


@pytest.mark.parametrize("depth", range(8))
def test_the_next_process_wants_what_this_one_wanted(depth: int) -> None:
    told = stage(has_response_hook=True)
    moves = [
        lambda: told.ask("r1", user("u1")),
        lambda: told.begin(1),
        lambda: told.emit(1, call("k1"), call("k2")),
        lambda: told.answer("k1", OK),
        lambda: told.finish(1, Outcome.COMPLETED, finish_reason="tool-calls"),
        lambda: told.ask("r2", user("u2"), policy="debounce"),
        lambda: told.cancel("r2"),
        told.clear,
    ]
    for move in moves[: depth + 1]:
        move()
    assert wanted(told.restored()[0], Millis(told.now)) == told.wanted()


def test_a_timed_turn_is_looked_at_in_time_while_a_hook_is_due() -> None:
    told = stage(has_response_hook=True)
    told.ask("r1", user("u1"))
    told.run(1, call("k1"))
    told.answer("k1", OutputAnswer(1), "c1")
    assert told.wanted() == Wanted(hooks=(TurnId(1),), wake=NOW, later=Millis(told.now + told.rules.continuation_delay))
