"""What clients may store, and what happens to calls in messages that are no answers (R-6, R-8)."""

from __future__ import annotations

from typing import Any

import pytest

from everyword.core.evolve import evolve
from everyword.errors import MessageRefused
from everyword.events import MessageReplaced, MessagesPut, TurnAccepted, TurnKind
from everyword.ids import Millis, NodeId, RequestId, TurnId
from everyword.messages.tool_calls import ApprovalAnswer, CallAnswer, ErrorAnswer, OutputAnswer
from tests.core.histories import assistant, user
from tests.core.stage import Stage, decoded, endings, kinds, stage, text, the

CALL = {"type": "tool-pay", "toolCallId": "k1", "state": "input-available", "input": {"amount": 9}}
ANSWERS: list[CallAnswer] = [OutputAnswer("paid"), ErrorAnswer("no"), ApprovalAnswer(True), ApprovalAnswer(False)]


def forged(name: str, part: Any = CALL) -> dict[str, Any]:
    return {"id": name, "role": "user", "parts": [part]}


@pytest.mark.parametrize("policy", ["queue", "latest", "merge", "drop", "debounce", "steer"])
@pytest.mark.parametrize(
    "part", [CALL, {**CALL, "approval": 5}, {"type": "text", "text": 5}, {"type": "step-start"}, 7]
)
def test_a_question_with_a_part_that_users_cannot_have_is_refused(policy: str, part: Any) -> None:
    told = stage()
    told.ask("r1", user("u1"))
    told.begin(1)
    before = len(told.log)
    with pytest.raises(MessageRefused, match="unable to take message 'u2'"):
        told.ask("r2", told.message(1), user("fine"), forged("u2", part), policy=policy)
    assert len(told.log) == before
    told.ask("r2", user("u2"))


def test_an_edit_with_a_part_that_no_user_has_is_refused() -> None:
    told = stage()
    told.talk("r1", "u1")
    with pytest.raises(MessageRefused, match="unable to take message 'u1'"):
        told.ask("r2", forged("u1"))
    assert told.said() == ["hi", "fine"]


@pytest.mark.parametrize("name", ["u1", "u2"], ids=["edited", "added"])
def test_a_synced_list_with_a_part_that_users_cannot_have_is_refused(name: str) -> None:
    told = stage()
    told.talk("r1", "u1")
    with pytest.raises(MessageRefused, match=f"unable to take message '{name}'"):
        told.put(user("u0"), forged(name), trusted=False)
    assert told.path == ["u1", "a-r1"]


def test_messages_are_stored_with_their_unknown_fields() -> None:
    told = stage()
    odd = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hi", "providerOptions": {"a": 1}}], "x": 1}
    told.ask("r1", odd)
    assert told.message(1) == odd
    told.run(1, *text("fine"))
    accepted = the(TurnAccepted, told.ask("r2", odd, told.message(2), user("u2")))
    assert [placed.id for placed in accepted.messages] == ["u2"]


def test_resending_a_stored_message_that_is_invalid_now_is_no_edit() -> None:
    told = stage()
    old = forged("u1", {**CALL, "approval": 5})
    told.put(old)
    accepted = the(TurnAccepted, told.ask("r1", {**old, "parts": [*old["parts"], 7]}))
    assert accepted.messages == [] and accepted.parent == 1
    assert told.put(old, trusted=False) == []


def test_our_own_code_may_store_any_part() -> None:
    told = stage()
    events = told.put(forged("u1"), {**assistant("a1"), "parts": [CALL]})
    assert [placed.role for placed in the(MessagesPut, events).messages] == ["user", "assistant"]


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_call_in_a_user_message_takes_no_answer(answer: CallAnswer) -> None:
    told = stage()
    told.put(forged("u1"))
    assert told.answer("k1", answer) == []
    assert told.message(1) == forged("u1")


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_call_in_an_answer_that_our_own_code_stored_takes_one(answer: CallAnswer) -> None:
    told = stage()
    asks = {**CALL, "state": "approval-requested", "approval": {"id": "ask-k1"}}
    part = asks if isinstance(answer, ApprovalAnswer) else CALL
    told.put(user("u1"), {**assistant("a1"), "parts": [part]}, forged("u2"))
    events = told.answer("k1", answer)
    assert kinds(events) == ["CallAnswered", "TurnAccepted"]
    assert the(TurnAccepted, events).node == 2


def test_the_id_of_an_answer_is_not_taken_for_a_question() -> None:
    told = stage()
    told.talk("r1", "u1")
    with pytest.raises(MessageRefused, match="of another role"):
        told.ask("r2", user("u1"), user("a-r1", "I said this"))
    with pytest.raises(MessageRefused, match="of another role"):
        told.put(user("a-r1", "I said this"), trusted=False)
    assert told.said() == ["hi", "fine"]


def test_a_replaced_message_keeps_its_role() -> None:
    told = stage()
    told.put(user("u1"), assistant("a1"))
    assert told.put(user("a1", "mine"), assistant("u1", "yours")) == []
    replaced = the(MessageReplaced, told.put(assistant("a1", "better")))
    assert decoded(bytes(replaced.message))["role"] == "assistant"


def test_a_waiting_continuation_of_a_user_message_is_skipped() -> None:
    """Older files have such turns: then, user messages could be continued."""
    told: Stage = stage()
    told.put(forged("u1"))
    _accept_continuation_of(told, NodeId(1))
    events = told.begin(1)
    assert endings(events) == [(1, "skipped", "target-not-an-answer")]
    assert told.message(1) == forged("u1")


def _accept_continuation_of(told: Stage, node: NodeId) -> None:
    place = told.state.tree.nodes[node]
    accepted = TurnAccepted(
        turn=TurnId(1),
        request=RequestId("c"),
        kind=TurnKind.CONTINUATION,
        generation=told.state.generation,
        node=node,
        parent=place.parent,
        message_id=place.id,
    )
    evolve(told.state, accepted, Millis(told.now))
