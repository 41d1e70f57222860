"""The calls that wait for an approval: what is kept of them, and what a rebuild finds after chunks were deleted."""

from __future__ import annotations

from everyword.core.commands import RequestApproval
from everyword.core.evolve import evolve
from everyword.core.project import project
from everyword.core.state import State
from everyword.events import Chunk
from everyword.ids import Attempt, CallId, TurnId
from everyword.messages.tool_calls import ApprovalAnswer, OutputAnswer
from everyword.rows import SETTLED, ApprovalRecord, decode_listed
from tests.core.histories import Rows, user
from tests.core.stage import Stage, approval, call, stage


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
