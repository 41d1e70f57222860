"""Traps of the wire that no other test stands beside; docs/traps.md has them all, by number."""

from __future__ import annotations

import json
from typing import Any

import pytest

from everyword.core.replay import TurnReplay
from everyword.events import CallAnswered, ChatCleared, Event, Outcome, TurnKind, to_raw
from everyword.ids import CallId, Generation, NodeId, RequestId, Seq
from everyword.messages.fold import MessageFold
from everyword.messages.message import UIMessage
from everyword.messages.normaliser import Normaliser
from everyword.wire import frames
from everyword.wire.parse import AnswerCall, ChatRequest, SyncMessages, parse
from everyword.wire.resume_handshake import NeedsReplay
from tests.wire.kit import Tab, accepted, chunk, decoded, ended, kinds, known, message_ended


def test_an_announcement_may_come_twice_and_each_is_good_for_a_whole_replay() -> None:
    """Traps 1, 25 and 28: on connect, for the probe, for the probe sent again; all lead to the same frames."""
    tab = Tab(open=[known(has_chunks=True)])
    offers = [*decoded(tab.view.connected()), *tab.asks("p1"), *tab.asks("p1"), *tab.asks("p2")]
    assert [(frame["id"], frame.get("probeId")) for frame in offers] == [
        ("r1", None),
        ("r1", "p1"),
        ("r1", "p1"),
        ("r1", "p2"),
    ]
    replay = TurnReplay(Seq(3), RequestId("r1"), [(None, b'{"type":"start"}')])
    assert tab.view.replayed(replay) == tab.view.replayed(replay)


@pytest.mark.parametrize("outcome", [None, Outcome.COMPLETED, Outcome.ERROR, Outcome.ABORTED])
def test_every_frame_of_a_replayed_continuation_says_that_it_is_one(outcome: Outcome | None) -> None:
    """Trap 2: chunks, the control frame and the end alike."""
    opened = [accepted(kind=TurnKind.CONTINUATION, owner="pk-me"), chunk(0)]
    tab = Tab(*opened) if outcome is None else Tab(*opened, message_ended(), ended(outcome, error="boom"))
    replay = TurnReplay(Seq(5), RequestId("r1"), [(0, b"{}"), (1, b"{}")], is_continuation=True, outcome=outcome)
    told = [frame for frame in decoded(tab.view.replayed(replay)) if frame["type"] != "cf_agent_chat_messages"]
    assert len(told) >= 3
    assert all(frame["continuation"] is True and frame["replay"] is True for frame in told)


@pytest.mark.parametrize(
    "end",
    [
        [message_ended(), ended(Outcome.ERROR, error="boom")],
        [ended(Outcome.ABORTED)],
        [ended(Outcome.ABORTED, reason="cleared"), ChatCleared(Generation(1))],
    ],
    ids=["failed", "stopped", "cleared"],
)
def test_a_client_that_never_acknowledged_gets_the_next_turn_after_any_outcome(end: list[Event]) -> None:
    """Trap 4: an offer that is never taken up holds back one turn, and nothing after it."""
    tab = Tab(accepted(origin="other"), chunk(0))
    tab.asks()
    tab.happens(*end)
    assert kinds(tab.happens(accepted(2, origin="other"), chunk(0, 2))) == ["chat_messages", "chunk"]


def test_a_probe_while_a_continuation_of_a_client_that_is_gone_waits_is_parked() -> None:
    """Trap 11: an owner that is not there any more owns nothing."""
    waiting = accepted(kind=TurnKind.CONTINUATION, owner="pk-gone")
    assert Tab(waiting).asks()[0]["type"] == "cf_agent_stream_pending"
    assert Tab(waiting, present=("pk-gone",)).asks()[0]["reason"] == "idle"


def test_a_tab_that_does_not_own_a_continuation_reads_it_live() -> None:
    """Trap 13: only the owner shakes hands for it."""
    tab = Tab(accepted(kind=TurnKind.CONTINUATION, owner="pk-other"), present=("pk-other",))
    assert tab.asks()[0]["type"] == "cf_agent_stream_resume_none"
    assert kinds(tab.happens(chunk(0))) == ["chunk"]


def test_a_new_question_takes_the_place_of_an_old_error_as_soon_as_it_is_accepted() -> None:
    """Trap 17: between acceptance and first chunk no client is shown the earlier error."""
    tab = Tab(accepted(1), chunk(0), message_ended(), ended(Outcome.ERROR, error="boom"))
    tab.happens(accepted(2, origin="other"))
    assert tab.asks() == [{"type": "cf_agent_stream_pending", "id": "r2", "probeId": "p1"}]


@pytest.mark.parametrize("after", ["stopped", "cleared"])
def test_an_old_error_is_forgotten_when_a_later_turn_was_stopped_or_the_chat_cleared(after: str) -> None:
    """Trap 17, too: not only a completed turn makes an error old."""
    tab = Tab(accepted(1), ended(Outcome.ERROR, error="boom"))
    later: list[Event] = [ChatCleared(Generation(1))]
    if after == "stopped":
        later = [accepted(2), ended(Outcome.ABORTED, 2)]
    tab.happens(*later)
    assert tab.asks()[0]["reason"] == "idle"


def test_an_error_is_told_to_every_tab_and_to_each_as_often_as_it_asks() -> None:
    """Trap 18: sending it does not consume it."""
    failed = [accepted(), chunk(0), message_ended(), ended(Outcome.ERROR, error="boom")]
    for tab in (Tab(*failed), Tab(*failed, socket="other")):
        for _ in range(2):
            assert tab.asks()[0]["type"] == "cf_agent_stream_resuming"
            assert tab.acknowledges() == NeedsReplay(RequestId("r1"), is_awaited=True)


def test_a_parked_client_is_released_without_reason_and_probe() -> None:
    """Trap 32: the release answers no probe; naming one would leave a client waiting that has asked again since."""
    tab = Tab(accepted(origin="other"))
    tab.asks("p1")
    assert tab.happens(ended(Outcome.ABORTED))[-1] == {"type": "cf_agent_stream_resume_none"}


@pytest.mark.parametrize("is_continuation", [False, True])
def test_a_chunk_that_is_not_in_the_log_has_no_seq_at_all(is_continuation: bool) -> None:
    """Trap 37: absent, not null."""
    frame = frames.ChunkFrames(RequestId("r1"), is_continuation=is_continuation)
    for text in (frame.live(b"{}", None), frame.replayed(b"{}", None)):
        assert "seq" not in json.loads(text)


def test_an_answer_to_a_call_of_a_message_that_is_not_shown_updates_nothing() -> None:
    """Trap 44: an update never adds a message."""
    tab = Tab()
    tab.shown = [(NodeId(2), b'{"id":"a1"}', False)]
    assert tab.happens(CallAnswered(NodeId(9), CallId("k1"), "result", to_raw(1), origin="other")) == []


def test_the_asking_client_gets_no_transcript_while_its_answer_streams() -> None:
    """Trap 42: it would wipe the half answer from the page; what others ask meanwhile is shown without it."""
    tab = Tab(accepted(origin="me"), chunk(0))
    tab.shown = [(NodeId(1), b'{"id":"u1"}', False), (NodeId(2), b'{"id":"a1"}', False)]
    told = tab.happens(chunk(1), chunk(2), accepted(2, origin="other"))
    assert kinds(told) == ["chunk", "chunk", "chat_messages"]
    assert [message["id"] for message in told[-1]["messages"]] == ["u1"]


def test_the_body_of_an_error_frame_is_text_and_marked_as_such() -> None:
    """Trap 64: a text that looks like a chunk is still no chunk."""
    text = '{"type":"text-delta","id":"t","delta":"x"}'
    frame = json.loads(frames.terminal(RequestId("r1"), Outcome.ERROR, error=text))
    assert (frame["body"], frame["error"], frame["done"]) == (text, True, True)


def test_a_stopped_turn_ends_with_a_frame_for_all_and_nothing_of_it_follows() -> None:
    """Traps 52 and 70: the page keeps the id until then, and would take later chunks for a stranger's."""
    for socket in ("me", "other"):
        tab = Tab(accepted(origin="me"), chunk(0), socket=socket)
        told = tab.happens(chunk(1), message_ended(), ended(Outcome.ABORTED))
        assert (kinds(told)[-1], told[-1]["outcome"]) == ("done", "aborted")
        assert tab.happens(chunk(2)) == []


def test_a_failed_tool_does_not_go_on_by_itself_and_a_denied_one_does() -> None:
    """Trap 120: the page says so with every answer, and the server takes its word."""
    failed = {"type": "cf_agent_tool_result", "toolCallId": "k", "state": "output-error", "autoContinue": False}
    denied = {"type": "cf_agent_tool_approval", "toolCallId": "k", "approved": False, "autoContinue": True}
    found = [parse(json.dumps(frame)) for frame in (failed, denied)]
    assert [isinstance(each, AnswerCall) and each.auto_continue for each in found] == [False, True]


def test_a_merged_or_superseded_question_still_names_the_messages_it_stood_for() -> None:
    """Trap 141: the sender can settle what it drew, although the message went into another one."""
    told = Tab(accepted(origin="me"), accepted(2, origin="me")).happens(ended(Outcome.SKIPPED, reason="superseded"))
    assert [(frame["id"], frame["outcome"], frame["messageIds"]) for frame in told] == [("r1", "skipped", ["u1"])]


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_end_names_the_messages_that_asked_for_it(outcome: Outcome) -> None:
    """Trap 182: so that a page can settle what it drew, whichever attempt brings the end."""
    told = Tab(accepted(origin="me"), chunk(0)).happens(ended(outcome, error="boom"))
    assert told[-1]["messageIds"] == ["u1"]


def test_unknown_fields_of_a_frame_change_nothing() -> None:
    """Trap 26: what a page adds for its own purposes is no other request."""
    user = {"id": "u1", "role": "user", "parts": []}
    body = json.dumps({"messages": [user]})
    plain = {"type": "cf_agent_use_chat_request", "id": "r1", "init": {"method": "POST", "body": body}}
    fancy = {**plain, "token": "x", "init": {**plain["init"], "headers": {"a": "b"}}}
    assert parse(json.dumps(plain)) == parse(json.dumps(fancy))
    assert isinstance(parse(json.dumps(plain)), ChatRequest)


def test_an_empty_list_from_a_client_is_an_empty_list_and_nothing_else() -> None:
    """Trap 62: it reaches the rules as it is, and the rules delete nothing for it."""
    assert parse('{"type":"cf_agent_chat_messages","messages":[]}') == SyncMessages([])


@pytest.mark.parametrize("follows", [True, False])
def test_a_state_is_promised_only_where_one_follows(follows: bool) -> None:
    """Trap 220: a client that was promised one is not ready until it comes."""
    frame = json.loads(frames.identity("ann", "chat", state_follows=follows))
    assert frame.get("stateFollows", False) is follows


# -- what the chunks make of the message ------------------------------------------------------------------------------


def parts_of(*chunks: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the parts that a handler's chunks become, behind the normaliser and the fold."""
    normaliser, fold = Normaliser("a1"), MessageFold("a1")
    for each in [fed for given in chunks for fed in normaliser.feed(given)] + normaliser.finish():
        fold.apply(each)
    return [part for part in fold.message().to_dict()["parts"] if part["type"] != "step-start"]


CALL = {"type": "tool-input-available", "toolCallId": "k", "toolName": "look", "input": {}}
SIGNED = {"provider": {"signature": "s"}}


def test_what_a_provider_signed_a_call_with_is_kept_beside_the_call() -> None:
    """Trap 91: some providers refuse the call without it when it comes back."""
    assert parts_of({**CALL, "providerMetadata": SIGNED})[0]["callProviderMetadata"] == SIGNED


@pytest.mark.parametrize("where", ["start", "delta", "end"])
def test_a_signature_of_a_reasoning_is_kept_wherever_it_came(where: str) -> None:
    """Trap 92: most send it with the end."""
    chunks: list[dict[str, Any]] = [{"type": f"reasoning-{kind}", "id": "r"} for kind in ("start", "delta", "end")]
    chunks[1]["delta"] = "hm"
    next(chunk for chunk in chunks if chunk["type"].endswith(where))["providerMetadata"] = SIGNED
    part = parts_of(*chunks)[0]
    assert (part["text"], part["providerMetadata"]) == ("hm", SIGNED)


def test_a_reasoning_without_words_is_kept_for_what_was_signed() -> None:
    """Trap 148: redacted thinking is empty, and needed."""
    opened = {"type": "reasoning-start", "id": "r", "providerMetadata": SIGNED}
    part = parts_of(opened, {"type": "reasoning-end", "id": "r"})[0]
    assert (part["type"], part["text"], part["providerMetadata"]) == ("reasoning", "", SIGNED)


def test_a_final_output_is_not_preliminary_any_more() -> None:
    """Trap 119: whether or not the last chunk says so."""
    outputs = [{"type": "tool-output-available", "toolCallId": "k", "output": 1, "preliminary": True}]
    outputs.append({"type": "tool-output-available", "toolCallId": "k", "output": 2})
    part = parts_of(CALL, *outputs)[0]
    assert (part["output"], part.get("preliminary", False)) == (2, False)


def test_a_continuation_may_think_and_its_reasoning_is_opened_first() -> None:
    """Trap 93: the client throws at a piece of a part that was never opened."""
    base = UIMessage("a1", "assistant", [{"type": "step-start"}, {"type": "text", "text": "x", "state": "done"}])
    normaliser = Normaliser("a1", base=base)
    said = normaliser.feed({"type": "reasoning-delta", "id": "r", "delta": "hm"})
    assert [chunk["type"] for chunk in said] == ["start-step", "reasoning-start", "reasoning-delta"]


def test_a_superseded_turn_leaves_parked_clients_to_its_successor() -> None:
    """Trap 10."""
    tab = Tab(accepted(1, origin="other"))
    tab.asks()
    superseded = ended(Outcome.SKIPPED, reason="superseded")
    frames = tab.happens(superseded, accepted(2, origin="other"), chunk(0, 2))
    assert kinds(frames) == ["chat_messages", "resuming"]
