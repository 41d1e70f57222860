"""Results and approvals of clients, and the continuation that they cause (R-1, R-2, R-3)."""

from __future__ import annotations

import pytest
from msgspec import Raw

from everyword.core.continuations import is_held
from everyword.events import ABSENT, CallAnswered, Chunk, TurnAccepted, TurnKind, TurnRetargeted
from everyword.ids import TurnId
from everyword.messages.tool_calls import ApprovalAnswer, CallAnswer, ErrorAnswer, OutputAnswer
from tests.core.histories import user
from tests.core.stage import (
    Stage,
    approval,
    call,
    chunks_of,
    decoded,
    ended_message,
    endings,
    kinds,
    open_text,
    pick,
    stage,
    states,
    text,
    the,
)

OK = OutputAnswer({"ok": 1})
YES, NO = ApprovalAnswer(True), ApprovalAnswer(False, "too dear")


def streaming(*calls: str) -> Stage:
    """u1 (node 1) is being answered by turn 1 (node 2), which has called these tools and goes on."""
    told = stage()
    told.ask("r1", user("u1"), body=Raw(b'{"tone":"dry"}'), client_tools=Raw(b'[{"name":"look"}]'))
    told.begin(1)
    told.emit(1, *map(call, calls))
    return told


def stored(*calls: str, asks: str | None = None) -> Stage:
    """As `streaming`, but the turn has ended, waiting for the tools; `asks` is a call that needs an approval."""
    told = streaming(*calls)
    if asks is not None:
        told.emit(1, approval(asks))
    told.finish(1, finish_reason="tool-calls")
    return told


def call_states(told: Stage) -> dict[str, str]:
    fold = told.state.open[1].fold  # type: ignore[index]
    assert fold is not None
    return states(fold.message().to_dict())


# -- while the message streams (R-1) -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "chunk", "after"),
    [
        (OK, {"type": "tool-output-available", "output": {"ok": 1}}, "output-available"),
        (ErrorAnswer("no luck"), {"type": "tool-output-error", "errorText": "no luck"}, "output-error"),
    ],
)
def test_a_result_for_a_streaming_call_is_an_answer_and_a_chunk_in_one_batch(
    answer: CallAnswer, chunk: dict[str, object], after: str
) -> None:
    told = streaming("k1")
    events = told.answer("k1", answer, auto_continue=False, by="ann", origin="socket-7")
    assert kinds(events) == ["CallAnswered", "Chunk"]
    answered, written = the(CallAnswered, events), the(Chunk, events)
    assert (answered.turn, answered.node, answered.by, answered.origin) == (1, 2, "ann", "socket-7")
    assert (written.turn, written.attempt, written.index) == (1, 1, 1)
    assert decoded(bytes(written.body)) == {**chunk, "toolCallId": "k1"}
    assert call_states(told) == {"k1": after}


def test_a_denial_of_a_streaming_call_has_its_reason_and_a_chunk() -> None:
    told = streaming("k1")
    told.emit(1, approval("k1"))
    events = told.answer("k1", NO, auto_continue=False)
    assert kinds(events) == ["CallAnswered", "Chunk"]
    assert decoded(bytes(the(CallAnswered, events).value)) == {"approved": False, "reason": "too dear"}
    assert chunks_of(events) == [{"type": "tool-output-denied", "toolCallId": "k1"}]
    (part,) = ended_message(told.finish(1))["parts"]
    assert part["state"] == "output-denied"
    assert part["approval"] == {"id": "ask-k1", "approved": False, "reason": "too dear"}


def test_an_approval_of_a_streaming_call_has_no_chunk_but_is_in_the_message() -> None:
    told = streaming("k1")
    told.emit(1, approval("k1"))
    events = told.answer("k1", YES, auto_continue=False)
    assert kinds(events) == ["CallAnswered"]
    (part,) = ended_message(told.finish(1))["parts"]
    assert part["state"] == "approval-responded"
    assert part["approval"] == {"id": "ask-k1", "approved": True}


def test_an_approved_call_still_takes_its_result() -> None:
    told = streaming("k1")
    told.emit(1, approval("k1"))
    told.answer("k1", YES, auto_continue=False)
    assert kinds(told.answer("k1", OK, auto_continue=False)) == ["CallAnswered", "Chunk"]
    assert call_states(told) == {"k1": "output-available"}


def test_a_denied_call_never_gets_an_output() -> None:
    told = streaming("k1")
    told.emit(1, approval("k1"))
    told.answer("k1", NO, auto_continue=False)
    assert told.answer("k1", OK) == []
    told.finish(1)
    assert told.answer("k1", OK) == []


@pytest.mark.parametrize("first", [OK, ErrorAnswer("no"), YES, NO])
@pytest.mark.parametrize("second", [ErrorAnswer("late"), YES, NO])
@pytest.mark.parametrize("is_asked", [True, False])
def test_the_first_answer_to_a_streaming_call_wins(first: CallAnswer, second: CallAnswer, *, is_asked: bool) -> None:
    told = streaming("k1")
    if is_asked or isinstance(first, ApprovalAnswer):
        told.emit(1, approval("k1"))
    told.answer("k1", first, auto_continue=False)
    before = call_states(told)
    events = told.answer("k1", second, auto_continue=False)
    if first == YES and isinstance(second, ErrorAnswer):  # an approved call takes its result
        assert kinds(events) == ["CallAnswered", "Chunk"]
    else:
        assert events == []
        assert call_states(told) == before


@pytest.mark.parametrize("answer", [OK, ErrorAnswer("no"), YES, NO])
@pytest.mark.parametrize("is_asked", [True, False])
def test_an_answer_means_the_same_while_the_message_streams_and_afterwards(
    answer: CallAnswer, *, is_asked: bool
) -> None:
    early, late = streaming("k1"), streaming("k1")
    for told in (early, late):
        if is_asked:
            told.emit(1, approval("k1"))
    early.answer("k1", answer, auto_continue=False)
    early.finish(1)
    late.finish(1)
    late.answer("k1", answer, auto_continue=False)
    assert early.message(2) == late.message(2)


@pytest.mark.parametrize("answer", [OK, ErrorAnswer("no"), NO])
def test_an_output_after_a_clients_answer_is_not_written(answer: CallAnswer) -> None:
    told = streaming("k1")
    if answer == NO:
        told.emit(1, approval("k1"))
    told.answer("k1", answer, auto_continue=False)
    before, late = call_states(told), {"type": "tool-output-available", "toolCallId": "k1", "output": "late"}
    assert chunks_of(told.emit(1, late, {"type": "start-step"})) == [{"type": "start-step"}]
    assert call_states(told) == before
    indexes = [event.index for event, _ in told.log if isinstance(event, Chunk)]
    assert indexes == list(range(len(indexes)))


def test_the_result_of_an_approved_call_is_the_models_to_bring() -> None:
    told = streaming("k1")
    told.emit(1, approval("k1"))
    told.answer("k1", YES, auto_continue=False)
    told.emit(1, {"type": "tool-output-available", "toolCallId": "k1", "output": "done"})
    assert call_states(told) == {"k1": "output-available"}


def test_preliminary_results_are_followed_by_the_final_one() -> None:
    told = streaming("k1")
    output = {"type": "tool-output-available", "toolCallId": "k1", "output": 1}
    assert len(told.emit(1, {**output, "preliminary": True})) == len(told.emit(1, output)) == 1
    assert told.emit(1, output) == []


def test_an_answer_to_an_unknown_call_causes_nothing() -> None:
    told = streaming("k1")
    assert told.answer("k9", OK) == []
    told.finish(1)
    assert told.answer("k9", OK) == []


def test_an_answer_is_taken_while_its_turn_is_being_cancelled() -> None:
    told = streaming("k1")
    told.cancel("r1")
    assert kinds(told.answer("k1", OK, auto_continue=False)) == ["CallAnswered", "Chunk"]
    assert states(ended_message(told.finish(1))) == {"k1": "output-available"}


def test_chunks_emitted_after_an_answer_are_counted_behind_it() -> None:
    told = streaming("k1")
    told.answer("k1", OK, auto_continue=False)
    assert [event.index for event in pick(Chunk, told.emit(1, *text("thanks")))] == [2, 3, 4]


# -- the draft (R-2) ---------------------------------------------------------------------------------------


def test_a_question_to_a_person_saves_the_message_so_far() -> None:
    told = streaming("k1")
    assert told.draft(2) is None
    told.emit(1, approval("k1"))
    draft = told.draft(2)
    assert draft is not None
    assert states(draft) == {"k1": "approval-requested"}
    assert told.path == ["u1", "a-r1"]


@pytest.mark.parametrize(
    ("answer", "after"), [(YES, "approval-responded"), (NO, "output-denied"), (OK, "output-available")]
)
def test_the_draft_shows_the_answer_as_soon_as_it_is_given(answer: CallAnswer, after: str) -> None:
    told = streaming("k1", "k2")
    told.emit(1, approval("k2"), approval("k1"))
    told.answer("k1", answer, auto_continue=False)
    draft = told.draft(2)
    assert draft is not None
    assert states(draft) == {"k1": after, "k2": "approval-requested"}


def test_the_draft_is_gone_once_the_message_has_ended() -> None:
    told = streaming("k1")
    told.emit(1, approval("k1"))
    told.finish(1)
    assert told.draft(2) is None
    assert states(told.message(2)) == {"k1": "approval-requested"}


def test_a_cancelled_continuation_keeps_the_draft_of_the_streaming_turn() -> None:
    told = streaming("k1", "k2")
    told.emit(1, approval("k2"))
    told.answer("k1", OK)
    told.cancel("c")
    draft = told.draft(2)
    assert draft is not None
    assert states(draft)["k2"] == "approval-requested"
    assert told.restored()[0].tree.nodes[2].draft == told.state.tree.nodes[2].draft  # type: ignore[index]


# -- a stored call -----------------------------------------------------------------------------------------


def test_an_answer_to_a_stored_call_changes_the_message_and_is_no_chunk() -> None:
    told = stored("k1")
    events = told.answer("k1", OK, auto_continue=False)
    assert kinds(events) == ["CallAnswered"]
    assert (the(CallAnswered, events).turn, the(CallAnswered, events).node) == (None, 2)
    assert states(told.message(2)) == {"k1": "output-available"}


@pytest.mark.parametrize("first", [OK, ErrorAnswer("no"), NO])
@pytest.mark.parametrize("second", [OK, ErrorAnswer("late"), YES, NO])
def test_the_first_answer_to_a_stored_call_wins(first: CallAnswer, second: CallAnswer) -> None:
    told = stored("k1", asks="k1" if first == NO else None)
    told.answer("k1", first, auto_continue=False)
    before = told.message(2)
    assert told.answer("k1", second) == []
    assert told.message(2) == before


def test_a_call_id_with_odd_characters_is_found() -> None:
    told = stored('k"1\\ä')
    assert kinds(told.answer('k"1\\ä', OK, auto_continue=False)) == ["CallAnswered"]


def test_a_call_that_is_only_quoted_in_a_text_is_not_answered() -> None:
    told = stage()
    told.ask("r1", user("u1", 'call "k1" please'))
    told.run(1, *text('"k1" it is'))
    assert told.answer("k1", OK) == []


def test_of_two_calls_with_one_id_the_newest_on_the_path_is_answered() -> None:
    told = stored("k1")
    told.ask("r2", user("u2"))
    told.run(2, call("k1"))
    told.answer("k1", OK, auto_continue=False)
    assert states(told.message(2)) == {"k1": "input-available"}
    assert states(told.message(4)) == {"k1": "output-available"}


def test_a_call_of_a_left_branch_can_still_be_answered() -> None:
    told = stored("k1")
    told.ask("r2", user("u1", "changed"))
    assert the(CallAnswered, told.answer("k1", OK, auto_continue=False)).node == 2


# -- the continuation (R-3) --------------------------------------------------------------------------------


def test_an_answer_and_its_continuation_are_one_batch() -> None:
    told = stored("k1")
    events = told.answer("k1", OK, "c1", owner="pk-1", origin="socket-7")
    assert kinds(events) == ["CallAnswered", "TurnAccepted"]
    accepted = the(TurnAccepted, events)
    assert (accepted.kind, accepted.request) == (TurnKind.CONTINUATION, "c1")
    assert (accepted.node, accepted.message_id, accepted.parent) == (2, "a-r1", 1)
    assert (accepted.owner, accepted.origin, accepted.during) == ("pk-1", "socket-7", None)
    assert accepted.not_before == told.now + 50


def test_a_continuation_has_the_body_and_tools_of_the_turn_before() -> None:
    told = stored("k1")
    accepted = the(TurnAccepted, told.answer("k1", OK))
    assert bytes(accepted.body or b"") == b'{"tone":"dry"}'
    assert bytes(accepted.client_tools or b"") == b'[{"name":"look"}]'


def test_the_tools_that_come_with_an_answer_go_first() -> None:
    told = stored("k1")
    accepted = the(TurnAccepted, told.answer("k1", OK, client_tools=Raw(b"[]")))
    assert bytes(accepted.client_tools or b"") == b"[]"


def test_a_continuation_caused_while_the_message_streams_waits_for_its_turn() -> None:
    told = streaming("k1")
    accepted = the(TurnAccepted, told.answer("k1", OK))
    assert (accepted.during, bytes(accepted.body or b"")) == (1, b'{"tone":"dry"}')
    told.wait(1000)
    assert told.wanted().run == 1
    told.finish(1, finish_reason="tool-calls")
    assert told.wanted().run == 2


def test_without_auto_continue_an_answer_is_only_an_answer() -> None:
    told = stored("k1")
    assert kinds(told.answer("k1", OK, auto_continue=False)) == ["CallAnswered"]
    assert list(told.state.open) == []


def test_an_answer_without_auto_continue_holds_the_turn_that_streams() -> None:
    told = streaming("k1")
    assert not is_held(told.state, told.state.open[TurnId(1)])
    events = told.answer("k1", OK, auto_continue=False)
    assert (the(CallAnswered, events).turn, the(CallAnswered, events).auto_continue) == (1, False)
    assert is_held(told.state, told.state.open[TurnId(1)])
    restored, _ = told.restored()
    assert is_held(restored, restored.open[TurnId(1)])


def test_an_answer_that_goes_on_outweighs_one_that_does_not() -> None:
    told = streaming("k1", "k2")
    told.answer("k1", OK, auto_continue=False)
    told.answer("k2", OK)
    assert not is_held(told.state, told.state.open[TurnId(1)])


def test_a_turn_is_held_by_its_last_step_alone() -> None:
    told = streaming("k1")
    told.answer("k1", OK, auto_continue=False)
    told.emit(1, {"type": "start-step"}, call("k2"))
    assert not is_held(told.state, told.state.open[TurnId(1)])


def test_answers_given_together_make_one_continuation() -> None:
    told = stored("k1", "k2")
    told.answer("k1", OK, "c1", owner="pk-1", origin="s1")
    told.wait(40)
    events = told.answer("k2", OK, "c2", owner="pk-2", origin="s2")
    assert kinds(events) == ["CallAnswered", "TurnRetargeted"]
    moved = the(TurnRetargeted, events)
    assert (moved.turn, moved.node, moved.message_id) == (2, 2, "a-r1")
    assert (moved.owner, moved.origin, moved.not_before) == ("pk-2", "s2", told.now + 50)
    assert list(told.state.open) == [2]
    accepted = told.state.open[2].accepted  # type: ignore[index]
    assert (accepted.request, accepted.owner, accepted.not_before) == ("c1", "pk-2", told.now + 50)


def test_an_answer_without_auto_continue_only_delays_the_continuation() -> None:
    told = stored("k1", "k2")
    told.answer("k1", OK, "c1", owner="pk-1", origin="s1")
    told.wait(40)
    moved = the(
        TurnRetargeted, told.answer("k2", ErrorAnswer("no"), "c2", owner="pk-2", origin="s2", auto_continue=False)
    )
    assert (moved.owner, moved.origin, moved.not_before) == ("pk-1", "s1", told.now + 50)


def test_an_answer_to_another_message_makes_a_continuation_of_its_own() -> None:
    told = stored("k1", "k2")
    told.answer("k1", OK, "c1")
    told.ask("r2", user("u2"))
    assert endings(told.begin(3)) == [(2, "skipped", "target-not-last")]
    told.emit(3, call("k3"))
    accepted = the(TurnAccepted, told.answer("k3", OK, "c2"))
    assert (accepted.node, accepted.message_id, accepted.parent, accepted.during) == (4, "a-r2", 3, 3)


def test_a_continuation_that_has_begun_is_followed_by_another() -> None:
    told = stored("k1")
    told.answer("k1", OK, "c1")
    told.begin(2)
    told.emit(2, call("k2"))
    events = told.answer("k2", OK, "c2")
    accepted = the(TurnAccepted, events)
    assert (accepted.turn, accepted.request, accepted.during) == (3, "c2", 2)


def test_the_continuation_of_a_whole_batch_waits_for_the_whole_batch() -> None:
    told = stored("k1", "k2")
    told.answer("k1", OK)
    told.wait(10_000)
    assert (told.wanted().run, told.wanted().wake) == (None, None)
    told.answer("k2", OK)
    assert (told.wanted().run, told.wanted().wake) == (None, told.now + 50)
    told.wait(50)
    assert told.wanted().run == 2


def test_a_continuation_extends_the_message_with_the_answer_in_it() -> None:
    told = stored("k1")
    told.answer("k1", OK)
    ended = told.run(2, *text("so it is"))
    assert [part["type"] for part in ended_message(ended)["parts"]] == ["tool-look", "text"]
    assert states(ended_message(ended)) == {"k1": "output-available"}
    assert told.path == ["u1", "a-r1"]


@pytest.mark.parametrize("policy", ["queue", "latest", "merge", "debounce"])
def test_a_continuation_runs_before_a_question_behind_its_message(policy: str) -> None:
    told = stored("k1")
    told.answer("k1", OK)
    told.ask("r2", user("u2"), policy=policy)
    told.wait(1000)
    assert told.wanted().run == 2
    assert kinds(told.begin(2)) == ["AttemptStarted"]
    told.emit(2, *text("seen"))
    told.finish(2)
    assert told.wanted().run == 3
    assert [part["type"] for part in told.message(2)["parts"]] == ["tool-look", "text"]


def test_an_answer_given_while_a_question_waits_goes_on_before_it() -> None:
    told = streaming("k1")
    told.ask("r2", user("u2"))
    told.answer("k1", OK)
    told.finish(1, finish_reason="tool-calls")
    told.wait(50)
    assert told.wanted().run == 3
    assert kinds(told.begin(3)) == ["AttemptStarted"]


@pytest.mark.parametrize("answer", [OK, ErrorAnswer("no"), YES, NO])
@pytest.mark.parametrize("has_ended", [True, False])
def test_a_result_after_the_next_answer_began_only_changes_its_message(answer: CallAnswer, *, has_ended: bool) -> None:
    told = stored("k1", asks="k1" if isinstance(answer, ApprovalAnswer) else None)
    told.ask("r2", user("u2"))
    told.begin(2)
    told.emit(2, *text("something else"))
    if has_ended:
        told.finish(2)
    events = told.answer("k1", answer)
    assert kinds(events) == ["CallAnswered"]
    assert the(CallAnswered, events).turn is None
    assert states(told.message(2)) != {"k1": "input-available"}
    assert told.wanted().run == (None if has_ended else 2)


def test_a_continuation_is_skipped_when_another_branch_is_shown() -> None:
    told = stored("k1")
    told.ask("r2", user("u1", "changed"))
    told.run(2, *text("other"))
    told.show(2)
    told.answer("k1", OK)
    told.show(4)
    assert told.wanted().run is None and told.wanted().wake == told.now + 50
    told.wait(50)
    assert told.wanted().run == 3
    assert endings(told.begin(3)) == [(3, "skipped", "target-not-last")]


def test_a_continuation_is_skipped_when_the_running_turn_used_the_answer() -> None:
    told = streaming("k1")
    told.answer("k1", OK)
    told.emit(1, *text("I saw it"))
    told.finish(1, finish_reason="stop")
    assert endings(told.begin(2)) == [(2, "skipped", "already-answered")]


def test_a_continuation_runs_while_a_call_of_the_stopped_turn_is_open() -> None:
    told = streaming("k1", "k2")
    told.answer("k1", OK)
    told.finish(1, finish_reason="stop")
    assert kinds(told.begin(2)) == ["AttemptStarted"]


def test_a_continuation_runs_when_an_answer_came_after_the_turn_stopped() -> None:
    told = streaming("k1", "k2")
    told.answer("k1", OK)
    told.finish(1, finish_reason="stop")
    told.answer("k2", OK)
    assert kinds(told.begin(2)) == ["AttemptStarted"]


@pytest.mark.parametrize("finish_reason", ["tool-calls", "length", None])
def test_a_continuation_runs_when_the_turn_before_ended_otherwise(finish_reason: str | None) -> None:
    told = streaming("k1")
    told.answer("k1", OK)
    told.finish(1, finish_reason=finish_reason)
    assert kinds(told.begin(2)) == ["AttemptStarted"]


def test_an_answer_to_a_stored_call_continues_a_turn_that_ended_with_stop() -> None:
    told = streaming("k1")
    told.finish(1, finish_reason="stop")
    told.answer("k1", OK)
    assert kinds(told.begin(2)) == ["AttemptStarted"]


def test_a_later_attempt_of_a_continuation_is_not_skipped() -> None:
    told = streaming("k1")
    told.answer("k1", OK)
    told.finish(1, finish_reason="tool-calls")
    told.begin(2)
    told.emit(2, *open_text("half"))
    told.ask("r3", user("u3"))
    assert kinds(told.begin(2, "crash")) == ["Chunk", "AttemptStarted"]


def test_a_continuation_belongs_to_the_generation_that_it_was_accepted_in() -> None:
    told = stored("k1")
    told.clear()
    told.ask("r2", user("u2"))
    told.run(2, call("k2"))
    assert the(TurnAccepted, told.answer("k2", OK)).generation == 1


def test_after_a_clear_no_call_of_before_can_be_answered() -> None:
    told = stored("k1")
    told.clear()
    assert told.answer("k1", OK) == []


def test_answers_do_not_reach_into_a_cleared_turn_for_body_and_tools() -> None:
    told = stored("k1")
    told.clear()
    told.ask("r2", user("u2"))
    told.run(2, call("k2"))
    accepted = the(TurnAccepted, told.answer("k2", OK))
    assert (accepted.body, accepted.client_tools) == (ABSENT, ABSENT)
