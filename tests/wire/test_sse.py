"""Server-sent events: what is written is what is read, however the bytes are cut on the way."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Raw

from everyword.events import (
    CallAnswered,
    CancelRequested,
    ChatCleared,
    Chunk,
    Event,
    Outcome,
    TurnAccepted,
    TurnEnded,
    TurnKind,
    decode_event,
    to_raw,
)
from everyword.ids import Attempt, CallId, Generation, MessageId, NodeId, RequestId, Seq, TurnId
from everyword.messages.sse import SseEvent, SseParser
from everyword.wire.sse import (
    DONE,
    KEEP_ALIVE,
    chunk_event,
    encode_sse,
    log_event,
    public_event,
    retry_after,
    terminal_events,
)


def read(pieces: Iterable[bytes]) -> list[SseEvent]:
    parser = SseParser()
    return [event for piece in pieces for event in parser.feed(piece)]


def cut(text: bytes, places: Iterable[int]) -> list[bytes]:
    edges = [0, *sorted({place % (len(text) + 1) for place in places}), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(edges)]


# -- writing and reading back ---------------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(st.text(), st.none() | st.integers(0, 2**40), st.none() | st.sampled_from(["snapshot", "ping"])),
        max_size=6,
    ),
    st.lists(st.integers(0, 400), max_size=8),
)
@example([("a\nb\r\nc\rd", 1, None)], [3])
def test_what_is_encoded_is_read_back_with_line_breaks_as_line_feeds(
    sent: list[tuple[str, int | None, str | None]], places: list[int]
) -> None:
    text = b"".join(encode_sse(data.encode(), event_id=eid, event=event) for data, eid, event in sent)
    expected = [
        SseEvent(data.replace("\r\n", "\n").replace("\r", "\n"), event or "message", None if eid is None else str(eid))
        for data, eid, event in sent
    ]
    assert read(cut(text, places)) == expected


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.none(), max_size=4), st.integers(0, 10**6))
def test_a_chunks_event_carries_its_json_and_its_index(body: dict[str, object], index: int) -> None:
    chunk = Chunk(TurnId(1), Attempt(1), index, to_raw(body))
    (event,) = read([chunk_event(chunk)])
    assert json.loads(event.data) == body
    assert event.id == str(index)


# -- reading, however it is cut ---------------------------------------------------------------------------------

LINES = st.one_of(
    st.sampled_from(["", "", "", ": comment", ":", "data", "data:", "data: ", "id", "event:", "other: x", "retry: 7"]),
    st.builds(
        lambda name, gap, value: f"{name}:{gap}{value}",
        st.sampled_from(["data", "data", "data", "id", "event", "retry"]),
        st.sampled_from(["", " ", "  "]),
        st.text(st.characters(blacklist_characters="\r\n", blacklist_categories=["Cs"]), max_size=8),
    ),
)
STREAMS = st.lists(st.tuples(LINES, st.sampled_from(["\n", "\n", "\r\n", "\r"])), max_size=16).map(
    lambda lines: "".join(line + end for line, end in lines).encode()
)


@given(STREAMS, st.lists(st.integers(0, 400), max_size=12))
@example("data: ä€😀\r\n\r\ndata: x\r\rid: 3\ndata\n\n".encode(), [7, 8, 9, 12, 13])
def test_the_same_bytes_give_the_same_events_wherever_they_are_cut(stream: bytes, places: list[int]) -> None:
    whole = read([stream])
    assert read(cut(stream, places)) == whole
    assert read(stream[at : at + 1] for at in range(len(stream))) == whole


def test_every_single_cut_of_a_stream_gives_the_same_events() -> None:
    stream = "﻿id: 1\r\ndata: grüße 😀\r\n\r\n: note\rdata: a\rdata: b\r\revent: x\ndata\n\n".encode()
    expected = [SseEvent("grüße 😀", id="1"), SseEvent("a\nb"), SseEvent("", "x")]
    for first in range(len(stream) + 1):
        for second in range(first, len(stream) + 1):
            assert read([stream[:first], stream[first:second], stream[second:]]) == expected


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: one\n\n", [SseEvent("one")]),
        (b"data:one\n\n", [SseEvent("one")]),
        (b"data:  one\n\n", [SseEvent(" one")]),
        (b"data\n\n", [SseEvent("")]),
        (b"data: 1\ndata: 2\n\n", [SseEvent("1\n2")]),
        (b"id: 4\n\n", []),
        (b"id: a\0b\ndata: x\n\n", [SseEvent("x")]),
        (b"event: e\n\ndata: x\n\n", [SseEvent("x")]),
        (b": only a comment\n\n", []),
        (b"data: cut off\n", []),
        (b"data: \xff\n\n", [SseEvent("\N{REPLACEMENT CHARACTER}")]),
    ],
)
def test_fields_mean_what_the_standard_says(stream: bytes, expected: list[SseEvent]) -> None:
    assert read([stream]) == expected


def test_the_reader_remembers_the_last_id_and_the_retry_time() -> None:
    parser = SseParser()
    parser.feed(retry_after(1500) + encode_sse(b"x", event_id=7) + encode_sse(b"y") + KEEP_ALIVE)
    assert (parser.last_event_id, parser.retry) == ("7", 1500)
    parser.feed(b"retry: soon\nretry: 99999999999\nid\n\n")
    assert (parser.last_event_id, parser.retry) == ("", 1500)


# -- endings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Outcome.COMPLETED, None),
        (Outcome.ERROR, {"type": "error", "errorText": "No luck."}),
        (Outcome.ABORTED, {"type": "abort", "reason": "cancelled"}),
        (Outcome.SKIPPED, {"type": "abort", "reason": "cancelled"}),
    ],
)
def test_every_outcome_has_one_ending_and_then_done(outcome: Outcome, expected: dict[str, str] | None) -> None:
    text = terminal_events(outcome, chunks=5, error="No luck.", reason="cancelled")
    *endings, done = read([text])
    assert text.endswith(DONE)
    assert done == SseEvent("[DONE]")
    assert [(json.loads(ending.data), ending.id) for ending in endings] == ([(expected, "5")] if expected else [])


def test_an_ending_without_words_still_says_something() -> None:
    assert b"The answer failed." in terminal_events(Outcome.ERROR, chunks=0)
    assert b"skipped" in terminal_events(Outcome.SKIPPED, chunks=0)


# -- the log as it is ------------------------------------------------------------------------------------------------

SECRET = "nobody's business"
PRIVATE: list[Event] = [
    TurnAccepted(
        TurnId(1),
        RequestId("r1"),
        TurnKind.CHAT,
        Generation(0),
        NodeId(2),
        NodeId(1),
        MessageId("a1"),
        origin=SECRET,
        owner=SECRET,
        body=to_raw({"token": SECRET}),
        client_tools=to_raw([SECRET]),
    ),
    CallAnswered(NodeId(2), CallId("k"), "result", to_raw(1), by=SECRET, origin=SECRET),
    CancelRequested(TurnId(1), by=SECRET),
    TurnEnded(TurnId(1), Outcome.ERROR, error="Try later.", detail=SECRET),
    ChatCleared(Generation(1), origin=SECRET),
]


@pytest.mark.parametrize("event", PRIVATE, ids=lambda event: type(event).__name__)
def test_an_event_of_the_log_is_told_without_what_is_private(event: Event) -> None:
    (told,) = read([log_event(Seq(12), event)])
    assert told.id == "12"
    assert SECRET not in told.data
    assert decode_event(told.data.encode()) == public_event(event)
    assert type(public_event(event)) is type(event)


def test_what_is_not_private_is_told_as_it_is() -> None:
    chunk = Chunk(TurnId(1), Attempt(1), 0, Raw(b'{"type":"text-delta","id":"t","delta":"origin"}'))
    assert public_event(chunk) is chunk
    ended = TurnEnded(TurnId(1), Outcome.ERROR, error="Try later.", chunks=3)
    assert public_event(ended) is ended
