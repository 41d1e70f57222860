"""What an access request gets of an event in a conversation of others: the principal's part, and no more."""

from __future__ import annotations

import json
from typing import Any

import pytest

from everyword.core.erasure import Eraser, Target
from everyword.core.personal_data import personal_part
from everyword.events import (
    ApprovalRequested,
    CallAnswered,
    ConversationChanged,
    Event,
    FiberEnded,
    FiberStarted,
    Identity,
    JobAdded,
    JobEnded,
    MessagesPut,
    Placed,
    StateSet,
    to_raw,
)
from everyword.ids import Attempt, CallId, FiberId, JobId, MessageId, Millis, NodeId, TurnId

SECRET = "word-of-bob"
ANN, BOB = Identity("ann", "Ann"), Identity("bob", "Bob", to_raw({"mail": SECRET}))


def placed(author: Identity, node: int, text: str) -> Placed:
    fields = {"author": {"id": author.id, "name": author.name}}
    body = {"id": f"m{node}", "role": "user", "parts": [{"type": "text", "text": text}]}
    message = to_raw({**body, "metadata": {"everyword": fields}})
    return Placed(NodeId(node), None, MessageId(f"m{node}"), "user", message)


def parts_of(*events: Event) -> list[dict[str, Any] | None]:
    eraser = Eraser(Target("ann", "erased", b"-"))
    return [personal_part(eraser, event) for event in events]


def notification() -> JobAdded:
    about = {
        "title": SECRET,
        "preview": SECRET,
        "participants": [{"id": "bob", "name": "Bob"}, {"id": "ann", "name": "Ann"}],
    }
    return JobAdded(JobId("n"), "once", "everyword.delivery", Millis(5), to_raw({"notification": about}))


NAMED: list[list[Event]] = [
    [ConversationChanged(owner="ann", title=SECRET, metadata=to_raw({"tag": SECRET}), by=BOB)],
    [ConversationChanged(owner="ann")],
    [ApprovalRequested(TurnId(1), Attempt(1), CallId("c"), "pay", summary=SECRET, approvers=["ann", SECRET])],
    [notification()],
    [MessagesPut([placed(ANN, 1, "mine"), placed(BOB, 2, SECRET)])],
    [
        MessagesPut([placed(ANN, 1, "mine"), placed(BOB, 2, SECRET)]),
        StateSet(to_raw({"messages": [{"id": "m1", "content": "mine"}, {"id": "m2", "content": SECRET}], "x": SECRET})),
    ],
]


@pytest.mark.parametrize("events", NAMED, ids=lambda events: type(events[-1]).__name__)
def test_what_others_did_is_left_out_of_events_that_name_the_principal(events: list[Event]) -> None:
    assert SECRET not in json.dumps(parts_of(*events))


def test_what_the_principal_did_is_complete() -> None:
    title = ConversationChanged(title="About tea", by=ANN)
    answer = CallAnswered(NodeId(1), CallId("c"), "result", to_raw({"city": "Rome"}), principal=ANN)
    job = JobAdded(JobId("j"), "queue", "later", Millis(5), to_raw({"text": "buy"}), principal=ANN)
    put = MessagesPut([placed(ANN, 1, "mine"), placed(BOB, 2, SECRET)])
    found = parts_of(title, answer, job, put, ConversationChanged(owner="ann", by=BOB))
    said = json.dumps(found)
    assert None not in found and all(word in said for word in ("About tea", "Rome", "buy", "mine"))
    assert found[-1] == {"t": "conversation.changed", "owner": "ann"}


def test_texts_of_exceptions_are_left_out() -> None:
    job = JobAdded(JobId("j"), "queue", "later", Millis(5), principal=ANN)
    failed = JobEnded(JobId("j"), 1, "failed", detail="Traceback")
    fiber = FiberStarted(FiberId("f"), "think", principal=ANN)
    cancelled = FiberEnded(FiberId("f"), "failed", detail="Traceback")
    found = parts_of(job, failed, fiber, cancelled)
    assert None not in found and "Traceback" not in json.dumps(found)
