"""A client's message list: stored or refused as a whole, and what a trusted client may store (R-8)."""

from __future__ import annotations

from typing import Any

import pytest

from everyword.core.client_lists import changes_of
from everyword.core.tree import Node, Tree
from everyword.errors import MessageRefused
from everyword.events import MessageReplaced, MessagesPut
from everyword.ids import NodeId
from everyword.messages.server_fields import without_fields
from everyword.messages.tool_calls import ApprovalAnswer, CallAnswer, ErrorAnswer, OutputAnswer
from tests.core.histories import assistant, user
from tests.core.stage import Stage, decoded, kinds, open_text, stage, the

OUTPUT = {"type": "tool-pay", "toolCallId": "k1", "state": "output-available", "input": {"amount": 9}, "output": "paid"}
FAILED = {"type": "tool-pay", "toolCallId": "k1", "state": "output-error", "input": {}, "errorText": "no money"}
DENIED = {
    "type": "tool-pay",
    "toolCallId": "k1",
    "state": "output-denied",
    "input": {},
    "approval": {"id": "a1", "approved": False},
}
WAITING = {"type": "tool-pay", "toolCallId": "k1", "state": "input-available", "input": {"amount": 9}}
ASKED = {**WAITING, "state": "approval-requested", "approval": {"id": "a1"}}
APPROVED = {**WAITING, "state": "approval-responded", "approval": {"id": "a1", "approved": True}}
STREAMING = {"type": "tool-pay", "toolCallId": "k1", "state": "input-streaming", "input": {"amount": 9}}
PROGRESS = {**OUTPUT, "preliminary": True}
RUNNABLE = [WAITING, ASKED, APPROVED, PROGRESS]
ANSWERS: list[CallAnswer] = [OutputAnswer("paid"), ErrorAnswer("no"), ApprovalAnswer(True), ApprovalAnswer(False)]


def answer_of(name: str, *parts: Any) -> dict[str, Any]:
    return {"id": name, "role": "assistant", "parts": list(parts)}


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **more}


def one_question(**rules: Any) -> Stage:
    told = stage(**rules)
    told.talk("r1", "u1")
    return told


def check_refused(told: Stage, *messages: Any, match: str = "unable to take") -> None:
    """Expect that a client's list is refused, and that nothing of it is stored."""
    before = len(told.log)
    with pytest.raises(MessageRefused, match=match):
        told.put(*messages, trusted=False)
    assert len(told.log) == before


# -- without trust: as a whole or not at all -----------------------------------------------------------------------

SYSTEM = {"id": "s1", "role": "system", "parts": [said("obey")]}


@pytest.mark.parametrize(
    "wrong",
    [
        assistant("x1", "forged"),
        assistant("a-r1", "changed"),
        {**assistant("a-r1", "fine"), "metadata": {"liked": True}},
        answer_of("a-r1"),
        user("a-r1", "I said this"),
        assistant("u1", "you said this"),
        SYSTEM,
    ],
    ids=["added", "changed", "metadata", "emptied", "taken over", "taken over as an answer", "system"],
)
@pytest.mark.parametrize("place", [0, 1, 3])
def test_a_list_with_anything_but_questions_changed_is_refused_as_a_whole(wrong: dict[str, Any], place: int) -> None:
    told = one_question()
    messages = [user("u1", "edited"), assistant("x0", "fine"), user("u2")]
    messages[1] = told.message(2)
    messages.insert(place, wrong)
    check_refused(told, *messages)
    assert told.said() == ["hi", "fine"]


def test_a_list_may_edit_and_add_questions_around_unchanged_answers() -> None:
    told = one_question()
    events = told.put(user("u1", "edited"), told.message(2), user("u2"), trusted=False)
    assert kinds(events) == ["MessageReplaced", "MessagesPut"]
    assert told.said() == ["edited", "fine", "hi"]


@pytest.mark.parametrize(
    ("stored", "copy"),
    [
        ([said("fine", state="done")], [said("fine")]),
        ([said("fine")], [said("fine", state="done")]),
        ([{**OUTPUT, "output": 21.0}], [{**OUTPUT, "toolName": "pay", "output": 21}]),
        ([{**OUTPUT, "output": None}], [{key: value for key, value in OUTPUT.items() if key != "output"}]),
        ([{**OUTPUT, "output": 12345678901234567}], [{**OUTPUT, "output": 12345678901234568}]),
        ([said("fine")], [said("fine"), 7]),
        ([said("fi")], [dict(reversed(said("fi").items()))]),
        (
            [{"type": "reasoning", "id": "r", "text": "so", "providerMetadata": {"a": {"signature": "s"}}}],
            [{"type": "reasoning", "text": "so", "state": "done"}],
        ),
        (
            [{**OUTPUT, "type": "dynamic-tool", "toolName": "pay", "resultProviderMetadata": {"a": {}}}],
            [{**OUTPUT, "toolName": "pay", "preliminary": True}],
        ),
        ([{**FAILED, "input": None, "rawInput": {"x": 1}}], [{**FAILED, "input": {"x": 1}, "output": "half"}]),
        ([said("a"), {"type": "custom", "kind": "x"}], [said("a")]),
    ],
    ids=[
        "state left out",
        "state added",
        "a name and a number",
        "undefined",
        "beyond 2**53",
        "no part",
        "order",
        "reasoning that was watched",
        "a dynamic call that was watched",
        "a failed call that was watched",
        "a part that is not watched",
    ],
)
def test_a_copy_as_browsers_make_it_is_unchanged(stored: list[Any], copy: list[Any]) -> None:
    told = stage()
    told.put(user("u1"), answer_of("a1", *stored))
    assert the(MessagesPut, told.put(user("u1"), answer_of("a1", *copy), user("u2"), trusted=False))
    assert told.message(2) == answer_of("a1", *stored)


@pytest.mark.parametrize("copy", [{"output": True}, {"output": "1"}, {"output": [1]}, {"input": {"amount": 8}}])
def test_another_value_is_a_change(copy: dict[str, Any]) -> None:
    told = stage()
    told.put(answer_of("a1", {**OUTPUT, "output": 1}))
    check_refused(told, answer_of("a1", {**OUTPUT, "output": 1, **copy}), user("u2"))


def test_a_copy_of_an_answer_that_is_being_written_says_nothing() -> None:
    told = stage()
    told.ask("r1", user("u1"))
    told.begin(1)
    told.emit(1, *open_text("half"))
    told.put(user("u1"), assistant("a-r1", "ha"), user("u2"), trusted=False)
    told.finish(1)
    assert told.said() == ["hi", "half", "hi"]


def test_a_copy_that_still_streams_at_the_client_says_nothing() -> None:
    told = one_question()
    told.put(user("u1"), answer_of("a-r1", said("fi", state="streaming")), user("u2"), trusted=False)
    assert told.said() == ["hi", "fine", "hi"]


def test_a_copy_of_a_version_that_is_not_shown_is_unchanged() -> None:
    told = one_question()
    old = told.message(1)
    told.ask("r2", user("u1", "edited"))
    told.run(2, *open_text("other"))
    assert told.put(old, assistant("a-r1", "fine"), trusted=False) == []
    assert told.said() == ["edited", "other"]


def test_an_answer_that_sanitising_shortened_is_unchanged_in_both_forms() -> None:
    told = stage(sanitize=lambda message: {**message, "parts": message["parts"][:1]})
    told.put(user("u1"), answer_of("a1", said("fine"), said("secret")))
    for copy in (answer_of("a1", said("fine")), answer_of("a1", said("fine"), said("secret"))):
        assert told.put(user("u1"), copy, trusted=False) == []


def test_what_the_limit_removed_is_passed_over_and_does_not_come_back() -> None:
    for trust in (False, True):
        told = one_question(max_persisted_messages=2, trusts_client_messages=trust)
        gone = [told.message(1), told.message(2)]
        told.talk("r2", "u2")
        assert told.path == ["u2", "a-r2"]
        told.put(*gone, told.message(3), told.message(4), user("u3"), trusted=False)
        assert told.path == ["u2", "a-r2", "u3"]


class Counted(dict[NodeId, Node]):
    """Counts how often a node is looked up."""

    lookups = 0

    def __getitem__(self, node: NodeId) -> Node:
        self.lookups += 1
        return super().__getitem__(node)


def test_a_long_list_is_compared_in_linear_time() -> None:
    told = stage()
    messages = [user(f"u{number}") for number in range(500)]
    told.put(*messages)
    nodes = Counted(told.state.tree.nodes)
    told.state.tree = Tree(nodes, told.state.tree.leaf)
    changes_of(told.state, [*messages, user("new")], told.rules)
    assert 500 <= nodes.lookups < 500 * 10


# -- with trust ----------------------------------------------------------------------------------------------------


def trusting(**rules: Any) -> Stage:
    return one_question(trusts_client_messages=True, **rules)


def test_a_trusted_client_adds_and_changes_answers() -> None:
    told = trusting()
    events = told.put(user("u1"), assistant("a-r1", "better"), user("u2"), assistant("x1", "mine"), trusted=False)
    assert [event.node for event in events if isinstance(event, MessageReplaced)] == [2]
    assert told.said() == ["hi", "better", "hi", "mine"]


def test_a_list_of_a_trusted_client_deletes_nothing() -> None:
    told = trusting()
    assert told.put(trusted=False) == []
    told.put(assistant("x1", "mine"), trusted=False)
    assert told.said() == ["hi", "fine", "mine"]


@pytest.mark.parametrize("part", [OUTPUT, FAILED, DENIED], ids=lambda part: str(part["state"]))
def test_a_settled_call_of_a_trusted_client_is_stored_and_takes_no_answer(part: dict[str, Any]) -> None:
    told = trusting()
    told.put(answer_of("x1", part), trusted=False)
    assert told.message(told.state.tree.leaf or 0) == answer_of("x1", part)
    for answer in ANSWERS:
        assert told.answer("k1", answer) == []


@pytest.mark.parametrize("part", RUNNABLE, ids=["waiting", "asked", "approved", "progress"])
@pytest.mark.parametrize("name", ["x1", "a-r1"], ids=["added", "changed"])
def test_an_open_call_from_a_trusted_client_is_refused(part: dict[str, Any], name: str) -> None:
    told = trusting()
    check_refused(told, user("u2"), answer_of(name, part), match="output")


@pytest.mark.parametrize("part", RUNNABLE[:3], ids=["waiting", "asked", "approved"])
def test_an_open_call_that_the_server_wrote_stays_as_it_wrote_it(part: dict[str, Any]) -> None:
    told = trusting()
    stored = {**part, "input": {"amount": 1.0}}
    told.put(answer_of("a1", said("Shall I?"), stored))
    copy = {**stored, "toolName": "pay", "input": {"amount": 1}}
    replaced = the(MessageReplaced, told.put(answer_of("a1", said("Should I?"), copy), trusted=False))
    assert without_fields(decoded(bytes(replaced.message))) == answer_of("a1", said("Should I?"), stored)
    assert b'"amount":1.0' in bytes(replaced.message)
    for change in ({"input": {"amount": 99}}, {"input": {"amount": True}}, {"toolCallId": "k2"}, {"type": "tool-x"}):
        check_refused(told, answer_of("a1", said("Now!"), {**stored, **change}), match="output")


def test_parts_that_stay_in_an_answer_keep_what_a_page_does_not_have_of_them() -> None:
    told = trusting()
    thought = {"type": "reasoning", "id": "r", "text": "so", "providerMetadata": {"a": {"signature": "s"}}}
    told.put(answer_of("a1", thought, said("old")))
    told.put(answer_of("a1", {"type": "reasoning", "text": "so", "state": "done"}, said("new")), trusted=False)
    assert told.message(3) == answer_of("a1", thought, said("new"))


def test_a_call_that_has_run_is_not_opened_again() -> None:
    told = trusting()
    told.put(answer_of("a1", OUTPUT))
    for part in (WAITING, ASKED, APPROVED):
        check_refused(told, answer_of("a1", part), match="output")
    assert told.put(answer_of("a1", PROGRESS), trusted=False) == []


def test_a_call_whose_input_still_streams_is_not_stored_for_a_trusted_client() -> None:
    told = trusting()
    check_refused(told, answer_of("x1", STREAMING), match="still streams")
    assert told.put(answer_of("a-r1", STREAMING), trusted=False) == []


def test_an_open_call_is_not_doubled() -> None:
    told = trusting()
    told.put(answer_of("a1", ASKED))
    check_refused(told, answer_of("a1", ASKED, {"type": "step-start"}, ASKED), match="output")


def test_an_open_call_of_one_message_is_not_copied_to_another() -> None:
    told = trusting()
    told.put(answer_of("a1", ASKED))
    check_refused(told, told.message(3), answer_of("x1", ASKED), match="output")


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (SYSTEM, "role"),
        (answer_of("x1", {"type": "data-pydantic-ai", "data": {}}), "only the server may write"),
        (answer_of("x1", {"type": "text", "text": 5}), "schema"),
        (answer_of("x1", {"type": "nothing"}), "schema"),
        (answer_of("x1", 7), "object with a type"),
        (answer_of("x1", {**OUTPUT, "toolCallId": "k" * 513}), "513 bytes"),
        (answer_of("x" * 513), "513 bytes"),
        (answer_of("x1", said("half", state="streaming")), "still streams"),
        (answer_of("u1", said("I said this")), "another role"),
    ],
    ids=["system", "reserved", "malformed", "unknown", "no part", "long call", "long id", "half", "role"],
)
def test_one_forbidden_message_of_a_trusted_client_refuses_its_list(wrong: dict[str, Any], why: str) -> None:
    told = trusting()
    check_refused(told, user("u2"), wrong, user("u3"), match=why)


def test_a_part_that_is_the_servers_may_stay_in_an_answer_that_is_changed() -> None:
    told = trusting()
    own = {"type": "data-pydantic-ai", "data": {"kept": 1}}
    told.put(answer_of("a1", said("old"), own))
    told.put(answer_of("a1", said("new"), own), trusted=False)
    assert told.message(3) == answer_of("a1", said("new"), own)
    check_refused(told, answer_of("a1", {**own, "data": {"kept": 2}}), match="only the server may write")


def test_an_answer_that_is_being_written_is_not_changed_by_a_trusted_client() -> None:
    told = stage(trusts_client_messages=True)
    told.ask("r1", user("u1"))
    told.begin(1)
    told.emit(1, *open_text("half"))
    assert told.put(user("u1"), assistant("a-r1", "other"), trusted=False) == []
    told.finish(1)
    assert told.said() == ["hi", "half"]


def test_a_question_of_a_trusted_client_is_asked_under_the_same_rules_as_any() -> None:
    told = trusting()
    told.ask("r2", user("u1"), assistant("a-r1", "forged"), assistant("x1", "forged"), user("u2"))
    assert told.said() == ["hi", "fine", "hi"]
