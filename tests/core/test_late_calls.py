"""Calls that are approved after a later answer began run once, and their outputs go into their message (R-3)."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from msgspec import Raw

from everyword.core.commands import BeginAttempt, RecordCallStart
from everyword.core.wanted import NOW, Wanted
from everyword.errors import Rejected
from everyword.events import (
    AttemptStarted,
    CallAnswered,
    CallStarted,
    Chunk,
    MessageEnded,
    Outcome,
    TurnAccepted,
    TurnKind,
)
from everyword.ids import Attempt, CallId, TurnId
from everyword.messages.message import UIMessage
from everyword.messages.repair_tool_calls import INTERRUPTED, STOPPED
from everyword.messages.tool_calls import ApprovalAnswer, OutputAnswer, own_approval_id, tool_parts
from tests.core.histories import History, histories, user, walk
from tests.core.stage import Stage, chunks_of, ended_message, endings, kinds, pick, stage, states, text, the
from tests.core.test_agreement import again

YES, NO = ApprovalAnswer(True), ApprovalAnswer(False)
MANY = settings(max_examples=150, deadline=None)


def pays(name: str) -> list[dict[str, object]]:
    """A call of a server tool that needs approval."""
    asked = {"type": "tool-approval-request", "toolCallId": name, "approvalId": own_approval_id(name)}
    return [{"type": "tool-input-available", "toolCallId": name, "toolName": "pay", "input": {"of": name}}, asked]


def output(name: str) -> dict[str, object]:
    return {"type": "tool-output-available", "toolCallId": name, "output": f"paid {name}"}


def asking(*calls: str, **rules: object) -> Stage:
    """u1 (node 1) was answered by turn 1 (node 2), which asks for approval of these calls."""
    told = stage(server_tools=frozenset({"pay"}), **rules)
    told.ask("r1", user("u1"), body=Raw(b'{"tone":"dry"}'))
    told.begin(1)
    told.emit(1, *(chunk for name in calls for chunk in pays(name)))
    told.finish(1, finish_reason="tool-calls")
    return told


def overtaken(*calls: str) -> Stage:
    """As `asking`, and then u2 (node 3) was answered by turn 2 (node 4)."""
    told = asking(*calls)
    told.talk("r2", "u2")
    return told


def start(told: Stage, turn: int, call: str, *, attempt: int = 1, idempotent: bool = False) -> list[object]:
    return told.tell(RecordCallStart(TurnId(turn), Attempt(attempt), CallId(call), "pay", idempotent))  # type: ignore[return-value]


def pay(told: Stage, turn: int, *calls: str) -> None:
    """Run the calls as the turn, from its beginning to its end."""
    told.begin(turn)
    for name in calls:
        start(told, turn, name)
        told.emit(turn, output(name))
    told.finish(turn)


# -- approved once the next answer has begun ---------------------------------------------------------------


def test_an_approval_behind_a_later_answer_accepts_a_run_of_its_own() -> None:
    told = overtaken("k1")
    events = told.answer("k1", YES, "late", origin="socket-7")
    assert kinds(events) == ["CallAnswered", "TurnAccepted"]
    accepted = the(TurnAccepted, events)
    assert (accepted.kind, accepted.request, accepted.turn) == (TurnKind.CALLS, "late", 3)
    assert (accepted.node, accepted.message_id, accepted.parent) == (2, "a-r1", 1)
    assert bytes(accepted.body) == b'{"tone":"dry"}', "what the answer was asked with, not the last question"
    assert told.wanted() == Wanted(calls=TurnId(3), wake=NOW)


def test_the_output_of_a_late_call_goes_into_the_old_message() -> None:
    told = overtaken("k1")
    told.answer("k1", YES)
    assert kinds(told.begin(3)) == ["AttemptStarted"]
    assert states(told.message(2)) == {"k1": "approval-responded"}
    start(told, 3, "k1")
    told.emit(3, output("k1"))
    ended = told.finish(3)
    assert the(MessageEnded, ended).node == 2
    (part,) = ended_message(ended)["parts"]
    assert (part["state"], part["output"]) == ("output-available", "paid k1")
    assert part["approval"] == {"id": "approve-k1", "approved": True}
    assert told.path == ["u1", "a-r1", "u2", "a-r2"]
    assert told.message(2) == ended_message(ended)
    assert told.wanted() == Wanted()


@pytest.mark.parametrize("auto_continue", [True, False])
def test_a_late_call_runs_beside_a_streaming_answer(auto_continue: bool) -> None:
    told = asking("k1")
    told.ask("r2", user("u2"))
    told.begin(2)
    told.emit(2, *text("something"))
    told.answer("k1", YES, auto_continue=auto_continue)
    assert told.wanted() == Wanted(run=TurnId(2), calls=TurnId(3), wake=NOW)
    pay(told, 3, "k1")
    told.emit(2, *text("else", "t2"))
    told.finish(2)
    assert states(told.message(2)) == {"k1": "output-available"}
    assert told.said()[-1] == "somethingelse"


def test_a_late_call_waits_while_its_message_is_being_written() -> None:
    """Another branch is shown while the answer still streams."""
    told = stage(server_tools=frozenset({"pay"}))
    told.ask("r1", user("u1"))
    told.begin(1)
    told.emit(1, *pays("k1"))
    told.ask("r2", user("u1", "changed"))
    accepted = the(TurnAccepted, told.answer("k1", YES))
    assert (accepted.kind, accepted.node) == (TurnKind.CALLS, 2)
    assert told.wanted() == Wanted(run=TurnId(1), wake=NOW)
    with pytest.raises(Rejected):
        told.begin(3)
    told.finish(1)
    assert told.wanted() == Wanted(calls=TurnId(3), wake=NOW)
    pay(told, 3, "k1")
    assert (states(told.message(2)), told.wanted().run) == ({"k1": "output-available"}, 2)


def test_the_next_question_waits_for_the_output_of_a_late_call() -> None:
    told = overtaken("k1")
    told.answer("k1", YES)
    told.ask("r4", user("u3"))
    assert told.wanted() == Wanted(calls=TurnId(3), wake=NOW)
    with pytest.raises(Rejected):
        told.begin(4)
    pay(told, 3, "k1")
    assert told.wanted().run == 4
    assert kinds(told.begin(4)) == ["AttemptStarted"]


def test_a_late_call_overlaps_no_question() -> None:
    told = overtaken("k1")
    told.answer("k1", YES)
    (accepted,) = pick(TurnAccepted, told.ask("r4", user("u3"), policy="drop"))
    assert not accepted.dropped


@pytest.mark.parametrize("answer", [NO, OutputAnswer({"ok": 1})])
def test_what_else_comes_late_only_changes_the_message(answer: ApprovalAnswer | OutputAnswer) -> None:
    told = overtaken("k1")
    events = told.answer("k1", answer)
    # No client can answer a call of a server tool.
    assert kinds(events) == (["CallAnswered"] if answer is NO else [])
    assert states(told.message(2)) == {"k1": "output-denied" if answer is NO else "approval-requested"}
    assert told.wanted() == Wanted()


def test_a_denied_call_stays_denied_and_an_approved_one_approved() -> None:
    denied, approved = overtaken("k1"), overtaken("k1")
    denied.answer("k1", NO)
    assert denied.answer("k1", YES) == []
    approved.answer("k1", YES)
    assert approved.answer("k1", NO, "c2") == []
    pay(approved, 3, "k1")
    assert approved.answer("k1", YES, "c3") == []


def test_an_approval_of_a_call_that_does_not_run_here_leaves_nothing_to_run() -> None:
    told = stage(server_tools=frozenset({"pay"}))
    told.ask("r1", user("u1"))
    request = {"type": "tool-approval-request", "toolCallId": "k1", "approvalId": "provider-1"}
    call = {"type": "tool-input-available", "toolCallId": "k1", "toolName": "mcp", "input": {}}
    told.run(1, {**call, "providerExecuted": True}, request)
    told.talk("r2", "u2")
    assert kinds(told.answer("k1", YES)) == ["CallAnswered"]


def test_calls_approved_together_run_as_one() -> None:
    told = overtaken("k1", "k2")
    told.answer("k1", YES, "c1")
    assert kinds(told.answer("k2", YES, "c2")) == ["CallAnswered"]
    pay(told, 3, "k1", "k2")
    assert states(told.message(2)) == {"k1": "output-available", "k2": "output-available"}


def test_a_call_approved_while_another_runs_late_runs_after_it() -> None:
    told = overtaken("k1", "k2")
    told.answer("k1", YES, "c1")
    told.begin(3)
    start(told, 3, "k1")
    events = told.answer("k2", YES, "c2")
    assert kinds(events) == ["CallAnswered", "TurnAccepted"]
    assert (the(CallAnswered, events).turn, the(TurnAccepted, events).turn) == (3, 4)
    assert states(told.message(2)) == {"k1": "approval-responded", "k2": "approval-responded"}, (
        "clients read it at once"
    )
    assert told.wanted().calls == 3
    told.emit(3, output("k1"))
    told.finish(3)
    assert told.wanted().calls == 4
    pay(told, 4, "k2")
    assert states(told.message(2)) == {"k1": "output-available", "k2": "output-available"}


def test_late_calls_of_two_messages_run_one_after_the_other() -> None:
    told = overtaken("k1")
    told.ask("r3", user("u3"))
    told.run(3, *pays("k2"))
    told.talk("r4", "u4")
    told.answer("k2", YES, "c2")
    told.answer("k1", YES, "c1")
    assert told.wanted().calls == 5
    told.begin(5)
    with pytest.raises(Rejected):
        told.begin(6)
    told.finish(5)
    assert told.wanted().calls == 6


def test_a_request_id_that_is_taken_is_refused() -> None:
    told = overtaken("k1")
    with pytest.raises(Rejected, match="taken"):
        told.answer("k1", YES, "r1")


# -- approved before the next answer has begun -------------------------------------------------------------


def test_an_approval_given_while_a_question_waits_goes_on_before_it() -> None:
    told = stage(server_tools=frozenset({"pay"}))
    told.ask("r1", user("u1"))
    told.begin(1)
    told.emit(1, *pays("k1"))
    told.ask("r2", user("u2"))
    told.answer("k1", YES)
    told.finish(1, finish_reason="tool-calls")
    told.wait(50)
    assert told.wanted().run == 3
    pay(told, 3, "k1")
    assert (states(told.message(2)), told.wanted().run) == ({"k1": "output-available"}, 2)


def test_a_question_waits_for_the_approved_half_of_a_batch() -> None:
    told = asking("k1", "k2")
    told.answer("k1", YES, "c1")
    told.wait(50)
    told.ask("r2", user("u2"))
    assert told.wanted().run == 3
    begun = told.begin(3)
    assert endings(begun) == [(2, "skipped", "target-not-last")]
    accepted = the(TurnAccepted, begun)
    assert (accepted.kind, accepted.node, accepted.turn) == (TurnKind.CALLS, 2, 4)
    assert kinds(begun)[-1] == "TurnAccepted", "the question has not begun"
    pay(told, 4, "k1")
    assert told.wanted().run == 3
    assert kinds(told.begin(3)) == ["AttemptStarted"]
    assert states(told.message(2)) == {"k1": "output-available", "k2": "approval-requested"}
    told.finish(3)
    assert the(TurnAccepted, told.answer("k2", YES, "c2")).kind is TurnKind.CALLS
    pay(told, 5, "k2")
    assert states(told.message(2)) == {"k1": "output-available", "k2": "output-available"}


def test_the_other_half_approved_before_the_question_begins_goes_on_first() -> None:
    told = asking("k1", "k2")
    told.answer("k1", YES, "c1")
    told.ask("r2", user("u2"))
    told.wait(50)
    told.begin(3)
    told.begin(4)
    start(told, 4, "k1")
    events = told.answer("k2", YES, "c2")
    accepted = the(TurnAccepted, events)
    assert (accepted.kind, accepted.during, the(CallAnswered, events).turn) == (TurnKind.CONTINUATION, None, 4)
    told.emit(4, output("k1"))
    told.finish(4)
    told.wait(50)
    assert told.wanted().run == 5
    pay(told, 5, "k2")
    assert (told.wanted().run, kinds(told.begin(3))) == (3, ["AttemptStarted"])


@pytest.mark.parametrize("is_queued", [True, False])
def test_a_question_runs_what_was_approved_without_going_on(is_queued: bool) -> None:
    told = asking("k1")
    if is_queued:
        told.ask("r2", user("u2"))
    assert kinds(told.answer("k1", YES, auto_continue=False)) == ["CallAnswered"]
    if not is_queued:
        assert told.wanted() == Wanted(), "the client goes on by itself"
        told.ask("r2", user("u2"))
    assert told.wanted().run == 2
    assert the(TurnAccepted, told.begin(2)).kind is TurnKind.CALLS
    pay(told, 3, "k1")
    assert kinds(told.begin(2)) == ["AttemptStarted"]


def test_a_call_that_was_approved_elsewhere_does_not_run_with_a_question() -> None:
    """Such a call was imported: it is not known whether it ran."""
    told = stage(server_tools=frozenset({"pay"}))
    part = {"type": "tool-pay", "toolCallId": "k1", "state": "approval-responded", "input": {}}
    for number, more in enumerate([{"approval": {"id": "another-server", "approved": True}}, {}], 1):
        told.put({"id": f"b{number}", "role": "assistant", "parts": [{**part, **more}]})
        told.ask(f"r{number}", user(f"u{number}"))
        assert kinds(told.begin(number)) == ["AttemptStarted"]
        told.finish(number)


def test_a_question_without_a_request_id_for_its_late_calls_is_refused() -> None:
    told = asking("k1")
    told.answer("k1", YES, auto_continue=False)
    told.ask("r2", user("u2"))
    with pytest.raises(Rejected, match="run first"):
        told.tell(BeginAttempt(TurnId(2)))
    assert told.wanted().run == 2


@pytest.mark.parametrize("policy", ["queue", "latest", "merge", "debounce"])
def test_questions_that_wait_do_not_make_an_approval_late(policy: str) -> None:
    told = stage(server_tools=frozenset({"pay"}))
    told.ask("r1", user("u1"))
    told.begin(1)
    told.emit(1, *pays("k1"))
    told.ask("r2", user("u2"), policy=policy)
    told.ask("r3", user("u3"), policy=policy)
    told.finish(1, finish_reason="tool-calls")
    accepted = the(TurnAccepted, told.answer("k1", YES))
    assert accepted.kind is TurnKind.CONTINUATION
    told.wait(1000)
    assert told.wanted().run == accepted.turn
    assert kinds(told.begin(accepted.turn)) == ["AttemptStarted"]


def test_an_approval_is_late_after_a_question_that_failed_without_a_message() -> None:
    told = asking("k1")
    told.ask("r2", user("u2"))
    told.begin(2)
    told.finish(2, Outcome.ERROR, error="no model")
    assert the(TurnAccepted, told.answer("k1", YES)).kind is TurnKind.CALLS


def test_a_continuation_that_lost_its_place_leaves_its_approved_call_to_run() -> None:
    told = asking("k1")
    told.answer("k1", YES)
    told.put({"id": "b1", "role": "assistant", "parts": [{"type": "text", "text": "Meanwhile."}]})
    told.wait(50)
    begun = told.begin(2)
    assert endings(begun) == [(2, "skipped", "target-not-last")]
    assert the(TurnAccepted, begun).kind is TurnKind.CALLS
    assert told.wanted().calls == 3


# -- stop, clear, crash ------------------------------------------------------------------------------------


def test_an_approved_call_stopped_before_it_begins_has_an_error() -> None:
    told = asking("k1")
    told.answer("k1", YES, "c1")
    events = told.cancel("c1", by="ann")
    assert kinds(events) == ["CallAnswered", "TurnEnded"]
    assert the(CallAnswered, events).by == "ann"
    (part,) = told.message(2)["parts"]
    assert (part["state"], part["errorText"]) == ("output-error", STOPPED)
    told.ask("r2", user("u2"))
    assert kinds(told.begin(3)) == ["AttemptStarted"]


def test_a_late_call_that_is_stopped_before_it_begins_says_so() -> None:
    told = overtaken("k1")
    told.answer("k1", YES, "late")
    assert kinds(told.cancel()) == ["CallAnswered", "TurnEnded"]
    assert told.message(2)["parts"][0]["errorText"] == STOPPED
    assert told.wanted() == Wanted()


def test_an_approval_stopped_while_its_message_streams_is_in_the_stream() -> None:
    told = stage(server_tools=frozenset({"pay"}))
    told.ask("r1", user("u1"))
    told.begin(1)
    told.emit(1, *pays("k1"))
    told.answer("k1", YES, "c1")
    events = told.cancel("c1")
    assert chunks_of(events) == [{"type": "tool-output-error", "toolCallId": "k1", "errorText": STOPPED}]
    assert (the(CallAnswered, events).turn, the(Chunk, events).index) == (1, 2)
    told.finish(1)
    assert states(told.message(2)) == {"k1": "output-error"}


def test_stopping_a_continuation_keeps_a_call_that_another_turn_runs() -> None:
    told = overtaken("k1", "k2")
    told.answer("k1", YES, "c1")
    told.begin(3)
    start(told, 3, "k1")
    told.answer("k2", YES, "c2")
    assert kinds(told.cancel("c2")) == ["TurnEnded"]
    told.emit(3, output("k1"))
    told.finish(3)
    assert states(told.message(2))["k1"] == "output-available"


def test_a_late_call_that_runs_can_be_stopped_and_is_not_left_without_an_end() -> None:
    told = overtaken("k1")
    told.answer("k1", YES, "late")
    told.begin(3)
    start(told, 3, "k1")
    assert kinds(told.cancel()) == ["CancelRequested"]
    assert told.wanted() == Wanted(stop=(TurnId(3),), wake=NOW)
    assert endings(told.finish(3, Outcome.ABORTED)) == [(3, "aborted", "cancelled")]
    (part,) = told.message(2)["parts"]
    assert (part["state"], part["errorText"]) == ("output-error", INTERRUPTED)


def test_an_answer_and_a_late_call_can_be_stopped_together() -> None:
    told = asking("k1")
    told.ask("r2", user("u2"))
    told.begin(2)
    told.answer("k1", YES)
    told.begin(3)
    told.cancel()
    assert told.wanted() == Wanted(stop=(TurnId(2), TurnId(3)), wake=NOW)


def test_a_clear_ends_late_calls() -> None:
    waiting, running = overtaken("k1"), overtaken("k1")
    for told in (waiting, running):
        told.answer("k1", YES)
    running.begin(3)
    assert endings(waiting.clear()) == [(3, "skipped", "cleared")]
    assert endings(running.clear()) == [(3, "aborted", "cleared")]
    assert waiting.wanted() == running.wanted() == Wanted()


def test_a_late_call_cut_off_behind_its_start_is_not_started_again() -> None:
    told = overtaken("k1")
    told.answer("k1", YES)
    told.begin(3)
    start(told, 3, "k1")
    state, _ = told.restored()
    assert state.open[TurnId(3)].started_calls == {"k1": 1}
    assert told.wanted() == Wanted(calls=TurnId(3), wake=NOW)
    told.begin(3, "crash")
    with pytest.raises(Rejected):
        start(told, 3, "k1", attempt=2)
    assert start(told, 3, "k1", attempt=2, idempotent=True)


def test_a_late_call_has_no_response_hook_and_removes_no_message() -> None:
    told = asking("k1", has_response_hook=True, max_persisted_messages=4)
    told.talk("r2", "u2")
    told.answer("k1", YES)
    told.begin(3)
    assert kinds(told.finish(3)) == ["MessageEnded", "TurnEnded"]
    assert told.state.hooks_due == {1, 2}


def test_the_limit_on_messages_leaves_a_message_whose_call_runs() -> None:
    told = asking("k1", max_persisted_messages=2)
    told.ask("r2", user("u2"))
    told.begin(2)
    told.emit(2, *text("fine"))
    told.answer("k1", YES)
    told.finish(2)
    assert told.path == ["a-r1", "u2", "a-r2"]
    assert told.remove(2) == []
    pay(told, 3, "k1")
    assert states(told.message(2)) == {"k1": "output-available"}


# -- whatever happens --------------------------------------------------------------------------------------


@MANY
@given(histories())
def test_no_question_begins_behind_an_approved_call_that_has_not_run(history: History) -> None:
    for _, events, twin in again(history):
        for event in pick(AttemptStarted, events):
            turn = twin.state.open.get(event.turn)
            if event.attempt > 1 or turn is None or turn.accepted.kind is not TurnKind.CHAT:
                continue
            above = twin.state.tree.shown_path(turn.accepted.parent) if turn.accepted.parent is not None else ()
            answers = [place for _, place in above if place.role == "assistant" and place.body is not None]
            for place in answers[-1:]:
                parts = tool_parts(UIMessage.decode(place.body or b""))
                left = [part for part in parts if part["type"] == "tool-pay" and part["state"] == "approval-responded"]
                assert left == [], twin.told


@MANY
@given(histories())
def test_no_call_is_started_twice_whatever_the_order(history: History) -> None:
    started = Counter(event.call for event, _ in history.log if isinstance(event, CallStarted))
    assert all(times == 1 for times in started.values()), started


@MANY
@given(histories())
def test_a_message_has_one_writer(history: History) -> None:
    for _, _, twin in again(history):
        writers = Counter(turn.node for turn in twin.state.message_turns() if turn.fold is not None)
        assert all(times == 1 for times in writers.values())


def test_histories_run_calls_late() -> None:
    """The assertions above would also hold if there were none."""
    chance = random.Random(7)
    drawn = [walk(chance.randbytes(400)) for _ in range(200)]
    kinds_drawn = Counter(
        event.kind for history in drawn for event, _ in history.log if isinstance(event, TurnAccepted)
    )
    started = sum(isinstance(event, CallStarted) for history in drawn for event, _ in history.log)
    assert kinds_drawn[TurnKind.CALLS] > 20 and started > 20, (kinds_drawn, started)
