"""What a connection to an agent that does not chat is told: its state, and managed streams as they are committed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from everyword.events import (
    ChatCleared,
    Chunk,
    Event,
    LeafMoved,
    MessagesPut,
    MessagesRemoved,
    Outcome,
    StateSet,
    TurnAccepted,
    TurnEnded,
    TurnKind,
)
from everyword.ids import Attempt, Generation, MessageId, Millis, NodeId, RequestId, Seq, TurnId
from everyword.messages.managed_stream import encode_chunk_event
from everyword.runtime.tail import Committed
from everyword.wire.chat_view import ChatView, ViewMemory
from everyword.wire.connection_turns import ChatSnapshot
from everyword.wire.managed_stream_view import ManagedStreamView

STREAM, MESSAGE = RequestId("stream_1"), MessageId("msg_1")


def view(**streams: int) -> ManagedStreamView:
    """Return the view of a connection that comes while these streams are open."""
    known = {TurnId(turn): (RequestId(name), MESSAGE) for name, turn in streams.items()}
    others = ChatView(
        ViewMemory.new(ChatSnapshot(Seq(0))), socket="s1", owner="o", transcript=list, is_present=lambda owner: False
    )
    return ManagedStreamView(known, others)


def told(of: ManagedStreamView, *events: Event) -> list[dict[str, Any]]:
    page = [Committed(Seq(place), Millis(1), event) for place, event in enumerate(events, 1)]
    return [msgspec.json.decode(frame) for frame in of.happened_all(page)]


def accepted(kind: TurnKind = TurnKind.RSM) -> TurnAccepted:
    return TurnAccepted(TurnId(1), STREAM, kind, Generation(0), NodeId(0), None, MESSAGE)


def piece(index: int, content: str | None, restarts: int = 0) -> Chunk:
    return Chunk(TurnId(1), Attempt(1), index, Raw(encode_chunk_event(index, content, restarts)))


def test_a_stream_is_told_chunk_by_chunk_with_its_cuts_and_its_end() -> None:
    ended = TurnEnded(TurnId(1), Outcome.COMPLETED)
    assert told(view(), accepted(), piece(0, "a"), piece(0, None, 1), piece(0, "b", 1), ended) == [
        {"type": "rsm_stream_chunk", "streamId": STREAM, "index": 0, "content": "a"},
        {"type": "rsm_stream_cut", "streamId": STREAM, "index": 0, "restarts": 1},
        {"type": "rsm_stream_chunk", "streamId": STREAM, "index": 0, "content": "b", "restarts": 1},
        {"type": "rsm_stream_end", "streamId": STREAM, "messageId": MESSAGE, "status": "completed"},
    ]


def test_a_client_that_comes_in_the_middle_gets_the_rest() -> None:
    frames = told(view(stream_1=1), piece(3, "d"), TurnEnded(TurnId(1), Outcome.ERROR, error="boom"))
    assert [(frame["type"], frame.get("index"), frame.get("error")) for frame in frames] == [
        ("rsm_stream_chunk", 3, None),
        ("rsm_stream_end", None, "boom"),
    ]


def test_nothing_is_told_of_a_stream_after_its_end_or_of_one_that_is_not_managed() -> None:
    ended = TurnEnded(TurnId(1), Outcome.COMPLETED)
    assert told(view(stream_1=1), ended, piece(0, "late"))[1:] == []
    assert told(view(), accepted(TurnKind.STREAM), piece(0, "bare"), ended) == []
    assert told(view(stream_1=1), Chunk(TurnId(1), Attempt(1), 0, Raw(b'{"type":"start"}'))) == []


def test_a_cleared_stream_ends_without_an_error() -> None:
    ended = TurnEnded(TurnId(1), Outcome.ABORTED, reason="cleared")
    (frame,) = told(view(stream_1=1), ended, ChatCleared(Generation(1)))
    assert (frame["status"], "error" in frame) == ("cleared", False)


@pytest.mark.parametrize(
    "event", [MessagesPut([]), MessagesRemoved([NodeId(1)], cause="x"), LeafMoved(None), ChatCleared(Generation(1))]
)
def test_the_conversation_stays_unsaid(event: Event) -> None:
    assert told(view(), event) == []


def test_the_state_is_told_to_all_but_its_sender() -> None:
    assert told(view(), StateSet(Raw(b'{"a":1}'))) == [{"type": "cf_agent_state", "state": {"a": 1}}]
    assert told(view(), StateSet(Raw(b'{"a":1}'), "s1")) == []


def test_a_frame_is_made_once_for_all_clients() -> None:
    committed = Committed(Seq(1), Millis(1), piece(0, "a"))
    first, second = (view(stream_1=1).happened_all([committed]) for _ in range(2))
    assert first[0] is second[0]
