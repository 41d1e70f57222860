"""The calls that wait for an approval: what is kept of them, and what a rebuild finds after chunks were deleted."""

from __future__ import annotations

import msgspec
import pytest

from everyword.core.commands import RequestApproval
from everyword.core.evolve import evolve
from everyword.core.project import project
from everyword.core.state import State
from everyword.core.waiting_approvals import EXPIRED, requests_at
from everyword.events import CallAnswered, Chunk, Event, Identity
from everyword.ids import Attempt, CallId, Millis, NodeId, TurnId
from everyword.messages.tool_calls import ApprovalAnswer, OutputAnswer
from everyword.rows import SETTLED, ApprovalRecord, decode_listed
from tests.core.histories import Rows, user
from tests.core.stage import Stage, approval, call, kinds, pick, stage

YES, NO = ApprovalAnswer(True), ApprovalAnswer(False)


def asking(*, amount: int = 5, expires_at: int | None = None) -> Stage:
    """Turn 1 (node 2) has asked for an approval of `k` by the boss, and has ended."""
    told = stage()
    told.ask("r", user("u"))
    ask_for_k(told, 1, amount, expires_at)
    return told


def ask_for_k(told: Stage, turn: int, amount: int, expires_at: int | None = None) -> None:
    until = Millis(expires_at) if expires_at is not None else None
    told.begin(turn)
    told.emit(turn, {**call("k"), "input": {"amount": amount}})
    told.tell(RequestApproval(TurnId(turn), Attempt(1), CallId("k"), "look", approvers=["boss"], expires_at=until))
    told.emit(turn, approval("k"))
    told.finish(turn)


def rebuilt(told: Stage) -> Rows:
    """Return the rows that the log implies without its chunks."""
    state, rows = State(), Rows()
    for event, at in told.log:
        if not isinstance(event, Chunk):
            evolve(state, event, at)
            rows.apply(project(state, event))
    return rows


def test_a_result_for_a_repeated_id_leaves_the_call_that_waits_as_it_was_asked() -> None:
    told = stage()
    told.ask("r", user("u"))
    told.begin(1)
    told.emit(1, call("k"))
    told.tell(RequestApproval(TurnId(1), Attempt(1), CallId("k"), "look", approvers=["boss"]))
    told.emit(1, approval("k"))
    asked = told.state.waiting[CallId("k")]
    told.wait(1000)
    told.emit(1, {"type": "start-step"}, call("k"))  # the model repeats the id, for a call that needs no approval
    told.answer("k", OutputAnswer(5))
    told.finish(1)
    record = told.state.waiting[CallId("k")]
    assert (record.status, record.approvers, record.asked_at) == ("waiting", ["boss"], asked.asked_at)
    assert rebuilt(told).kept == told.rows.kept


def test_the_record_of_an_approval_keeps_the_arguments_when_its_chunks_are_deleted() -> None:
    told = stage()
    told.ask("r", user("u"))
    told.begin(1)
    told.emit(1, call("k"), approval("k"))
    asked = told.state.waiting[CallId("k")].input
    told.answer("k", ApprovalAnswer(True, reason="fine"))
    told.finish(1)
    ((_, settled),) = [(place, row) for place, row in rebuilt(told).listed.items() if place[0] == SETTLED]
    record = decode_listed(settled.body or b"", ApprovalRecord)
    assert (bytes(record.input), record.status, record.reason) == (bytes(asked), "approved", "fine")
    assert rebuilt(told).listed == told.rows.listed


def test_a_result_instead_of_an_approval_ends_the_waiting() -> None:
    told = stage()
    told.ask("r", user("u"))
    told.begin(1)
    told.emit(1, call("k"), approval("k"))
    assert [each.status for each in told.state.waiting.values()] == ["waiting"]
    told.answer("k", OutputAnswer(5))
    assert told.state.waiting == {}
    told.finish(1)
    assert rebuilt(told).kept == told.rows.kept


def test_an_approval_that_nobody_was_asked_for_settles_nothing() -> None:
    told = stage()
    told.ask("r", user("u"))
    told.begin(1)
    told.emit(1, call("k"), approval("k"))
    told.answer("k", OutputAnswer(5))
    told.emit(1, {"type": "start-step"}, call("k"))  # the model repeats the id, for a call that needs no approval
    told.answer("k", ApprovalAnswer(False, "no"))
    told.finish(1)
    assert not [row for row in told.rows.listed.values() if row.kind == SETTLED]
    assert rebuilt(told).listed == told.rows.listed


@pytest.mark.parametrize("answer", [YES, NO])
def test_a_call_that_nobody_was_asked_about_takes_no_approval(answer: ApprovalAnswer) -> None:
    told = stage()
    told.ask("r", user("u"))
    told.begin(1)
    told.emit(1, call("k"))
    assert told.answer("k", answer) == []  # who may approve it is decided when it is announced
    told.tell(RequestApproval(TurnId(1), Attempt(1), CallId("k"), "look", approvers=["boss"]))
    assert told.answer("k", answer) == []
    told.finish(1)
    assert told.answer("k", answer) == []


def twice_asked() -> tuple[Stage, ApprovalRecord, ApprovalRecord]:
    """The question was edited while its call waited, and the model repeated the id; return both requests."""
    told = asking(amount=5)
    told.wait(1)
    told.ask("r2", user("u", "more"))
    ask_for_k(told, 2, amount=5000)
    first, second = sorted(told.state.waiting.values(), key=lambda each: each.node)
    assert (bytes(first.input), bytes(second.input)) == (b'{"amount":5}', b'{"amount":5000}')
    assert first.approvers == second.approvers == ["boss"]
    return told, first, second


def inputs(events: list[Event]) -> list[bytes]:
    return [bytes(each.input) for each in pick(CallAnswered, events)]


def test_calls_of_two_branches_with_one_id_wait_and_are_answered_one_by_one() -> None:
    told, first, second = twice_asked()
    assert inputs(told.answer("k", YES, asked=first)) == [b'{"amount":5}']
    assert told.answer("k", YES, asked=first) == []
    assert inputs(told.answer("k", NO, "c2", asked=second)) == [b'{"amount":5000}']
    assert told.state.waiting == {}
    settled = [decode_listed(row.body, ApprovalRecord) for row in told.rows.listed.values() if row.kind == SETTLED]
    assert [(each.status, bytes(each.input)) for each in settled] == [
        ("approved", b'{"amount":5}'),
        ("denied", b'{"amount":5000}'),
    ]


def test_an_answer_that_names_no_request_is_for_the_call_that_is_shown() -> None:
    told, first, second = twice_asked()
    told.show(2)  # the first branch again
    assert inputs(told.answer("k", NO)) == [b'{"amount":5}']
    assert list(told.state.waiting.values()) == [second]
    told, first, _ = twice_asked()
    assert inputs(told.answer("k", NO)) == [b'{"amount":5000}']
    assert list(told.state.waiting.values()) == [first]
    assert inputs(told.answer("k", NO, "c2")) == [b'{"amount":5}']  # no other one waits
    told, *_ = twice_asked()
    told.ask("r3", user("u", "less"))  # both are hidden
    assert inputs(told.answer("k", NO)) == [b'{"amount":5000}']


def test_of_the_calls_that_are_shown_an_answer_is_for_the_last_one_that_waits() -> None:
    told = asking(amount=5)
    told.ask("r2", user("u2"))
    ask_for_k(told, 2, amount=6)
    assert inputs(told.answer("k", NO)) == [b'{"amount":6}']
    assert inputs(told.answer("k", NO, "c2")) == [b'{"amount":5}']
    told = asking(amount=5)
    told.ask("r2", user("u2"))
    told.begin(2)
    told.emit(2, {**call("k"), "input": {"amount": 6}})
    told.tell(RequestApproval(TurnId(2), Attempt(1), CallId("k"), "look", approvers=["boss"]))
    assert inputs(told.answer("k", NO)) == [b'{"amount":5}']  # nobody is asked about the other one yet


def test_an_approval_that_was_allowed_for_another_request_changes_nothing() -> None:
    told, first, second = twice_asked()
    assert told.answer("k", YES, asked=None) == []  # it was allowed when nobody was asked
    changed = msgspec.structs.replace(second, input=msgspec.Raw(b'{"amount":5}'))
    assert told.answer("k", YES, asked=changed) == []
    assert told.state.waiting == {"k": second, "k@2": first}


def test_requests_with_one_id_are_the_same_after_a_restart_and_a_rebuild() -> None:
    told, *_ = twice_asked()
    assert told.restored()[0].waiting == told.state.waiting
    assert rebuilt(told).kept == told.rows.kept
    told.answer("k", NO)
    assert told.restored()[0].waiting == told.state.waiting
    assert rebuilt(told).kept == told.rows.kept


def test_a_copy_asks_the_same_people_until_the_same_time() -> None:
    told, copy = asking(expires_at=stage().now + 100), stage()
    (asked,) = told.state.waiting.values()
    messages = [told.message(1), told.message(2)]
    copy.put(*messages, is_copy=True, requests=requests_at(told.state, {NodeId(1), NodeId(2)}))
    (copied,) = copy.state.waiting.values()
    assert (copied.status, copied.node, bytes(copied.input)) == ("waiting", 2, bytes(asked.input))
    assert (copied.approvers, copied.expires_at, copied.asked_by) == (["boss"], asked.expires_at, asked.asked_by)
    assert rebuilt(copy).kept == copy.rows.kept
    copy.wait(100)
    assert copy.wanted().expired == (copied,)


def test_an_answer_after_the_time_is_over_is_left_to_the_expiry() -> None:
    told = asking(expires_at=stage().now + 100)
    told.wait(100)
    assert told.answer("k", YES) == []
    assert told.answer("k", YES, by=EXPIRED, principal=Identity("x")) == []
    assert kinds(told.answer("k", NO, by=EXPIRED))[0] == "CallAnswered"
    told = asking(expires_at=stage().now + 100)
    told.wait(99)
    assert kinds(told.answer("k", YES))[0] == "CallAnswered"


def test_a_call_of_an_agent_that_works_as_a_tool_is_denied_and_never_approved() -> None:
    told = stage()
    told.ask("agent-tool:r", user("u"), trusted=True)
    told.begin(1)
    told.emit(1, call("k"), approval("k"))
    assert told.answer("k", YES) == []
    told.finish(1)
    assert told.answer("k", YES) == []
    assert kinds(told.answer("k", NO))[0] == "CallAnswered"


def test_the_request_id_of_a_client_does_not_make_its_turn_one_of_a_tool() -> None:
    told = stage()
    told.ask("agent-tool:r", user("u"))
    told.begin(1)
    told.emit(1, call("k"), approval("k"))
    assert kinds(told.answer("k", YES))[0] == "CallAnswered"


def test_a_request_that_is_left_when_its_id_was_answered_is_found_again_by_a_rebuild() -> None:
    told = stage()
    told.ask("r", user("u"))
    told.begin(1)
    told.emit(1, call("k"), approval("k"), {"type": "start-step"}, call("k"), approval("k"))
    told.wait(1000)
    told.answer("k", YES)
    told.wait(1000)
    told.finish(1)
    assert [each.status for each in told.state.waiting.values()] == ["waiting"]
    assert rebuilt(told).kept == told.rows.kept


def test_the_end_of_the_turn_changes_nothing_of_what_is_asked() -> None:
    told = stage()
    told.ask("r", user("u"))
    told.begin(1)
    given = {"b": 5.0, "a": [2**60, 1e-7, None, True], "z": "\u00e4\u2028\U0001f600", "n": {}}
    told.emit(1, {**call("k"), "input": given}, approval("k"))
    (asked,) = told.state.waiting.values()
    told.finish(1)
    assert list(told.state.waiting.values()) == list(told.restored()[0].waiting.values()) == [asked]
    assert kinds(told.answer("k", YES, asked=asked))[0] == "CallAnswered"
