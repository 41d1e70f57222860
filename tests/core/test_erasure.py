"""Each kind of event without the words of an erased principal: what is replaced, and what stays as it is."""

from __future__ import annotations

import json
from typing import Any, get_args

import msgspec
import pytest
from msgspec import UNSET, Raw
from msgspec.structs import replace

from everyword.core.erasure import ERASED_TEXT, Eraser, Target, copied_answers
from everyword.core.personal_data import personal_part
from everyword.events import (
    AgentCreated,
    AgentDestroyed,
    ApprovalRequested,
    AttemptDelayed,
    AttemptInterrupted,
    AttemptStarted,
    CallAnswered,
    CallStarted,
    CancelRequested,
    ChatCleared,
    Chunk,
    ConversationChanged,
    ConversationRead,
    Event,
    FiberEnded,
    FiberPaused,
    FiberStarted,
    FiberStashed,
    HookDone,
    Identity,
    JobAdded,
    JobEnded,
    JobStarted,
    LeafMoved,
    MessageEnded,
    MessageReplaced,
    MessagesPut,
    MessagesRemoved,
    Outcome,
    Placed,
    RunEnded,
    RunStarted,
    RunTold,
    ShareCreated,
    ShareRevoked,
    StateSet,
    TurnAccepted,
    TurnEnded,
    TurnKind,
    TurnRetargeted,
    decode_event,
    encode_event,
    to_raw,
)
from everyword.ids import (
    Attempt,
    CallId,
    FiberId,
    Generation,
    JobId,
    MessageId,
    Millis,
    NodeId,
    RequestId,
    RunId,
    ShareId,
    TurnId,
)

WORD = "zanzibar"
ANN, BOB = Identity(f"ann-{WORD}", f"Ann {WORD}", to_raw({"mail": WORD})), Identity("bob", "Bob")
T, N, AT, GENERATION = TurnId(1), NodeId(2), Millis(5), Generation(0)


def target(**more: Any) -> Target:
    return Target(ANN.id, "erased-1", b"salt", **more)


def message(id: str, text: str, author: Identity | None, role: str = "user", *parts: Any) -> Raw:
    fields: dict[str, Any] = {"time": 3}
    if author is not None:
        fields["author"] = {"id": author.id, "name": author.name}
    said = [{"type": "text", "text": text}, *parts]
    return to_raw({"id": id, "role": role, "parts": said, "metadata": {"everyword": fields}})


def placed(author: Identity, node: int = 1, text: str = f"I say {WORD}") -> Placed:
    id = f"m-{WORD}" if author is ANN else f"m-{node}"
    return Placed(NodeId(node), None, MessageId(id), "user", message(id, text, author))


def accepted(principal: Identity = ANN, **more: Any) -> TurnAccepted:
    given = {
        "messages": [placed(principal)],
        "message_ids": [placed(principal).id],
        "body": to_raw({"note": WORD}),
        "client_tools": to_raw([{"name": WORD}]),
        "owner": f"pk-{WORD}",
        "origin": "s1",
        "trigger": WORD,
        "principal": principal,
        **more,
    }
    return replace(
        TurnAccepted(T, RequestId(f"r-{WORD}"), TurnKind.CHAT, GENERATION, N, NodeId(1), MessageId("a")), **given
    )


def rewritten(*events: Event, **more: Any) -> list[Event]:
    """Return the events after the erasure; each decodes as before."""
    eraser = Eraser(target(**more))
    found = [eraser.rewrite(event) for event in events]
    kept = [each for each in found if each is not None]
    assert [decode_event(encode_event(each)) for each in kept] == kept
    return kept


def has_word(event: Event) -> bool:
    return WORD.encode() in encode_event(event)


call = {"type": "tool-place", "toolCallId": "c1", "state": "output-available", "input": {}, "output": {"city": WORD}}
reason = {"type": "tool-pay", "toolCallId": "c2", "state": "approval-responded", "input": {}}
reason |= {"approval": {"id": "x", "approved": True, "reason": WORD}}

COPIED: dict[str, Any] = {"kind": TurnKind.CONTINUATION, "messages": [], "message_ids": [], "owner": None}
COPIED |= {"client_tools": Raw(b"null"), "trigger": "submit-message", "request": RequestId("r-bob")}
"""A continuation of Bob's answer with the body of the turn before it, which was Ann's."""

LONG_TITLE = f"All about {WORD} " + "and more " * 20

PERSONAL: list[list[Event]] = [
    [accepted()],
    [accepted(), TurnRetargeted(T, N, MessageId("a"), AT, owner=f"pk-{WORD}", origin="s1")],
    [CallAnswered(N, CallId("c1"), "result", to_raw({"city": WORD}), by=ANN.id, principal=ANN)],
    [CallAnswered(N, CallId("c1"), "error", to_raw(WORD), by=ANN.id, principal=ANN)],
    [CallAnswered(N, CallId("c2"), "approval", to_raw({"approved": True, "reason": WORD}), by=ANN.id, principal=ANN)],
    [ApprovalRequested(T, Attempt(1), CallId("c"), "pay", approvers=[ANN.id, "boss"])],
    [ApprovalRequested(TurnId(0), Attempt(0), CallId("c"), "pay", summary=f"Pay {WORD}", asked_by=ANN)],
    [ConversationChanged(title=f"About {WORD}", metadata=to_raw({"tag": WORD}), by=ANN)],
    [ConversationChanged(owner=ANN.id, by=BOB)],
    [ConversationRead(ANN.id, 3)],
    [
        CallAnswered(N, CallId("c1"), "result", to_raw({"city": WORD}), by=ANN.id, principal=ANN),
        CallAnswered(N, CallId("c2"), "approval", to_raw({"approved": True, "reason": WORD}), principal=ANN),
        MessageEnded(T, N, message("a", "Good.", None, "assistant", call, reason)),
        MessageReplaced(N, message("a", "Good.", None, "assistant", call, reason)),
        MessagesPut([Placed(NodeId(4), N, MessageId("b"), "assistant", message("b", "x", None, "assistant", call))]),
    ],
    [
        CallAnswered(N, CallId("c1"), "result", to_raw({"city": WORD}), turn=T, principal=ANN),
        Chunk(
            T, Attempt(1), 4, to_raw({"type": "tool-output-available", "toolCallId": "c1", "output": {"city": WORD}})
        ),
        CallAnswered(N, CallId("c3"), "error", to_raw(WORD), turn=T, principal=ANN),
        Chunk(T, Attempt(1), 5, to_raw({"type": "tool-output-error", "toolCallId": "c3", "errorText": WORD})),
    ],
    [accepted(), accepted(BOB, **COPIED)],
    [accepted(messages=[], node=NodeId(0), dropped=True)],
    [CancelRequested(T, by=ANN.id)],
    [accepted(), TurnEnded(T, Outcome.ERROR, error="It failed.", detail=f"ValueError: {WORD}")],
    [MessagesPut([placed(ANN), placed(BOB, 2, "hi")])],
    [MessagesPut([placed(ANN)]), MessageReplaced(NodeId(1), message(f"m-{WORD}", f"now {WORD}", ANN))],
    [MessagesPut([placed(ANN)]), MessageReplaced(NodeId(1), message(f"m-{WORD}", "by bob now", BOB))],
    [
        JobAdded(JobId("j"), "queue", "later", AT, to_raw({"text": WORD}), principal=ANN),
        JobEnded(JobId("j"), 1, "failed", detail=WORD),
    ],
    [
        accepted(),
        JobAdded(
            JobId("n"),
            "once",
            "everyword.notify",
            AT,
            to_raw({"title": WORD, "request": f"r-{WORD}", "participants": [{"id": ANN.id, "name": WORD}]}),
        ),
    ],
    [JobAdded(JobId("j"), "once", "later", AT, key=f"call {WORD}", principal=ANN)],
    [
        ConversationChanged(title=LONG_TITLE, by=ANN),
        JobAdded(JobId("n"), "once", "everyword.delivery", AT, to_raw({"notification": {"title": LONG_TITLE}})),
    ],
    [
        FiberStarted(FiberId("f"), "think", principal=ANN),
        FiberStashed(FiberId("f"), to_raw({"text": WORD})),
        FiberEnded(FiberId("f"), "failed", detail=WORD),
    ],
    [ShareCreated(ShareId("s"), "00", label=WORD, principal=ANN), ShareRevoked(ShareId("s"), principal=ANN)],
    [RunStarted(RunId("r"), "note", input=to_raw(WORD), preview=WORD, display=to_raw({"name": WORD}), principal=ANN)],
]


@pytest.mark.parametrize("events", PERSONAL, ids=lambda events: type(events[-1]).__name__)
def test_no_word_of_the_principal_is_left_in_an_event(events: list[Event]) -> None:
    assert any(map(has_word, events)), "the event had it"
    new = rewritten(*events)
    assert [type(each) for each in new] == [type(each) for each in events]
    assert not any(map(has_word, new)), new
    assert rewritten(*new) == new, "rewriting again changes nothing"


OTHERS: list[Event] = [
    accepted(BOB, messages=[placed(BOB)], owner="pk-bob"),
    TurnRetargeted(T, N, MessageId("a"), AT),
    AttemptStarted(T, Attempt(1)),
    AttemptDelayed(T, Attempt(2), "retry"),
    AttemptInterrupted(T, Attempt(1)),
    Chunk(T, Attempt(1), 0, to_raw({"type": "text-delta", "id": "t", "delta": f"You said {WORD}"})),
    CallStarted(T, Attempt(1), CallId("c")),
    CallAnswered(N, CallId("c"), "result", to_raw(WORD), by="bob", principal=BOB),
    ApprovalRequested(T, Attempt(1), CallId("c"), "pay", summary=f"Pay {WORD}", approvers=["boss"]),
    ConversationChanged(title=f"Bob about {WORD}", by=BOB),
    ConversationRead("bob", 2),
    MessageEnded(T, N, message("a", f"You said {WORD}", None, "assistant", call)),
    CancelRequested(T, by="bob"),
    TurnEnded(T, Outcome.ERROR, detail=WORD),
    HookDone(T),
    MessagesPut([placed(BOB)]),
    MessageReplaced(N, message("m-1", WORD, BOB)),
    MessagesRemoved([N]),
    LeafMoved(N),
    ChatCleared(Generation(1)),
    StateSet(to_raw({"note": WORD})),
    AgentCreated(),
    JobAdded(JobId("j"), "queue", "later", AT, to_raw(WORD), principal=BOB),
    JobStarted(JobId("j"), 1),
    JobEnded(JobId("j"), 1, "failed", detail=WORD),
    RunStarted(RunId("r"), "note", input=to_raw(WORD), principal=BOB),
    RunEnded(RunId("r"), "completed", summary=WORD),
    RunTold(RunId("r")),
    FiberStarted(FiberId("f"), "think", principal=BOB),
    FiberStashed(FiberId("f"), to_raw(WORD)),
    FiberPaused(FiberId("f")),
    FiberEnded(FiberId("f"), "done"),
    AgentDestroyed(),
    ShareCreated(ShareId("s"), "00", label=WORD, principal=BOB),
    ShareRevoked(ShareId("s"), principal=BOB),
]


def managed(stream: str, turn: int, answer: str, principal: Identity) -> list[Event]:
    """Return a question to a `ResumableStreamManager`, its answer, and the state with both."""
    question, said = placed(principal, turn), message(answer, f"You said {WORD}", None, "assistant")
    content = {"id": question.id, "role": "user", "content": f"I say {WORD}", "createdAt": 1}
    copies = [content, {"id": answer, "role": "assistant", "content": f"You said {WORD}", "createdAt": 2}]
    id, payload = TurnId(turn), to_raw({"userMessageId": question.id, "streamId": stream})
    return [
        MessagesPut([question]),
        TurnAccepted(id, RequestId(stream), TurnKind.RSM, GENERATION, NodeId(0), None, MessageId(answer)),
        JobAdded(JobId(stream), "queue", "_rsm_generate_response", AT, payload, principal=principal),
        Chunk(id, Attempt(1), 1, to_raw(f"You said {WORD}")),
        MessagesPut([Placed(NodeId(turn + 50), None, MessageId(answer), "assistant", said)], cause="streamed"),
        TurnEnded(id, Outcome.COMPLETED),
        StateSet(to_raw({"messages": copies, "activeStreamId": None, "else": 1})),
    ]


def test_managed_streams_and_their_copies_in_the_state_are_rewritten() -> None:
    events = managed("stream_1", 1, "msg_1", ANN)
    kept = rewritten(*events)
    assert [has_word(each) for each in kept] == [False, False, False, True, True, False, True], "answers stay"
    state = kept[-1]
    assert isinstance(state, StateSet)
    question, answer = json.loads(bytes(state.state))["messages"]
    assert (question["content"], answer["content"]) == (ERASED_TEXT, f"You said {WORD}")
    assert isinstance(kept[0], MessagesPut) and question["id"] == kept[0].messages[0].id
    without = rewritten(*events, with_answers=True)
    assert [type(each) for each in without] == [type(each) for each in events if not isinstance(each, Chunk)]
    assert not any(map(has_word, without))


def test_managed_streams_and_states_of_others_stay() -> None:
    others = managed("stream_2", 2, "msg_2", BOB)
    kept = rewritten(*managed("stream_1", 1, "msg_1", ANN), *others, with_answers=True)
    assert all(one is other for one, other in zip(kept[-len(others) :], others, strict=True))
    odd = [StateSet(to_raw(each)) for each in ([], {"messages": 1}, {"messages": [1, {"id": 2}, {"id": "x"}]})]
    assert rewritten(accepted(), *odd)[1:] == odd


def test_a_notification_keeps_a_title_that_is_not_the_principals() -> None:
    notice = JobAdded(JobId("n"), "once", "everyword.delivery", AT, to_raw({"notification": {"title": "Bob's"}}))
    assert rewritten(ConversationChanged(title=f"About {WORD}", by=ANN), notice)[1] is notice


def test_every_kind_of_event_has_a_case() -> None:
    assert {type(event) for event in OTHERS} == set(get_args(Event))


@pytest.mark.parametrize("event", OTHERS, ids=lambda event: type(event).__name__)
def test_what_others_said_and_answers_that_quote_stay(event: Event) -> None:
    (new,) = rewritten(event)
    assert new is event


def test_the_answers_to_the_principal_are_replaced_if_asked_for() -> None:
    quote = message("a", f"You said {WORD}", None, "assistant")
    chunk = Chunk(T, Attempt(1), 0, to_raw({"type": "text-delta", "id": "t", "delta": WORD}))
    asks = ApprovalRequested(T, Attempt(1), CallId("c"), "pay", summary=f"Pay {WORD}")
    run = RunStarted(RunId("r"), "note", principal=ANN)
    ended = [
        RunEnded(RunId("r"), "completed", summary=WORD, output=to_raw(WORD)),
        TurnEnded(T, Outcome.ERROR, error=WORD),
    ]
    title = ConversationChanged(title=WORD, titled_by="model")
    events = [accepted(), chunk, asks, run, MessageEnded(T, N, quote), *ended, title]
    assert sum(map(has_word, rewritten(*events))) == 6, "they stay otherwise"
    new = rewritten(*events, with_answers=True)
    assert not any(map(has_word, new)) and not any(isinstance(each, Chunk) for each in new)
    (answer,) = [json.loads(bytes(each.message)) for each in new if isinstance(each, MessageEnded)]
    assert (answer["id"], answer["parts"]) == ("a", [{"type": "text", "text": ERASED_TEXT}])


def test_ids_stay_consistent_and_an_erased_message_keeps_its_place_and_time() -> None:
    turn, again = rewritten(accepted(), accepted(BOB, messages=[], message_ids=[f"m-{WORD}"], owner="pk-bob"))
    assert isinstance(turn, TurnAccepted) and isinstance(again, TurnAccepted)
    (first,) = turn.messages
    body = json.loads(bytes(first.message))
    assert turn.message_ids == [first.id] == again.message_ids == [body["id"]]
    assert first.node == placed(ANN).node and turn.principal == Identity("erased-1")
    assert body["metadata"]["everyword"] == {"time": 3, "author": {"id": "erased-1"}, "erased": True}


def test_another_salt_makes_other_ids() -> None:
    one, other = target().opaque("m1"), replace_salt(target(), b"pepper").opaque("m1")
    assert one != other and target().opaque("m1") == one


def replace_salt(given: Target, salt: bytes) -> Target:
    return Target(given.principal, given.alias, salt, given.with_answers)


def test_requests_of_the_agents_own_code_keep_their_ids() -> None:
    (turn,) = rewritten(replace(accepted(), trusted=True))
    assert isinstance(turn, TurnAccepted) and turn.request == f"r-{WORD}"


def test_a_change_by_the_principal_leaves_what_others_set_before() -> None:
    (changed,) = rewritten(ConversationChanged(title=WORD, metadata=to_raw({"a": WORD}), archived=True, by=ANN))
    assert isinstance(changed, ConversationChanged)
    assert changed.title is UNSET and bytes(changed.metadata) == b"null" and changed.archived is True


def test_messages_of_an_unknown_shape_do_not_stop_an_erasure() -> None:
    odd = MessageReplaced(N, to_raw({"id": "m", "role": "user", "parts": ["text", None], "metadata": "x"}))
    assert rewritten(odd) == [odd] and msgspec.json.decode(encode_event(odd))


@pytest.mark.parametrize("id", [["c1"], {"a": 1}, 1, None])
def test_a_part_with_an_id_of_another_type_does_not_stop_an_erasure(id: Any) -> None:
    """Clients send such parts: of most types only the type itself is checked."""
    parts = [{"type": "data-x", "toolCallId": id, "data": 1}, call]
    odd = MessageReplaced(N, message("m", "hi", BOB, "user", *parts))
    answered = CallAnswered(N, CallId("c1"), "result", to_raw({"city": WORD}), principal=ANN)
    chunk = Chunk(T, Attempt(1), 4, to_raw({"type": "tool-output-available", "toolCallId": id, "output": 1}))
    assert rewritten(odd) == [odd]
    _, new, same = rewritten(answered, odd, chunk)
    assert isinstance(new, MessageReplaced) and not has_word(new) and same == chunk


def test_answers_to_calls_are_replaced_in_copies_of_their_message_too() -> None:
    answered = CallAnswered(N, CallId("c1"), "result", to_raw({"city": WORD}), by=ANN.id, principal=ANN)
    asked = accepted(BOB, messages=[], owner="pk-bob")
    source = Eraser(target())
    for event in (asked, answered):
        source.rewrite(event)
    assert source.answered == {(MessageId("a"), CallId("c1"), "result")}

    copy = Placed(NodeId(1), None, MessageId("a"), "assistant", message("a", "Good.", None, "assistant", call))
    other = Placed(NodeId(2), NodeId(1), MessageId("b"), "assistant", message("b", "x", None, "assistant", call))
    fork = MessagesPut([copy], cause="forked")
    assert copied_answers(fork, source.answered) == source.answered
    assert copied_answers(MessagesPut([other], cause="forked"), source.answered) == set()
    assert copied_answers(MessagesPut([copy]), source.answered) == set(), "its own log has who answered"
    assert rewritten(fork) == [fork], "the log of the fork does not"
    given = Eraser(target(answered=frozenset(source.answered)))
    new, beside = given.rewrite(fork), Eraser(given.target).rewrite(MessagesPut([other]))
    assert new is not None and not has_word(new)
    assert beside is not None and has_word(beside), "the same id in another message may be another call"


def test_the_result_of_a_call_that_was_approved_with_a_reason_stays() -> None:
    approved = CallAnswered(N, CallId("c2"), "approval", to_raw({"approved": True, "reason": WORD}), principal=ANN)
    paid = {**reason, "state": "output-available", "output": "paid 5"}
    chunk = Chunk(T, Attempt(1), 4, to_raw({"type": "tool-output-available", "toolCallId": "c2", "output": "paid 5"}))
    ended = MessageEnded(T, N, message("a", "Good.", None, "assistant", paid))
    source = Eraser(target())
    for event in (accepted(BOB, messages=[], owner="pk-bob"), approved):
        source.rewrite(event)
    copy = MessagesPut([Placed(NodeId(1), None, MessageId("a"), "assistant", ended.message)], cause="forked")
    fork = Eraser(target(answered=frozenset(source.answered))).rewrite(copy)
    _, same, new = rewritten(approved, chunk, ended)
    assert same == chunk and isinstance(new, MessageEnded) and isinstance(fork, MessagesPut)
    for body in (new.message, fork.messages[0].message):
        part = json.loads(bytes(body))["parts"][1]
        assert part["output"] == "paid 5" and part["approval"] == {"id": "x", "approved": True}


def test_a_body_that_another_principal_sent_too_stays_in_its_continuations() -> None:
    both = [accepted(), accepted(BOB, messages=[], owner="pk-bob"), accepted(BOB, **COPIED)]
    (*_, turn) = rewritten(*both)
    assert isinstance(turn, TurnAccepted) and turn == both[-1]


def test_messages_of_another_author_in_a_turn_of_the_principal_stay() -> None:
    """The agent's own code may ask with a list of messages of several people."""
    bobs, unknown = placed(BOB, 1, "hi"), replace(placed(BOB, 3), message=message("m-3", WORD, None))
    turn = accepted(messages=[bobs, placed(ANN, 2), unknown])
    (new,) = rewritten(turn)
    assert isinstance(new, TurnAccepted)
    assert new.messages[0] == bobs and not any(WORD.encode() in bytes(each.message) for each in new.messages[1:])
    part = personal_part(Eraser(target()), turn)
    assert part is not None and [each["id"] for each in part["messages"]] == [f"m-{WORD}", "m-3"]


def test_answers_that_were_replaced_or_copied_are_answers_to_the_principal_too() -> None:
    said = message("a", f"You said {WORD}", None, "assistant")
    copies = [placed(ANN, 1), Placed(NodeId(2), NodeId(1), MessageId("a"), "assistant", said)]
    bobs = [placed(BOB, 3, "hi"), Placed(NodeId(4), NodeId(3), MessageId("b"), "assistant", said)]
    for events in ([accepted(), MessageReplaced(N, said)], [MessagesPut(copies, cause="forked")]):
        assert has_word(rewritten(*events)[-1]), "they stay otherwise"
        new = rewritten(*events, with_answers=True)
        assert not any(map(has_word, new)), new
        assert rewritten(*new, with_answers=True) == new
    fork = MessagesPut(bobs, cause="forked")
    assert rewritten(fork, with_answers=True) == [fork], "answers to others stay"
