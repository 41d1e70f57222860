"""The server's fields of messages: added when a message is placed, never taken from a client (R-37)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from everyword.core.commands import PutMessages, Submit
from everyword.errors import MessageRefused
from everyword.events import Chunk, Identity, MessageEnded, MessageReplaced, MessagesPut, TurnAccepted
from everyword.ids import MessageId, RequestId
from tests.core.histories import assistant, user
from tests.core.stage import Stage, pick, stage, text, the

JsonObject = dict[str, Any]

ANN = Identity("ann", "Ann")
BOB = Identity("bob")
BY_ANN = {"time": 1000, "author": {"id": "ann", "name": "Ann"}}
FORGED = {"everyword": {"time": 1, "author": {"id": "root"}, "admin": True}}


def forged(message: JsonObject) -> JsonObject:
    return {**message, "metadata": FORGED}


def asked(principal: Identity | None = ANN, **rules: Any) -> Stage:
    told = stage(**rules)
    told.ask("r1", user("u1"), principal=principal)
    return told


def answered() -> Stage:
    told = asked()
    told.run(1, {"type": "start", "messageId": "a-r1"}, *text("fine"))
    told.wait(500)
    return told


def copies(told: Stage) -> list[JsonObject]:
    """The conversation of a client that never received the server's fields."""
    return [told.message(1), told.message(2)]


# -- questions -----------------------------------------------------------------------------------------------------


def test_a_question_has_its_author_and_the_time_of_its_commit() -> None:
    assert asked().fields(1) == BY_ANN


def test_a_question_without_an_author_has_its_time() -> None:
    assert asked(None).fields(1) == {"time": 1000}


@pytest.mark.parametrize("trusted", [True, False])
def test_what_a_question_says_of_its_own_author_is_not_believed(trusted: bool) -> None:
    told = stage()
    told.ask("r1", forged(user("u1")), principal=ANN, trusted=trusted)
    assert told.fields(1) == BY_ANN


def test_the_application_s_own_metadata_stays_beside_the_fields() -> None:
    told = stage()
    told.ask("r1", {**user("u1"), "metadata": {"tab": 3, **FORGED}})
    assert told.stored(1)["metadata"] == {"tab": 3, "everyword": {"time": 1000}}


def test_a_client_s_question_with_metadata_that_is_no_object_is_refused() -> None:
    with pytest.raises(MessageRefused, match="metadata must be an object"):
        stage().ask("r1", {**user("u1"), "metadata": "x"}, principal=ANN)


def test_sanitising_sees_the_fields_and_cannot_remove_or_change_them() -> None:
    seen: list[Any] = []

    def sanitize(message: JsonObject) -> JsonObject:
        seen.append(message.get("metadata"))
        return {"id": message["id"], "role": message["role"], "parts": message["parts"], "metadata": FORGED}

    told = asked(sanitize=sanitize)
    assert (seen, told.fields(1)) == ([{"everyword": BY_ANN}], BY_ANN)
    told.begin(1)
    told.emit(1, {"type": "start", "messageId": "a-r1"}, *text("fine"))
    ended = the(MessageEnded, told.finish(1))
    assert (told.fields(2), ended.sanitized) == ({"time": 1000}, False)


def test_questions_whose_messages_are_evaluated_later_have_fields() -> None:
    told = stage()
    told.tell(Submit(RequestId("r1"), MessageId("a1"), None, trusted=True, principal=BOB))
    told.wait(5)
    (placed,) = the(MessagesPut, told.place(1, forged(user("u1")))).messages
    assert told.fields(placed.node) == {"time": 1005, "author": {"id": "bob"}}


def test_merged_questions_have_the_fields_of_the_last() -> None:
    told = answered()
    told.ask("r2", user("u2"), principal=ANN)
    told.ask("r3", user("u3"), principal=ANN)
    told.wait(5)
    (placed,) = the(TurnAccepted, told.ask("r4", user("u4"), principal=BOB, policy="merge")).messages
    assert told.fields(placed.node) == {"time": told.now, "author": {"id": "bob"}}


# -- copies that come back ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("copy", ["bare", "stored", "forged", "empty metadata"])
def test_asking_for_an_answer_again_is_no_edit_whatever_the_copy_has(copy: str) -> None:
    told = answered()
    sent = {
        "bare": user("u1"),
        "stored": told.stored(1),
        "forged": forged(user("u1")),
        "empty metadata": {**user("u1"), "metadata": {}},
    }[copy]
    accepted = the(TurnAccepted, told.ask("r2", sent, trigger="regenerate-message", principal=BOB))
    assert (accepted.messages, accepted.parent, told.fields(1)) == ([], 1, BY_ANN)


def test_an_edited_question_has_new_fields_and_the_old_one_keeps_its_own() -> None:
    told = answered()
    (placed,) = the(TurnAccepted, told.ask("r2", forged(user("u1", "changed")), principal=BOB)).messages
    assert told.fields(placed.node) == {"time": 1500, "author": {"id": "bob"}}
    assert told.fields(1) == BY_ANN


def test_a_question_sent_with_the_whole_list_leaves_the_stored_fields() -> None:
    told = answered()
    events = told.ask("r2", *(forged(each) for each in copies(told)), user("u2"), principal=BOB)
    assert (pick(MessageReplaced, events), told.fields(1), told.fields(2)) == ([], BY_ANN, {"time": 1000})


# -- lists without a question -----------------------------------------------------------------------------------------


def synced(told: Stage, *messages: JsonObject) -> list[Any]:
    return told.put(*messages, trusted=False, cause="synced", principal=BOB)


def test_a_synced_list_of_copies_changes_nothing() -> None:
    told = answered()
    assert synced(told, *map(forged, copies(told))) == []
    assert synced(told, *copies(told)) == []


def test_messages_that_a_client_adds_or_changes_get_new_fields() -> None:
    told = answered()
    synced(told, user("u1", "changed"), told.message(2), forged(user("u2")))
    by_bob = {"time": 1500, "author": {"id": "bob"}}
    assert [told.fields(1), told.fields(2), told.fields(3)] == [by_bob, {"time": 1000}, by_bob]


def test_an_answer_that_a_trusted_client_changes_keeps_its_fields() -> None:
    told = answered()
    told.rules = stage(trusts_client_messages=True).rules
    synced(told, user("u1"), forged(assistant("a-r1", "other")), forged(assistant("x", "new")))
    assert (told.fields(2), told.fields(3)) == ({"time": 1000}, {"time": 1500})


# -- our own code -----------------------------------------------------------------------------------------------------


def test_messages_of_the_agents_code_get_fields_unless_they_have_them() -> None:
    told = stage()
    told.put(user("u1"), forged(user("u2")), assistant("a1"), principal=ANN)
    assert [told.fields(1), told.fields(2), told.fields(3)] == [BY_ANN, FORGED["everyword"], {"time": 1000}]


@pytest.mark.parametrize("given", [user("u1", "new"), forged(user("u1", "new"))])
def test_a_message_that_our_own_code_changes_keeps_its_stored_fields(given: JsonObject) -> None:
    told = answered()
    told.put(given, principal=BOB)
    assert (told.said()[0], told.fields(1)) == ("new", BY_ANN)


def test_copies_of_another_conversation_are_given_no_fields() -> None:
    told = stage()
    told.tell(PutMessages([user("u1"), forged(user("u2"))], cause="forked", is_copy=True))
    assert (told.fields(1), told.fields(2)) == (None, FORGED["everyword"])


def test_a_message_that_was_stored_without_fields_stays_without() -> None:
    told = stage()
    told.tell(PutMessages([user("u1"), assistant("a1")], is_copy=True))
    told.ask("r1", user("u1"), assistant("a1"), user("u2"))
    told.put(user("u1", "changed"))
    assert (told.fields(1), told.fields(2), told.fields(3)) == (None, None, {"time": 1000})


# -- answers -------------------------------------------------------------------------------------------------------


def first_chunk(events: list[Any]) -> JsonObject:
    chunk: JsonObject = msgspec.json.decode(bytes(pick(Chunk, events)[0].body))
    return chunk


def test_an_answer_has_the_time_at_which_it_began_in_its_first_chunk() -> None:
    told = asked()
    told.begin(1)
    told.wait(7)
    start = {"type": "start", "messageId": "a-r1", "messageMetadata": {"model": "m"}}
    emitted = told.emit(1, start, *text("fine"))
    told.wait(7)
    told.finish(1)
    assert first_chunk(emitted) == {**start, "messageMetadata": {"model": "m", "everyword": {"time": 1007}}}
    assert told.stored(2)["metadata"] == {"model": "m", "everyword": {"time": 1007}}


def test_an_answer_that_begins_anew_has_the_time_of_that() -> None:
    told = asked()
    told.begin(1)
    told.emit(1, {"type": "start", "messageId": "a-r1"}, *text("half"))
    told.wait(9)
    told.begin(1, cause="crash", fresh=True)
    told.emit(1, {"type": "start", "messageId": "a-r1"}, *text("fine"), attempt=2)
    told.finish(1, attempt=2)
    assert told.fields(2) == {"time": 1009}


def test_a_continuation_leaves_the_time_of_its_answer() -> None:
    told = answered()
    told.go_on("r2")
    told.begin(2)
    told.emit(2, *text("more"))
    told.finish(2)
    assert told.fields(2) == {"time": 1000}


@pytest.mark.parametrize("kind", ["start-step", "start"])
def test_other_chunks_are_left_as_they_are(kind: str) -> None:
    told = asked()
    told.begin(1)
    chunk = {"type": kind, "messageMetadata": 5} if kind == "start" else {"type": kind}
    assert first_chunk(told.emit(1, chunk)) == chunk
