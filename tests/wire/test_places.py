"""The place of an answer that is followed by a message, and unrequested offers."""

from __future__ import annotations

from everyword.core.replay import TurnReplay
from everyword.events import LeafMoved, Outcome, TurnKind
from everyword.ids import NodeId, RequestId, Seq
from tests.wire.kit import Tab, accepted, chunk, decoded, ended, kinds, known, message_ended

WRITTEN = [(NodeId(1), b'{"id":"u1"}', False), (NodeId(2), b'{"id":"a1"}', True), (NodeId(3), b'{"id":"u2"}', False)]


def test_an_answer_with_a_question_behind_it_is_placed_once_as_soon_as_it_can_be_shown() -> None:
    """P-44."""
    tab = Tab(accepted(1, origin="other"), accepted(2, origin="other"))
    tab.followed, tab.shown = {2}, [WRITTEN[0], WRITTEN[2]]
    assert kinds(tab.happens(chunk(0))) == ["chunk"]
    tab.shown = WRITTEN
    told = tab.happens(chunk(1), chunk(2), chunk(3))
    assert kinds(told) == ["chunk", "chat_messages", "chunk", "chunk"]
    assert [message["id"] for message in told[1]["messages"]] == ["u1", "a1", "u2"]


def test_a_new_client_gets_the_place_of_the_running_answer_before_its_stream() -> None:
    """P-44."""
    tab = Tab(open=[known(has_chunks=True)])
    tab.followed, tab.shown = {2}, WRITTEN
    assert kinds(decoded(tab.view.connected())) == ["chat_messages", "resuming"]
    joining = Tab(accepted(1, origin="other"), chunk(0))
    joining.followed, joining.shown = {2}, WRITTEN
    told = decoded(joining.view.replayed(TurnReplay(Seq(2), RequestId("r1"), chunks=[(None, b'{"type":"start"}')])))
    assert kinds(told) == ["chat_messages", "chunk", "complete"]


def test_a_last_answer_whose_end_was_not_told_is_left_out_of_a_transcript_and_one_in_the_middle_is_not() -> None:
    """P-44."""
    tab = Tab(accepted(1, origin="other"), chunk(0))
    tab.shown = [WRITTEN[0], (NodeId(2), b'{"id":"a1"}', False)]
    assert [each["id"] for each in tab.happens(LeafMoved(NodeId(2)))[0]["messages"]] == ["u1"]
    tab.shown = [*tab.shown, WRITTEN[2]]
    assert [each["id"] for each in tab.happens(LeafMoved(NodeId(2)))[0]["messages"]] == ["u1", "a1", "u2"]


def test_an_answering_client_is_offered_the_continuation_and_gets_all_frames() -> None:
    """P-64."""
    tab = Tab(accepted(kind=TurnKind.CONTINUATION, origin="me", owner="pk-me"))
    assert kinds(tab.happens(chunk(0), chunk(1))) == ["resuming", "chunk", "chunk"]
    assert kinds(tab.happens(message_ended(), ended())) == ["chat_messages", "done"]


def test_a_client_that_takes_the_unasked_offer_gets_only_numbered_chunks() -> None:
    """P-64."""
    tab = Tab(accepted(kind=TurnKind.CONTINUATION, origin="me", owner="pk-me"))
    tab.happens(chunk(0))
    input_again, body = b'{"type":"tool-input-available"}', b'{"type":"text-delta","id":"t","delta":"x"}'
    chunks = [(None, input_again), (0, body)]
    replay = TurnReplay(Seq(2), RequestId("r1"), chunks=chunks, is_continuation=True)
    told = decoded(tab.view.replayed(replay))
    assert [frame.get("seq") for frame in told] == [0, None]
    assert told[-1]["replayComplete"] is True
    assert kinds(tab.happens(chunk(1), message_ended(), ended())) == ["chunk", "chat_messages", "done"]


def test_a_client_that_probes_is_not_offered_a_continuation_unasked() -> None:
    """P-64: the stock hook would take what comes before its acknowledgement for another message."""
    tab = Tab()
    tab.asks()
    told = tab.happens(accepted(kind=TurnKind.CONTINUATION, origin="me", owner="pk-me"), chunk(0), chunk(1))
    assert kinds(told) == ["chunk", "chunk"]
    other = Tab()
    other.asks()
    skipped = other.happens(accepted(kind=TurnKind.CONTINUATION, origin="me", owner="pk-me"), ended(Outcome.SKIPPED))
    assert skipped == []
