from __future__ import annotations

from typing import Any

import pytest

from everyword.codec.decoder import (
    Decoded,
    Decoder,
    Delivery,
    DeliveryAction,
    StreamedMessage,
    StreamStatus,
    decode_history,
)

CREATE, APPEND, UPDATE, DELETE = (
    DeliveryAction.CREATE,
    DeliveryAction.APPEND,
    DeliveryAction.UPDATE,
    DeliveryAction.DELETE,
)
STREAMING, COMPLETE, CANCELLED = StreamStatus.STREAMING, StreamStatus.COMPLETE, StreamStatus.CANCELLED


class Letters:
    """Hooks that spell what they are asked for: S, D(piece), E, and X(content) for what is discrete."""

    def start(self, stream: StreamedMessage) -> list[str]:
        return ["S"]

    def delta(self, stream: StreamedMessage, piece: str) -> list[str]:
        return [f"D({piece})"]

    def end(self, stream: StreamedMessage) -> list[str]:
        return [f"E{''.join(stream.headers)}"]

    def discrete(self, delivery: Delivery) -> list[str]:
        return [f"X({delivery.content if isinstance(delivery.content, str) else ''})"]


class Reader:
    """A decoder and what its observers were told."""

    def __init__(self) -> None:
        self.replaced: list[str] = []
        self.deleted: list[tuple[str, str | None]] = []
        self.decoder: Decoder[str] = Decoder(Letters(), on_replaced=self.on_replaced, on_deleted=self.on_deleted)

    def on_replaced(self, stream: StreamedMessage) -> None:
        self.replaced.append(stream.text)

    def on_deleted(self, serial: str, stream: StreamedMessage | None) -> None:
        self.deleted.append((serial, None if stream is None else stream.text))

    def sees(
        self, action: DeliveryAction, content: Any = "", status: StreamStatus = STREAMING, **fields: Any
    ) -> list[str]:
        given = {"serial": "s", "name": "text", **fields}
        delivery = Delivery(action=action, content=content, status=status, **given)
        return [decoded.event for decoded in self.decoder.decode(delivery)]


def reader_with(text: str) -> Reader:
    """Return a reader that knows the message as far as this text."""
    reader = Reader()
    reader.sees(CREATE)
    if text:
        reader.sees(APPEND, text)
    return reader


# -- first contact ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "content", "status", "seen"),
    [
        (CREATE, "", STREAMING, ["S"]),
        (CREATE, "its own text", STREAMING, ["S"]),
        (UPDATE, "accumulated", STREAMING, ["S", "D(accumulated)"]),
        (UPDATE, "all of it", COMPLETE, ["S", "D(all of it)", "E"]),
        (UPDATE, "", STREAMING, ["S"]),
        (UPDATE, "", COMPLETE, ["S", "E"]),
        (UPDATE, "", CANCELLED, ["S"]),
        (UPDATE, "some", CANCELLED, ["S", "D(some)"]),
        (APPEND, "late", STREAMING, ["S", "D(late)"]),
        (APPEND, "last", COMPLETE, ["S", "D(last)", "E"]),
    ],
)
def test_first_contact_opens_the_message_with_what_is_known(
    action: DeliveryAction, content: str, status: StreamStatus, seen: list[str]
) -> None:
    assert Reader().sees(action, content, status) == seen


def test_a_new_message_without_a_serial_cannot_be_followed() -> None:
    assert Reader().sees(CREATE, serial=None) == []


def test_the_text_of_a_new_message_is_counted_from_nothing() -> None:
    reader = Reader()
    reader.sees(CREATE, "own")
    assert reader.sees(UPDATE, "own text") == ["D(own text)"]


@pytest.mark.parametrize("action", [CREATE, APPEND, UPDATE])
@pytest.mark.parametrize(("content", "seen"), [("hello", ["X(hello)"]), ({"a": 1}, ["X()"]), (7, ["X()"])])
def test_a_discrete_message_is_told_whole_whatever_it_carries(
    action: DeliveryAction, content: Any, seen: list[str]
) -> None:
    assert Reader().sees(action, content, is_stream=False) == seen


@pytest.mark.parametrize("action", [CREATE, APPEND, UPDATE])
def test_a_message_that_is_none_of_ours_is_ignored(action: DeliveryAction) -> None:
    assert Reader().sees(action, "x", is_stream=None) == []


# -- appends ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "status", "seen"),
    [
        ("hello", STREAMING, ["D(hello)"]),
        ("", COMPLETE, ["E"]),
        ("final", COMPLETE, ["D(final)", "E"]),
        (123, STREAMING, []),
        ("", CANCELLED, []),
        ("rest", CANCELLED, ["D(rest)"]),
    ],
)
def test_an_append_to_a_known_message_tells_the_piece(content: Any, status: StreamStatus, seen: list[str]) -> None:
    assert reader_with("").sees(APPEND, content, status) == seen


def test_a_cancelled_message_has_no_end_any_more() -> None:
    reader = reader_with("a")
    reader.sees(APPEND, "", CANCELLED)
    assert reader.sees(APPEND, "", COMPLETE) == []


@pytest.mark.parametrize("status", [COMPLETE, CANCELLED])
@pytest.mark.parametrize("action", [CREATE, APPEND, UPDATE])
def test_a_closed_message_says_nothing_more(action: DeliveryAction, status: StreamStatus) -> None:
    reader = reader_with("a")
    reader.sees(APPEND, "", status)
    assert reader.sees(action, "a and more", COMPLETE) == []
    assert reader.replaced == []


def test_a_foreign_append_to_a_known_message_is_ignored() -> None:
    reader = reader_with("a")
    assert reader.sees(APPEND, "b", is_stream=None) == []
    assert reader.sees(UPDATE, "ab") == ["D(b)"]


def test_the_end_is_told_with_the_headers_it_came_with() -> None:
    reader = reader_with("a")
    assert reader.sees(APPEND, "", COMPLETE, headers={"closing": 1}) == ["Eclosing"]


# -- updates ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "status", "seen", "replaced"),
    [
        ("hello world", STREAMING, ["D( world)"], []),
        ("hello", COMPLETE, ["E"], []),
        ("hello", STREAMING, [], []),
        ("hello", CANCELLED, [], []),
        ("hello!", COMPLETE, ["D(!)", "E"], []),
        ("completely different", STREAMING, [], ["completely different"]),
        ("hell", STREAMING, [], ["hell"]),
        (None, STREAMING, [], []),
    ],
)
def test_an_update_tells_only_what_goes_beyond_the_known_text(
    content: Any, status: StreamStatus, seen: list[str], replaced: list[str]
) -> None:
    reader = reader_with("hello")
    assert reader.sees(UPDATE, content, status) == seen
    assert reader.replaced == replaced


def test_a_replaced_text_is_the_one_that_goes_on() -> None:
    reader = reader_with("hello")
    reader.sees(UPDATE, "other")
    assert reader.sees(UPDATE, "other text") == ["D( text)"]


def test_a_new_message_repeated_is_dropped() -> None:
    reader = reader_with("hello")
    assert reader.sees(CREATE) == []
    assert reader.sees(UPDATE, "hello!") == ["D(!)"]


# -- deletes ---------------------------------------------------------------------------------------


def test_a_deleted_message_is_shown_to_the_observer_as_it_was() -> None:
    reader = reader_with("hello")
    assert reader.sees(DELETE) == []
    assert reader.deleted == [("s", "hello")]


def test_nothing_brings_a_deleted_message_back() -> None:
    reader = reader_with("hello")
    reader.sees(DELETE)
    assert reader.sees(UPDATE, "hello again") == []
    assert reader.sees(CREATE) == []


def test_deleting_an_unknown_message_is_observed_and_nothing_else() -> None:
    reader = Reader()
    assert reader.sees(DELETE) == []
    assert reader.sees(DELETE, serial=None) == []
    assert reader.deleted == [("s", None)]


def test_observers_that_raise_do_not_stop_the_reader() -> None:
    def refuse(*seen: object) -> None:
        raise RuntimeError("no")

    reader = Reader()
    reader.decoder = Decoder(Letters(), on_replaced=refuse, on_deleted=refuse)
    reader.sees(UPDATE, "hello")
    assert reader.sees(UPDATE, "other") == []
    assert reader.sees(UPDATE, "other!") == ["D(!)"]
    assert reader.sees(DELETE) == []


def test_observers_are_optional() -> None:
    reader = Reader()
    reader.decoder = Decoder(Letters())
    reader.sees(UPDATE, "hello")
    assert reader.sees(UPDATE, "other") == []
    assert reader.sees(DELETE) == []


# -- versions, histories ---------------------------------------------------------------------------


def test_stale_and_repeated_deliveries_are_dropped() -> None:
    reader = Reader()
    assert reader.sees(UPDATE, "Hello", version=3) == ["S", "D(Hello)"]
    assert reader.sees(UPDATE, "Hel", version=2) == []
    assert reader.sees(APPEND, "!", version=3) == []
    assert reader.sees(APPEND, " w", version=4) == ["D( w)"]
    assert reader.sees(UPDATE, "Hello world", COMPLETE, version=5) == ["D(orld)", "E"]
    assert reader.sees(APPEND, "?", version=6) == []
    assert reader.replaced == []


def test_a_stale_delete_deletes_nothing() -> None:
    reader = Reader()
    reader.sees(UPDATE, "Hello", version=3)
    reader.sees(DELETE, version=2)
    assert reader.deleted == []
    assert reader.sees(APPEND, "!", version=4) == ["D(!)"]


def test_a_discrete_message_with_a_version_is_told_once() -> None:
    reader = Reader()
    assert reader.sees(CREATE, "x", is_stream=False, version=1) == ["X(x)"]
    assert reader.sees(CREATE, "x", is_stream=False, version=1) == []


def test_messages_are_followed_by_their_serials() -> None:
    reader = reader_with("a")
    assert reader.sees(UPDATE, "ab", serial="other") == ["S", "D(ab)"]
    assert reader.sees(UPDATE, "ab") == ["D(b)"]


def test_what_is_decoded_carries_the_messages_id() -> None:
    delivery = Delivery(action=UPDATE, serial="s", content="a", message_id="m")
    assert Decoder(Letters()).decode(delivery) == [Decoded("S", "m"), Decoded("D(a)", "m")]


def test_a_page_of_history_is_told_in_the_order_it_happened() -> None:
    page = [
        Delivery(action=UPDATE, serial="2", content="second", version=9),
        Delivery(action=UPDATE, serial="1", content="first", status=COMPLETE, version=5),
    ]
    events = [decoded.event for decoded in decode_history(Decoder(Letters()), page)]
    assert events == ["S", "D(first)", "E", "S", "D(second)"]


def test_one_decoder_serves_the_live_feed_and_pages_of_history() -> None:
    reader = Reader()
    reader.sees(APPEND, "wor", serial="2", version=7)
    page = [
        Delivery(action=UPDATE, serial="2", content="wor", version=7),
        Delivery(action=UPDATE, serial="1", content="hello", status=COMPLETE, version=5),
    ]
    assert [decoded.event for decoded in decode_history(reader.decoder, page)] == ["S", "D(hello)", "E"]
    assert reader.sees(APPEND, "ld", serial="2", version=8) == ["D(ld)"]
