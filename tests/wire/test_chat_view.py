"""One connection's state machine: the two resume tables, and which client gets which frame, in which order."""

from __future__ import annotations

import json

import pytest
from msgspec import Raw

from everyword.core.replay import TurnReplay
from everyword.events import (
    AttemptStarted,
    CallAnswered,
    ChatCleared,
    Event,
    HookDone,
    MessageReplaced,
    MessagesPut,
    Outcome,
    Placed,
    TurnKind,
    TurnRetargeted,
)
from everyword.ids import Attempt, CallId, Generation, MessageId, Millis, NodeId, RequestId, Seq, TurnId
from everyword.wire.client_list import IGNORED
from everyword.wire.resume_handshake import NeedsReplay
from tests.wire.kit import BODY, Tab, Told, accepted, chunk, decoded, ended, kinds, known, message_ended

# -- the first table: a probe -------------------------------------------------------------------------------------


def test_a_probe_when_nothing_happened_is_answered_idle_with_its_id() -> None:
    assert Tab().asks("p7") == [{"type": "cf_agent_stream_resume_none", "reason": "idle", "probeId": "p7"}]


@pytest.mark.obligation("000-5.2.C")
def test_a_probe_after_a_turn_completed_is_answered_idle() -> None:
    tab = Tab(accepted(), chunk(0), message_ended(), ended())
    assert tab.asks()[0]["reason"] == "idle"


def test_a_probe_while_a_turn_streams_is_offered_it_and_gets_nothing_of_it_until_it_acknowledges() -> None:
    tab = Tab(accepted(origin="other"), chunk(0))
    assert tab.asks() == [{"type": "cf_agent_stream_resuming", "id": "r1", "probeId": "p1"}]
    assert tab.happens(chunk(1)) == []


def test_a_probe_while_a_turn_waits_is_parked_then_offered_at_its_first_chunk() -> None:
    tab = Tab(accepted(origin="other"))
    assert tab.asks() == [{"type": "cf_agent_stream_pending", "id": "r1", "probeId": "p1"}]
    assert tab.happens(AttemptStarted(TurnId(1), Attempt(1)), chunk(0)) == [
        {"type": "cf_agent_stream_resuming", "id": "r1"}
    ]
    assert tab.happens(chunk(1)) == []


def test_a_probe_names_the_latest_of_several_waiting_turns() -> None:
    assert Tab(accepted(1), accepted(2)).asks()[0]["id"] == "r2"


@pytest.mark.obligation("001-4.a")
def test_a_probe_after_an_error_is_offered_the_failed_turn() -> None:
    tab = Tab(accepted(), chunk(0), ended(Outcome.ERROR, error="boom"))
    assert tab.asks() == [{"type": "cf_agent_stream_resuming", "id": "r1", "probeId": "p1"}]
    tab.happens(accepted(2, origin="other"))
    assert kinds(tab.happens(chunk(0, 2))) == ["chunk"], "an offer of a failed turn holds nothing back"


def test_a_probe_after_an_error_and_a_later_success_is_answered_idle() -> None:
    tab = Tab(accepted(1), ended(Outcome.ERROR, error="boom"), accepted(2), chunk(0, 2), ended(turn=2))
    assert tab.asks()[0]["reason"] == "idle"


@pytest.mark.parametrize(("present", "answer"), [(("pk-other",), "continuation-owned"), ((), None)])
def test_a_continuation_of_another_client_is_offered_only_when_that_client_is_gone(
    present: tuple[str, ...], answer: str | None
) -> None:
    tab = Tab(accepted(kind=TurnKind.CONTINUATION, owner="pk-other"), chunk(0), present=present)
    frame = tab.asks()[0]
    assert frame.get("reason") == answer
    assert (frame["type"] == "cf_agent_stream_resuming") == (answer is None)


def test_a_waiting_continuation_of_mine_parks_me_and_is_named() -> None:
    tab = Tab(accepted(1), accepted(2, kind=TurnKind.CONTINUATION, owner="pk-me"))
    assert tab.asks() == [{"type": "cf_agent_stream_pending", "id": "r2", "probeId": "p1"}]


def test_a_retargeted_continuation_belongs_to_its_new_owner() -> None:
    tab = Tab(accepted(kind=TurnKind.CONTINUATION, owner="pk-other"), present=("pk-other",))
    assert tab.asks()[0]["reason"] == "idle"
    tab.happens(TurnRetargeted(TurnId(1), NodeId(2), MessageId("a1"), Millis(0), owner="pk-me"))
    assert tab.asks()[0]["type"] == "cf_agent_stream_pending"


def test_a_parked_client_is_released_when_the_last_waiting_turn_ends_without_a_chunk() -> None:
    tab = Tab(accepted(1, origin="other"), accepted(2, origin="other"))
    tab.asks()
    assert kinds(tab.happens(ended(Outcome.ABORTED, 1))) == ["done"]
    assert kinds(tab.happens(ended(Outcome.ABORTED, 2))) == ["done", "chat_messages", "resume_none"]


def test_a_parked_client_is_offered_a_turn_that_failed_before_its_first_chunk() -> None:
    tab = Tab(accepted(origin="other"))
    tab.asks()
    frames = tab.happens(ended(Outcome.ERROR, error="boom"))
    assert kinds(frames) == ["done", "resuming"]
    assert frames[1]["id"] == "r1"


# -- the second table: an acknowledgement -------------------------------------------------------------------------


def test_an_acknowledgement_of_another_turn_than_the_running_one_is_ignored_and_the_offer_stands() -> None:
    tab = Tab(accepted(origin="other"), chunk(0))
    tab.asks()
    assert tab.acknowledges("r9") is None
    assert tab.happens(chunk(1)) == []
    assert tab.acknowledges("r1") == NeedsReplay(RequestId("r1"), is_awaited=True)


@pytest.mark.obligation("000-5.2.A")
def test_an_acknowledged_running_turn_is_replayed_completed_and_then_live() -> None:
    tab = Tab(accepted(origin="other"), chunk(0))
    tab.asks()
    replay = TurnReplay(Seq(5), RequestId("r1"), chunks=[(None, b'{"type":"start"}'), (None, b'{"type":"start-step"}')])
    frames = decoded(tab.view.replayed(replay))
    assert kinds(frames) == ["chunk", "chunk", "complete"]
    assert all(frame["replay"] for frame in frames)
    assert tab.view.passed(Told(chunk(1)), RequestId("r1")) == []
    live = tab.happens(chunk(2))
    assert kinds(live) == ["chunk"]
    assert (live[0]["seq"], "replay" in live[0]) == (2, False)


@pytest.mark.obligation("000-5.2.B")
def test_an_acknowledged_completed_turn_is_replayed_with_its_done() -> None:
    tab = Tab(accepted(), chunk(0), message_ended(), ended())
    assert tab.acknowledges() == NeedsReplay(RequestId("r1"))
    replay = TurnReplay(
        Seq(5), RequestId("r1"), [(None, b"{}")], outcome=Outcome.COMPLETED, message_ids=[MessageId("u1")]
    )
    frames = decoded(tab.view.replayed(replay))
    assert kinds(frames) == ["chunk", "done", "chat_messages"]
    assert frames[1] == {
        "type": "cf_agent_use_chat_response",
        "id": "r1",
        "body": "",
        "done": True,
        "replay": True,
        "outcome": "completed",
        "messageIds": ["u1"],
    }


@pytest.mark.obligation("000-5.2.D", "000-7.a", "000-9.4", "001-4.b", "001-7")
def test_a_late_acknowledgement_after_an_error_gets_the_chunks_and_then_the_error_in_one_frame() -> None:
    tab = Tab(accepted(), chunk(0), chunk(1), message_ended(), ended(Outcome.ERROR, error="boom"))
    assert tab.acknowledges() == NeedsReplay(RequestId("r1"))
    replay = TurnReplay(Seq(5), RequestId("r1"), [(None, b"{}"), (None, b"{}")], outcome=Outcome.ERROR, error="boom")
    frames = decoded(tab.view.replayed(replay))
    assert kinds(frames) == ["chunk", "chunk", "complete", "done", "chat_messages"]
    wanted = {"body": "boom", "done": True, "error": True, "replay": True, "outcome": "error"}
    assert {key: frames[-2][key] for key in wanted} == wanted


def test_an_acknowledgement_of_an_unknown_turn_gets_a_bare_done() -> None:
    tab = Tab()
    frames = decoded(tab.view.replayed(TurnReplay(Seq(0), RequestId("r9"), is_known=False)))
    assert frames == [{"type": "cf_agent_use_chat_response", "id": "r9", "body": "", "done": True, "replay": True}]


def test_a_turn_that_ended_between_offer_and_acknowledgement_is_replayed_and_its_end_comes_live() -> None:
    tab = Tab(accepted(origin="other"), chunk(0))
    tab.asks()
    replay = TurnReplay(Seq(9), RequestId("r1"), [(None, b"{}")], outcome=Outcome.COMPLETED)
    assert kinds(decoded(tab.view.replayed(replay))) == ["chunk", "complete"]
    frames = tab.happens(chunk(1), message_ended(), ended())
    assert kinds(frames) == ["done", "chat_messages"]


def test_a_second_acknowledgement_replays_again() -> None:
    tab = Tab(accepted(origin="other"), chunk(0))
    tab.asks()
    replay = TurnReplay(Seq(5), RequestId("r1"), [(None, b"{}")])
    first = tab.view.replayed(replay)
    assert tab.acknowledges() is not None
    assert tab.view.replayed(replay) == first


# -- which client gets which frame -----------------------------------------------------------------------------------


def test_the_asking_client_gets_its_stored_question_chunks_and_end() -> None:
    frames = Tab(accepted(origin="me"), chunk(0), chunk(1), message_ended(), ended()).frames
    assert kinds(frames) == ["message_updated", "chunk", "chunk", "done"]
    assert frames[0]["message"] == json.loads(bytes(BODY))
    assert [frame.get("seq") for frame in frames[1:]] == [0, 1, None]
    assert frames[-1]["messageIds"] == ["u1"]


@pytest.mark.obligation("003-8")
def test_another_tab_gets_the_question_the_chunks_the_transcript_and_then_the_end() -> None:
    frames = Tab(accepted(origin="other"), chunk(0), message_ended(), ended()).frames
    assert kinds(frames) == ["chat_messages", "chunk", "chat_messages", "done"]


def test_the_asking_client_gets_the_transcript_if_sanitising_changed_it() -> None:
    frames = Tab(accepted(origin="me"), chunk(0), message_ended(sanitized=True), ended()).frames
    assert kinds(frames) == ["message_updated", "chunk", "chat_messages", "done"]


def test_all_clients_get_the_transcript_of_a_continuation_with_marked_frames() -> None:
    tab = Tab(accepted(kind=TurnKind.CONTINUATION, origin="other", owner="pk"))
    frames = tab.happens(chunk(0), message_ended(), ended())
    assert kinds(frames) == ["chunk", "chat_messages", "done"]
    assert frames[0]["continuation"] is True and frames[2]["continuation"] is True


def test_a_client_that_never_acknowledges_gets_the_transcript_and_the_end() -> None:
    tab = Tab(accepted(origin="other"), chunk(0))
    tab.asks()
    assert kinds(tab.happens(chunk(1), message_ended(), ended())) == ["chat_messages", "done"]
    assert kinds(tab.happens(accepted(2, origin="other"), chunk(0, 2))) == ["chat_messages", "chunk"]


@pytest.mark.obligation("000-4.d")
def test_a_skipped_turn_sends_one_done_to_its_sender_and_nothing_to_others() -> None:
    mine = Tab(accepted(origin="me")).happens(ended(Outcome.SKIPPED))
    assert [(frame["done"], frame["outcome"], frame["messageIds"]) for frame in mine] == [(True, "skipped", ["u1"])]
    assert Tab(accepted(origin="other")).happens(ended(Outcome.SKIPPED)) == []


def test_a_dropped_question_sends_its_sender_the_transcript_before_the_skipped_frame() -> None:
    tab = Tab()
    events = [accepted(origin="me", dropped=True), ended(Outcome.SKIPPED, reason="dropped")]
    assert kinds(tab.happens(*events)) == ["chat_messages", "done"]
    assert Tab().happens(accepted(origin="other", dropped=True), events[1]) == []


def test_clearing_comes_after_the_ends_and_its_origin_gets_an_empty_list() -> None:
    events = [accepted(origin="other"), chunk(0), ended(Outcome.ABORTED, reason="cleared")]
    cleared = ChatCleared(Generation(1), origin="other")
    assert kinds(Tab(*events).happens(cleared)) == ["chat_clear"]
    assert kinds(Tab(*events, socket="other").happens(cleared)) == ["chat_messages"]


def test_clearing_releases_a_parked_client() -> None:
    tab = Tab(accepted(origin="other"))
    tab.asks()
    frames = tab.happens(ended(Outcome.SKIPPED, reason="cleared"), ChatCleared(Generation(1)))
    assert kinds(frames) == ["resume_none", "chat_clear"]


def test_a_stored_message_goes_to_its_origin_and_the_transcript_to_others() -> None:
    put = MessagesPut([Placed(NodeId(1), None, MessageId("u1"), "user", BODY)], origin="me")
    replaced = MessageReplaced(NodeId(1), BODY, origin="me")
    for event in (put, replaced):
        assert kinds(Tab().happens(event)) == ["message_updated"]
        assert kinds(Tab(socket="other").happens(event)) == ["chat_messages"]


def test_an_answered_call_updates_the_message_everywhere() -> None:
    tab = Tab()
    tab.shown = [(NodeId(2), b'{"id":"a1"}', False)]
    answered = CallAnswered(NodeId(2), CallId("k1"), "result", Raw(b"1"), origin="me")
    assert tab.happens(answered) == [{"type": "cf_agent_message_updated", "message": {"id": "a1"}}]


def test_late_calls_update_their_message_and_are_told_in_no_other_way() -> None:
    tab = Tab()
    tab.shown = [(NodeId(2), b'{"id":"a1"}', False)]
    late = [accepted(kind=TurnKind.CALLS), AttemptStarted(TurnId(1), Attempt(1)), chunk(0)]
    assert tab.happens(*late, AttemptStarted(TurnId(1), Attempt(2), "crash"), chunk(1)) == []
    assert tab.happens(message_ended(), ended()) == [{"type": "cf_agent_message_updated", "message": {"id": "a1"}}]


def test_a_transcript_leaves_out_answers_whose_end_this_client_has_not_seen_unless_they_are_drafts() -> None:
    tab = Tab(accepted(1, origin="other"), chunk(0))
    tab.shown = [(NodeId(1), b'{"id":"u1"}', False), (NodeId(2), b'{"id":"a1"}', False)]
    shown = tab.happens(accepted(2, origin="other"))[0]["messages"]
    assert [message["id"] for message in shown] == ["u1"]
    tab.shown = [(NodeId(1), b'{"id":"u1"}', False), (NodeId(2), b'{"id":"a1"}', True)]
    shown = tab.happens(accepted(3, origin="other"))[0]["messages"]
    assert [message["id"] for message in shown] == ["u1", "a1"]


# -- connecting -------------------------------------------------------------------------------------------------------


def test_a_new_connection_is_sent_the_transcript_when_nothing_streams() -> None:
    frames = decoded(Tab().view.connected())
    assert frames == [{"type": "cf_agent_chat_messages", "messages": [], "connect": True}]


def test_a_new_connection_is_offered_what_streams_and_never_a_transcript() -> None:
    tab = Tab(open=[known(has_chunks=True)])
    assert decoded(tab.view.connected()) == [{"type": "cf_agent_stream_resuming", "id": "r1"}]
    assert tab.happens(chunk(3)) == []


def test_a_new_connection_hears_of_a_turn_that_waits() -> None:
    tab = Tab(open=[known()])
    assert kinds(decoded(tab.view.connected())) == ["pending", "chat_messages"]
    assert kinds(tab.happens(chunk(0))) == ["resuming"]


def test_the_frame_of_a_chunk_is_built_once_for_all_watchers() -> None:
    told = Told(chunk(0))
    frames = [Tab(accepted(origin="other")).view.happened(told)[0] for _ in range(3)]
    assert frames[0] is frames[1] is frames[2]


def test_the_stopping_client_gets_the_text_so_far_before_the_end() -> None:
    tab = Tab(accepted(origin="me"), chunk(0))
    tab.shown = [(NodeId(2), b'{"id":"a1"}', False)]
    frames = tab.happens(message_ended(), ended(Outcome.ABORTED))
    assert kinds(frames) == ["message_updated", "done"]


def test_a_client_that_only_watched_a_cleared_turn_is_made_to_drop_it() -> None:
    cleared = ended(Outcome.ABORTED, reason="cleared")
    frames = Tab(accepted(origin="other"), chunk(0)).happens(cleared)
    assert [(frame["done"], frame.get("error"), frame.get("outcome")) for frame in frames] == [
        (False, True, None),
        (True, None, "aborted"),
    ]
    assert kinds(Tab(accepted(origin="me"), chunk(0)).happens(cleared)) == ["done"]
    joined = Tab(accepted(origin="other"), chunk(0))
    joined.view.replayed(TurnReplay(Seq(5), RequestId("r1")))
    assert kinds(joined.happens(cleared)) == ["done"]


def test_a_client_that_joined_a_turn_gets_the_transcript_after_its_end() -> None:
    tab = Tab(accepted(origin="other"), chunk(0))
    tab.view.replayed(TurnReplay(Seq(5), RequestId("r1")))
    assert kinds(tab.happens(chunk(1), message_ended(), ended())) == ["chunk", "done", "chat_messages"]


def test_a_client_that_joined_a_continuation_gets_the_transcript_before_its_end() -> None:
    tab = Tab(accepted(origin="other", kind=TurnKind.CONTINUATION), chunk(0))
    tab.view.replayed(TurnReplay(Seq(5), RequestId("r1"), is_continuation=True))
    assert kinds(tab.happens(chunk(1), message_ended(), ended())) == ["chunk", "chat_messages", "done"]


def test_a_question_during_a_transcript_on_its_way_is_shown_again() -> None:
    tab = Tab(accepted(1, origin="other"))
    assert kinds(tab.happens(accepted(2, origin="me"))) == ["chat_messages"]
    assert kinds(tab.happens(accepted(3, origin="me"))) == ["chat_messages"], "that one may be on its way, too"
    tab.view.has_arrived()
    assert kinds(tab.happens(accepted(4, origin="me"))) == ["message_updated"]


def turn_of_mine(number: int = 1) -> list[Event]:
    return [accepted(number, origin="me"), chunk(0, number), message_ended(number), ended(turn=number)]


def test_a_client_that_has_a_later_answer_has_read_the_transcript() -> None:
    tab = Tab()
    tab.view.connected()
    assert kinds(tab.happens(*turn_of_mine())) == ["chat_messages", "chunk", "done"]
    tab.sends("u1", "a1", "u2")
    assert kinds(tab.happens(*turn_of_mine(2))) == ["message_updated", "chunk", "done"]


@pytest.mark.parametrize("sent", [("u1", "u2"), ("u2",), ("u1", "a0", "u2")])
def test_a_client_without_the_last_answer_may_not_have_read_the_transcript(sent: tuple[str, ...]) -> None:
    tab = Tab()
    tab.view.connected()
    tab.happens(*turn_of_mine())
    tab.sends(*sent)
    assert kinds(tab.happens(accepted(2, origin="me"))) == ["chat_messages"]


def test_an_answer_that_came_before_a_transcript_does_not_tell_that_it_was_read() -> None:
    tab = Tab(*turn_of_mine())
    tab.happens(accepted(2, origin="other"), chunk(0, 2), message_ended(2), ended(turn=2))
    tab.sends("u1", "a1", "u3")
    assert kinds(tab.happens(accepted(3, origin="me"))) == ["chat_messages"]


def test_an_answer_that_goes_on_after_a_transcript_does_not_tell_that_it_was_read() -> None:
    """Its id came before."""
    tab = Tab(accepted(1, origin="me"), chunk(0))
    tab.happens(MessagesPut([Placed(NodeId(9), None, MessageId("p"), "user", BODY)], cause="saved"), chunk(1))
    tab.sends("u1", "a1", "u2")
    assert kinds(tab.happens(accepted(2, origin="me"))) == ["chat_messages"]


def test_an_answer_to_another_does_not_tell_that_a_transcript_was_read() -> None:
    """It may have come with the page, by another way than this connection."""
    tab = Tab()
    tab.view.connected()
    tab.happens(accepted(1, origin="other"), chunk(0))
    tab.sends("u1", "a1", "u2")
    assert kinds(tab.happens(accepted(2, origin="me"))) == ["chat_messages"]


def test_a_client_with_another_list_gets_the_stored_one_after_the_answer() -> None:
    tab = Tab()
    tab.sends("u1", is_stale=True, is_new=True)
    assert kinds(tab.happens(*turn_of_mine())) == ["message_updated", "chunk", "done", "chat_messages"]


@pytest.mark.parametrize("is_between", [True, False])
def test_a_question_while_an_answer_ends_gets_the_conversation_after_its_own(is_between: bool) -> None:
    """What it sent was the whole conversation when it was looked at, and is not when the question is accepted."""
    tab = Tab(accepted(1, origin="me"), chunk(0))
    the_end = [message_ended(1), ended(turn=1)]
    if not is_between:
        tab.happens(*the_end)
    tab.sends("u1", "a1", "u2", request="r2")
    if is_between:
        tab.happens(*the_end)
    told = kinds(tab.happens(*turn_of_mine(2)))
    assert told == ["message_updated", "chunk", "done", *(["chat_messages"] if is_between else [])]
    tab.sends("u1", "a1", "u2", "a2", "u3", request="r3")
    tab.happens(HookDone(TurnId(2)))
    assert kinds(tab.happens(*turn_of_mine(3)))[-2:] == ["chunk", "done"], "what changes no message changes nothing"


def brief_tab() -> Tab:
    """A connection that was shown the conversation again and again, and asked as if it had not been, all but once."""
    tab = Tab()
    tab.shown = [(NodeId(1), b'{"id":"u1"}', False)]
    tab.view.connected()
    for number in range(1, IGNORED):
        tab.sends(f"u{number}", is_stale=True, is_new=True)
        assert kinds(tab.happens(*turn_of_mine(number))) == ["chat_messages", "chunk", "done", "chat_messages"]
    return tab


def test_a_client_that_sends_only_new_messages_gets_no_conversation_each_time() -> None:
    tab = brief_tab()
    tab.sends("u8", is_stale=True, is_new=True)
    assert kinds(tab.happens(*turn_of_mine(8))) == ["chat_messages", "chunk", "done"], "the last one may be on its way"
    for number in (9, 10):
        tab.sends(f"u{number}", is_stale=True, is_new=True)
        assert kinds(tab.happens(*turn_of_mine(number))) == ["message_updated", "chunk", "done"]


def test_a_client_that_sends_an_old_message_gets_the_conversation_it_lacks() -> None:
    tab = brief_tab()
    for number, sent, is_new in ((8, ("u1", "u8"), False), (9, ("u9",), True)):
        tab.sends(*sent, is_stale=True, is_new=is_new)
        assert kinds(tab.happens(*turn_of_mine(number)))[-3:] == ["chunk", "done", "chat_messages"]


def test_an_approval_without_a_chunk_is_shown_after_the_end() -> None:
    """No chunk says that a call was approved, and what goes on from there may wait for other answers for ever."""
    going_on = accepted(2, kind=TurnKind.CONTINUATION)
    answered = CallAnswered(NodeId(2), CallId("k"), "approval", Raw(b'{"approved":true}'), turn=TurnId(1))
    tab = Tab(accepted(origin="me"), chunk(0))
    assert tab.happens(answered, going_on) == []
    assert kinds(tab.happens(message_ended(), ended())) == ["done", "chat_messages"]


def test_a_client_that_asks_again_before_any_transcript_gets_the_conversation() -> None:
    """Requests that lay somewhere for a while come together, each without what was said since."""
    tab = Tab(*turn_of_mine())
    for number in range(2, 9):
        tab.sends(f"u{number}", is_stale=True, is_new=True)
    assert kinds(tab.happens(*turn_of_mine(2))) == ["message_updated", "chunk", "done", "chat_messages"]


def test_a_client_that_got_an_empty_conversation_has_nothing_to_resend() -> None:
    tab = brief_tab()
    tab.shown = []
    tab.happens(ChatCleared(Generation(1)))
    for number in range(8, 16):
        tab.sends(f"u{number}", is_stale=True, is_new=True)
        assert kinds(tab.happens(*turn_of_mine(number)))[-3:] == ["chunk", "done", "chat_messages"]


def test_a_client_that_lacks_an_answer_gets_the_conversation_after_its_next_one() -> None:
    tab = Tab(accepted(1, origin="me"), chunk(0), accepted(2, origin="me"))
    tab.shown = [(NodeId(4), b'{"id":"a2"}', False)]
    assert kinds(tab.happens(message_ended(1), ended(turn=1))) == ["done", "chat_messages"]
    assert kinds(tab.happens(chunk(0, 2), message_ended(2), ended(turn=2))) == ["chunk", "done", "chat_messages"]
