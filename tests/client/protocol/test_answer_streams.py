from __future__ import annotations

from typing import Any

from everyword.client.protocol.answer_streams import AnswerStreams
from everyword.messages.message import UIMessage

OPEN = {"type": "text-start", "id": "t"}


def delta(text: str) -> dict[str, Any]:
    return {"type": "text-delta", "id": "t", "delta": text}


def begun(request: str = "r", message_id: str = "a", **frame: Any) -> AnswerStreams:
    streams = AnswerStreams()
    streams.begin(request, None, is_whole=False)
    for chunk in ({"type": "start", "messageId": message_id}, OPEN, delta("one")):
        streams.receive(request, frame, chunk)
    return streams


def texts(streams: AnswerStreams) -> list[tuple[str, str]]:
    return [(request, message.text) for request, message in streams.take_grown()]


def test_a_message_is_returned_once_until_it_grows_again() -> None:
    streams = begun()
    assert texts(streams) == [("r", "one")]
    assert texts(streams) == []
    streams.receive("r", {}, delta(" two"))
    assert texts(streams) == [("r", "one two")]


def test_a_replay_is_held_back_until_it_is_complete() -> None:
    streams = begun(replay=True)
    assert (texts(streams), streams.shown_messages()) == ([], [])
    streams.replay_completed("r")
    assert texts(streams) == [("r", "one")]
    assert [message["id"] for message in streams.shown_messages()] == ["a"]


def test_chunks_of_a_continuation_are_applied_once() -> None:
    base = UIMessage("a", "assistant", [{"type": "text", "text": "one", "state": "done"}])
    streams = AnswerStreams()
    streams.begin("c", base, is_whole=False)
    for index, chunk in ((0, OPEN), (1, delta(" two")), (1, delta(" two"))):
        streams.receive("c", {"continuation": True, "seq": index}, chunk)
    assert texts(streams) == [("c", "one two")]


def test_a_dropped_stream_is_not_returned() -> None:
    streams = begun()
    streams.drop("r")
    assert texts(streams) == []


def test_a_chunk_that_does_not_fit_is_a_problem() -> None:
    streams = begun()
    streams.receive("r", {}, {"type": "text-delta", "id": "other", "delta": "x"})
    assert texts(streams) == [("r", "one")]
    assert len(streams.problems) == 1
