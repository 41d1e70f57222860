"""What clients are shown of a conversation while an answer is being written."""

from __future__ import annotations

import json

from everyword.core.conversation import conversation, has_gap, with_reserved
from everyword.core.state import State
from everyword.messages.tool_calls import ApprovalAnswer
from tests.core.histories import user
from tests.core.stage import Stage, open_text, stage, text


def shown(state: State, *, reserve: bool = False) -> list[tuple[str, str, bool]]:
    """Return id, text and mark of the messages, from top to bottom."""
    found = with_reserved(state, conversation(state)) if reserve else conversation(state)
    messages = [(json.loads(body), is_written) for _, body, is_written in found]
    return [
        (message["id"], "".join(part.get("text", "") for part in message["parts"]), is_written)
        for message, is_written in messages
    ]


def waiting() -> Stage:
    """u1 is being answered, u2 and u3 wait."""
    told = stage()
    told.ask("r1", user("u1"))
    told.begin(1)
    told.emit(1, *open_text("so far"))
    told.ask("r2", user("u2"))
    told.ask("r3", user("u3"))
    return told


def test_an_answer_at_the_end_is_left_to_its_stream() -> None:
    told = stage()
    told.ask("r1", user("u1"))
    told.begin(1)
    told.emit(1, *open_text("so far"))
    assert shown(told.state) == [("u1", "hi", False)]
    assert not has_gap(told.state)


def test_a_running_answer_with_a_question_behind_it_is_shown_at_its_place() -> None:
    told = waiting()
    assert shown(told.state) == [
        ("u1", "hi", False),
        ("a-r1", "so far", True),
        ("u2", "hi", False),
        ("u3", "hi", False),
    ]
    assert has_gap(told.state)


def test_an_answer_without_chunks_is_not_shown() -> None:
    told = stage()
    told.ask("r1", user("u1"))
    told.ask("r2", user("u2"))
    told.begin(1)
    told.emit(1, {"type": "start", "messageId": "a-r1"})
    assert shown(told.state) == [("u1", "hi", False), ("u2", "hi", False)]


def test_answers_that_have_not_begun_get_an_empty_message_on_request() -> None:
    told = waiting()
    assert [(name, said) for name, said, _ in shown(told.state, reserve=True)] == [
        ("u1", "hi"),
        ("a-r1", "so far"),
        ("u2", "hi"),
        ("a-r2", ""),
        ("u3", "hi"),
    ]
    told.finish(1)
    told.run(2, *text("two"))
    told.run(3, *text("three"))
    assert shown(told.state, reserve=True) == shown(told.state)
    assert [said for _, said, _ in shown(told.state)] == ["hi", "so far", "hi", "two", "hi", "three"]


def test_an_answer_that_left_nothing_has_no_place() -> None:
    told = stage()
    told.ask("r1", user("u1"))
    told.ask("r2", user("u2"))
    told.run(1)
    assert [name for name, _, _ in shown(told.state, reserve=True)] == ["u1", "u2"]


def test_an_answer_of_another_branch_is_not_shown() -> None:
    told = waiting()
    told.ask("r4", user("u1", "changed"))
    assert [name for name, _, _ in shown(told.state, reserve=True)] == ["u1"]


def test_a_message_that_asks_for_approval_is_shown_as_it_is_now() -> None:
    told = stage()
    told.ask("r1", user("u1"))
    told.begin(1)
    call = {"toolCallId": "k1", "toolName": "pay"}
    told.emit(1, {"type": "start", "messageId": "a-r1"}, {"type": "start-step"})
    told.emit(1, {"type": "tool-input-available", **call, "input": {}})
    told.emit(1, {"type": "tool-approval-request", "toolCallId": "k1", "approvalId": "p1"})
    told.ask("r2", user("u2"))
    told.emit(1, *open_text("and more"))
    told.answer("k1", ApprovalAnswer(approved=True))
    assert shown(told.state) == [("u1", "hi", False), ("a-r1", "and more", True), ("u2", "hi", False)]
    (_, body, _) = conversation(told.state)[1]
    states = [part.get("state") for part in json.loads(body)["parts"] if "toolCallId" in part]
    assert states == ["approval-responded"]
