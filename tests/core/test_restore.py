"""Loading an agent from its rows: unreadable rows are reported and left out, all others are loaded."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw

from everyword.core.restore import restore
from everyword.core.state import State
from everyword.core.transitions import TurnStatus
from everyword.events import Chunk, HookDone, encode_event
from everyword.ids import Attempt, Millis, NodeId, TurnId
from everyword.messages.tool_calls import ApprovalAnswer, OutputAnswer
from everyword.rows import MessageRow, TurnRow
from tests.core.histories import fingerprint, user
from tests.core.stage import Stage, approval, call, decoded, kinds, open_text, stage, states, text

UNREADABLE = [
    b"",
    b"{",
    b"null",
    b"[]",
    b'"\xff"',
    b"[" * 100_000,
    b"{}",
    b'{"id":"m","role":"assistant"}',
    b'{"id":"m","role":"assistant","parts":{}}',
    b'{"role":"assistant","parts":[]}',
    b'{"id":"m","role":"wizard","parts":[]}',
]


def damaged(
    told: Stage, node: int, *, body: bytes | None = None, draft: bytes | None = None
) -> tuple[State, list[str]]:
    """Load an agent after changing one of its message rows."""
    row = told.rows.messages[NodeId(node)]
    told.rows.messages[NodeId(node)] = msgspec.structs.replace(row, body=body, draft=draft)
    return told.restored()


def damaged_turn(told: Stage, turn: int, **changes: object) -> tuple[State, list[str]]:
    row = told.rows.turns[TurnId(turn)]
    told.rows.turns[TurnId(turn)] = msgspec.structs.replace(row, **changes)
    return told.restored()


def ids(state: State) -> list[str]:
    return [node.id for _, node in state.tree.shown_path()]


def test_no_rows_are_an_empty_agent() -> None:
    state, problems = restore(None, [], [], [])
    assert fingerprint(state) == fingerprint(State())
    assert list(problems) == []


def test_an_agent_in_the_middle_of_everything_is_loaded_as_it_was() -> None:
    told = stage(has_response_hook=True)
    told.talk("r1", "u1")
    told.clear()
    told.talk("r2", "u2")
    told.ask("r3", user("u3"))
    told.begin(3)
    told.emit(3, call("k1"), call("k2"), approval("k1"), *open_text("meanwhile"))
    told.answer("k1", ApprovalAnswer(True))
    told.answer("k2", OutputAnswer(1))
    told.begin(3, "crash")
    told.ask("r4", user("u4"), policy="debounce")
    told.defer("r5")
    told.open_stream("s1")
    told.cancel("r3")
    state, problems = told.restored()
    assert problems == []
    assert fingerprint(state) == fingerprint(told.state)


# -- messages ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", UNREADABLE, ids=lambda body: repr(body[:40]))
def test_a_message_that_cannot_be_read_is_reported_and_left_out(body: bytes) -> None:
    told = stage()
    told.talk("r1", "u1")
    told.talk("r2", "u2")
    state, problems = damaged(told, 2, body=body)
    (problem,) = problems
    assert "'a-r1'" in problem
    assert "node 2" in problem
    assert ids(state) == ["u1", "u2", "a-r2"]


def test_a_draft_that_cannot_be_read_is_reported_and_left_out() -> None:
    told = stage()
    told.ask("r1", user("u1"))
    state, problems = damaged(told, 2, draft=b"{")
    assert len(problems) == 1
    assert ids(state) == ["u1"]


def test_the_agent_goes_on_without_the_message_that_was_left_out() -> None:
    told = stage()
    told.talk("r1", "u1")
    told.state, _ = damaged(told, 2, body=b"{")
    told.talk("r2", "u2")
    assert told.path == ["u1", "u2", "a-r2"]


def test_a_continuation_of_an_unreadable_message_starts_empty() -> None:
    told = stage()
    told.talk("r1", "u1")
    told.go_on("c1")
    told.begin(2)
    state, problems = damaged(told, 2, body=b'{"parts":[]}')
    assert len(problems) == 1
    fold = state.open[TurnId(2)].fold
    assert fold is not None
    assert fold.is_empty


# -- drafts ------------------------------------------------------------------------------------------------


def test_a_draft_is_shown_before_the_message_that_it_extends() -> None:
    told = stage()
    told.talk("r1", "u1")
    told.go_on("c1")
    told.begin(2)
    told.emit(2, call("k1"), approval("k1"))
    node = told.restored()[0].tree.nodes[NodeId(2)]
    assert node.body is not None
    assert node.shown is not None
    assert states(decoded(node.shown)) == {"k1": "approval-requested"}
    assert states(decoded(node.body)) == {}


def test_an_answer_given_before_the_crash_is_in_the_draft_after_it() -> None:
    told = stage()
    told.ask("r1", user("u1"))
    told.begin(1)
    told.emit(1, call("k1"), approval("k1"))
    told.answer("k1", ApprovalAnswer(False, "no"), auto_continue=False)
    draft = told.restored()[0].tree.nodes[NodeId(2)].draft
    assert draft is not None
    assert states(decoded(draft)) == {"k1": "output-denied"}


# -- turns -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"accepted": b"{"},
        {"accepted": b'"\xff"'},
        {"accepted": b'{"t":"unheard-of"}'},
        {"accepted": encode_event(HookDone(TurnId(1)))},
        {"status": "sleeping"},
    ],
    ids=repr,
)
def test_a_turn_that_cannot_be_read_is_reported_and_left_out(changes: dict[str, object]) -> None:
    told = stage()
    told.talk("r1", "u1")
    told.ask("r2", user("u2"))
    state, problems = damaged_turn(told, 2, **changes)
    (problem,) = problems
    assert problem.startswith("unable to read turn 2; ")
    assert (list(state.ended), list(state.open)) == ([1], [])
    assert ids(state) == ["u1", "a-r1", "u2"]


def test_a_request_whose_turn_cannot_be_read_is_still_not_accepted_twice() -> None:
    told = stage()
    told.ask("r1", user("u1"))
    told.state, _ = damaged_turn(told, 1, accepted=b"{")
    assert told.ask("r1", user("u1")) == []
    assert kinds(told.ask("r2", user("u2"))) == ["TurnAccepted"]


def test_turn_numbers_go_on_where_they_were() -> None:
    told = stage()
    told.talk("r1", "u1")
    told.ask("r2", user("u2"), policy="drop")
    told.state, _ = told.restored()
    told.ask("r3", user("u3"))
    assert (told.state.last_turn, told.state.tree.last_node) == (3, 6)


@pytest.mark.parametrize("is_cancelling", [True, False])
def test_an_open_turn_is_loaded_with_its_message_and_status(*, is_cancelling: bool) -> None:
    told = stage()
    told.ask("r1", user("u1"))
    told.begin(1)
    told.emit(1, *open_text("half"))
    if is_cancelling:
        told.cancel("r1")
    turn = told.restored()[0].open[TurnId(1)]
    assert turn.fold is not None
    assert turn.fold.message().text == "half"
    assert (turn.chunks, turn.attempt) == (2, 1)
    assert turn.status is (TurnStatus.CANCELLING if is_cancelling else TurnStatus.RUNNING)


def test_chunks_of_turns_that_have_ended_are_passed_over() -> None:
    told = stage()
    told.ask("r1", user("u1"))
    told.run(1, *text("done"))
    streamed = [(at, event) for event, at in told.log]
    state, problems = restore(told.rows.agent, told.rows.turns.values(), told.rows.messages.values(), streamed)
    assert list(problems) == []
    assert fingerprint(state) == fingerprint(told.state)


def test_the_end_of_a_turn_is_restored_completely() -> None:
    told = stage(has_response_hook=True)
    told.ask("r1", user("u1"))
    told.begin(1)
    told.emit(1, *text("x"))
    told.finish(1, error="shown", detail="hidden", reason="because", finish_reason="length")
    turn = told.restored()[0].ended[TurnId(1)]
    assert (turn.error, turn.detail, turn.reason, turn.finish_reason) == ("shown", "hidden", "because", "length")
    assert (turn.chunks, turn.hook_due, turn.ended_at) == (3, True, told.now)


def test_rows_need_no_order() -> None:
    told = stage()
    told.talk("r1", "u1")
    told.talk("r2", "u2")
    turns: list[TurnRow] = sorted(told.rows.turns.values(), key=lambda row: -row.turn)
    messages: list[MessageRow] = sorted(told.rows.messages.values(), key=lambda row: -row.node)
    state, _ = restore(told.rows.agent, turns, messages, [])
    assert ids(state) == told.path


def test_an_unreadable_chunk_is_reported_and_the_others_are_applied() -> None:
    told = stage()
    told.ask("r1", user("u1"))
    told.begin(1)
    told.emit(1, *open_text("half"))
    odd = Chunk(TurnId(1), Attempt(1), 2, Raw(b"[1]"))
    state, problems = restore(
        told.rows.agent,
        told.rows.turns.values(),
        told.rows.messages.values(),
        [*((at, e) for e, at in told.log), (Millis(9), odd)],
    )
    (problem,) = problems
    assert problem.startswith("unable to fold a stored chunk of turn 1; ")
    fold = state.open[TurnId(1)].fold
    assert fold is not None
    assert fold.message().text == "half"
