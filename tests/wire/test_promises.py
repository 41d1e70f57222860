"""What docs/protocol.md promises of frames: which client gets which frame, in which order and form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from everyword.core.replay import TurnReplay
from everyword.events import CallAnswered, ChatCleared, Event, MessagesPut, Outcome, Placed, TurnKind, to_raw
from everyword.ids import CallId, Generation, MessageId, NodeId, RequestId, Seq
from everyword.wire import frames
from everyword.wire.parse import BadRequest, Other, parse
from tests.wire.kit import BODY, Tab, Told, accepted, chunk, decoded, ended, kinds, known, message_ended

CLEARED: list[Event] = [ended(Outcome.ABORTED, reason="cleared"), ChatCleared(Generation(1))]
STOPPED: list[Event] = [message_ended(), ended(Outcome.ABORTED)]
COMPLETED: list[Event] = [message_ended(), ended()]
FAILED: list[Event] = [message_ended(), ended(Outcome.ERROR, error="boom")]


def observer(role: str) -> Tab:
    """A connection that asked for the running turn, joined it, or watches it."""
    tab = Tab(accepted(origin="me" if role == "asked" else "other"), chunk(0))
    tab.shown = [(NodeId(1), b'{"id":"u1"}', False), (NodeId(2), b'{"id":"a1"}', False)]
    if role == "joined":
        tab.asks()
        tab.view.replayed(TurnReplay(Seq(2), RequestId("r1"), [(None, b"{}")]))
    return tab


@pytest.mark.parametrize(
    ("role", "events", "told"),
    [
        ("asked", COMPLETED, ["done"]),
        ("joined", COMPLETED, ["done", "chat_messages"]),
        ("watching", COMPLETED, ["chat_messages", "done"]),
        ("asked", FAILED, ["done"]),
        ("joined", FAILED, ["done", "chat_messages"]),
        ("watching", FAILED, ["chat_messages", "done"]),
        ("asked", STOPPED, ["message_updated", "done"]),
        ("joined", STOPPED, ["done", "chat_messages"]),
        ("watching", STOPPED, ["chat_messages", "message_updated", "done"]),
        ("asked", CLEARED, ["done", "chat_clear"]),
        ("joined", CLEARED, ["done", "chat_clear"]),
        ("watching", CLEARED, ["chunk", "done", "chat_clear"]),
        ("asked", [chunk(1)], ["chunk"]),
        ("joined", [chunk(1)], ["chunk"]),
        ("watching", [chunk(1)], ["chunk"]),
    ],
)
def test_every_observer_is_told_of_a_turn_as_the_table_says(role: str, events: list[Event], told: list[str]) -> None:
    """P-39, P-49: one end each; the transcript before it for who watched, behind it for who joined."""
    frames_told = observer(role).happens(*events)
    assert kinds(frames_told) == told
    assert [frame.get("outcome") is not None for frame in frames_told] == [kind == "done" for kind in told]


@pytest.mark.parametrize(
    ("chat", "told"),
    [
        ({}, ["chat_messages"]),
        ({"open": [known()]}, ["pending", "chat_messages"]),
        ({"open": [known(has_chunks=True)]}, ["resuming"]),
    ],
    ids=["idle", "waiting", "streaming"],
)
def test_a_greeting_is_as_the_table_says_and_answers_no_probe(chat: dict[str, Any], told: list[str]) -> None:
    """P-30 and the first table of section 9; a proactive frame repeats no probe's id."""
    greeting = decoded(Tab(**chat).view.connected())
    assert kinds(greeting) == told
    assert [frame for frame in greeting if "probeId" in frame] == []


def test_a_greeting_leaves_out_a_continuation_of_a_connected_client() -> None:
    """P-26: its owner shakes hands for it; others read it live."""
    running = known(has_chunks=True, owner="pk-other")
    running.is_continuation = True
    assert Tab(open=[running], present=("pk-other",)).view.connected() == []


def test_an_acknowledged_turn_is_replayed_and_goes_on_live_without_a_gap_or_a_double() -> None:
    """P-27, P-28, P-29: nothing of an offered turn before the acknowledgement; then what the replay lacks."""
    tab = Tab(accepted(origin="other"), chunk(0))
    tab.asks()
    assert tab.happens(chunk(1)) == []
    tab.acknowledges()
    tab.view.replayed(TurnReplay(Seq(4), RequestId("r1"), [(None, b"{}")]))
    assert tab.view.passed(Told(chunk(2)), RequestId("r1")) == []
    assert [frame["seq"] for frame in tab.happens(chunk(3), chunk(4))] == [3, 4]


@pytest.mark.parametrize("cause", ["in the stream", "thrown"])
def test_a_failure_is_one_frame_whatever_the_cause(cause: str) -> None:
    """P-31, P-40: `done`, `error`, outcome and questions together."""
    told = Tab(accepted(origin="me"), chunk(0)).happens(message_ended(), ended(Outcome.ERROR, error=cause))
    assert told == [
        {
            "type": "cf_agent_use_chat_response",
            "id": "r1",
            "body": cause,
            "done": True,
            "error": True,
            "outcome": "error",
            "messageIds": ["u1"],
        }
    ]


def _everything_sent() -> list[bytes]:
    request = RequestId("r1")
    made = [frames.terminal(request, outcome) for outcome in Outcome]
    made += [frames.resuming(request), frames.resume_none(), frames.pending(request), frames.pending(None)]
    made += [frames.messages([]), frames.messages([BODY], connect=True), frames.message_updated(bytes(BODY))]
    made += [frames.replay_complete(request, is_continuation=False), frames.mcp_servers(), frames.CLEAR]
    made += [frames.identity("ann", "chat", state_follows=False), frames.state_error("no"), frames.rpc_error("c", "no")]
    for index in (None, 0, 1):
        frame = frames.ChunkFrames(request, is_continuation=index == 1)
        made += [frame.live(b"{}", index), frame.replayed(b"{}", index)]
    return made


def test_no_frame_has_a_field_that_does_not_apply() -> None:
    """P-37."""
    for frame in map(json.loads, _everything_sent()):
        assert [name for name, value in frame.items() if value is None] == []


def test_a_frame_with_an_error_has_a_text_and_one_without_has_one_chunk_or_nothing() -> None:
    """P-38."""
    for frame in map(json.loads, _everything_sent()):
        if frame["type"] == "cf_agent_use_chat_response" and not frame.get("error"):
            assert frame["body"] == "" or isinstance(json.loads(frame["body"]), dict)


@pytest.mark.parametrize("is_continuation", [False, True])
def test_a_replayed_chunk_differs_from_the_live_one_by_one_flag(is_continuation: bool) -> None:
    """P-41, P-42, P-50."""
    frame, chunk = frames.ChunkFrames(RequestId("r1"), is_continuation=is_continuation), b'{"type":"start"}'
    live, replayed = json.loads(frame.live(chunk, 7)), json.loads(frame.replayed(chunk, 7))
    assert replayed == {**live, "replay": True}
    assert (live["seq"], live.get("continuation", False)) == (7, is_continuation)


def test_the_origin_of_a_change_gets_the_stored_form_and_others_the_change() -> None:
    """P-43: by the socket, and not by the client's own word for itself; all of these are of one `_pk`."""
    added = Placed(NodeId(1), None, MessageId("u1"), "user", BODY)
    put = MessagesPut([added], origin="me")
    assert kinds(Tab().happens(put)) == ["message_updated"]
    assert len(Tab(socket="same client, other socket").happens(put)) == 1
    clear = ChatCleared(Generation(1), origin="me")
    assert kinds(Tab().happens(clear)) == ["chat_messages"], "what was on its way may have come back: nothing is left"
    assert kinds(Tab(socket="same client, other socket").happens(clear)) == ["chat_clear"]


def test_a_transcript_has_no_answer_that_still_streams_for_its_reader() -> None:
    """P-44."""
    tab = observer("watching")
    before = tab.happens(accepted(2, origin="other"))[0]
    after = tab.happens(message_ended())[0]
    assert [[message["id"] for message in frame["messages"]] for frame in (before, after)] == [["u1"], ["u1", "a1"]]


def test_an_answered_call_is_sent_to_all_connected_clients() -> None:
    """P-45: also to who answered it."""
    for role in ("asked", "joined", "watching"):
        told = observer(role).happens(CallAnswered(NodeId(2), CallId("k"), "result", to_raw(1), origin="me"))
        assert kinds(told) == ["message_updated"]


@pytest.mark.parametrize("outcome", [Outcome.COMPLETED, Outcome.ERROR, Outcome.ABORTED])
def test_a_turn_that_ended_unwatched_is_found_on_connect_and_a_failure_also_by_asking(outcome: Outcome) -> None:
    """P-46."""
    tab = Tab(last_ended=known(has_chunks=True, outcome=outcome))
    tab.shown = [(NodeId(2), b'{"id":"a1"}', False)]
    assert decoded(tab.view.connected())[0]["messages"] == [{"id": "a1"}]
    expected = "cf_agent_stream_resuming" if outcome is Outcome.ERROR else "cf_agent_stream_resume_none"
    assert tab.asks()[0]["type"] == expected


@pytest.mark.parametrize("kind", list(TurnKind))
def test_a_skipped_turn_is_sent_to_its_origin_and_releases_waiting_clients(kind: TurnKind) -> None:
    """P-40 and the last rows of section 9's table."""
    told = Tab(accepted(kind=kind, origin="me", owner="pk-me")).happens(ended(Outcome.SKIPPED))
    expected = {TurnKind.CHAT: ["done"], TurnKind.CONTINUATION: ["resume_none"]}
    assert kinds(told) == expected.get(kind, [])
    assert Tab(accepted(kind=kind, origin="other", owner="pk")).happens(ended(Outcome.SKIPPED)) == []


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"type":"cf_agent_use_chat_request","id":"r1","init":{"method":"POST","body":"{"}}', BadRequest),
        ('{"type":"cf_agent_use_chat_request","init":{}}', BadRequest),
        ('{"type":"cf_agent_tool_result"}', Other),
        ("\ud800", Other),
    ],
)
def test_a_frame_that_cannot_be_used_is_refused_or_passed_over(text: str, kind: type) -> None:
    """P-36."""
    assert isinstance(parse(text), kind)
