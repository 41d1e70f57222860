"""The decoder: turn deliveries of messages that change in place into start, delta and end events.

The decoder is generic and knows nothing of chunks: hooks build the events of streamed messages (start, delta, end) and
of discrete ones. Stale and repeated deliveries are dropped, so one decoder can read a live feed and pages of history
at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar, assert_never

__all__ = [
    "Decoded",
    "Decoder",
    "DecoderHooks",
    "Delivery",
    "DeliveryAction",
    "StreamStatus",
    "StreamedMessage",
    "decode_history",
]

E = TypeVar("E")
T_co = TypeVar("T_co", covariant=True)

Headers = Mapping[str, Any]


class DeliveryAction(StrEnum):
    """What happened to a message: created, text appended, text replaced, or deleted."""

    CREATE = "create"
    APPEND = "append"
    UPDATE = "update"
    DELETE = "delete"


class StreamStatus(StrEnum):
    """The state of a streamed message. A cancelled message is closed without an end event."""

    STREAMING = "streaming"
    COMPLETE = "complete"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One delivery of a message. An append has more text, an update the whole text so far.

    `version` orders the deliveries of one message; without it, no delivery is dropped as stale. `is_stream` is None
    for a message of another application. Each delivery has all headers of the message.
    """

    action: DeliveryAction
    serial: str | None
    name: str = ""
    content: Any = ""
    is_stream: bool | None = True
    status: StreamStatus = StreamStatus.STREAMING
    version: int | None = None
    scope: str = ""
    message_id: str | None = None
    headers: Headers = field(default_factory=dict)


@dataclass(slots=True)
class StreamedMessage:
    """A streamed message, as far as it was delivered."""

    serial: str
    name: str
    scope: str
    message_id: str | None
    headers: Headers
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text so far, joined on access."""
        if len(self.pieces) != 1:
            self.pieces = ["".join(self.pieces)]
        return self.pieces[0]


@dataclass(frozen=True, slots=True)
class Decoded(Generic[T_co]):
    """A decoded event and the id of its message."""

    event: T_co
    message_id: str | None = None


class DecoderHooks(Protocol[T_co]):
    """Functions that build the events of streamed and discrete messages."""

    def start(self, stream: StreamedMessage) -> Iterable[T_co]: ...
    def delta(self, stream: StreamedMessage, piece: str) -> Iterable[T_co]: ...
    def end(self, stream: StreamedMessage) -> Iterable[T_co]: ...
    def discrete(self, delivery: Delivery) -> Iterable[T_co]: ...


@dataclass(slots=True)
class _KnownMessage:
    """The state of one serial. `stream` is None once the message is closed or deleted, or if it is discrete."""

    version: int | None
    stream: StreamedMessage | None


class Decoder(Generic[E]):
    """Decodes deliveries, following each streamed message by its serial.

    The first delivery of a message, even in the middle of its stream, gives the start and the text so far. An update
    that extends the known text gives the rest. An update that does not extend it gives no event and calls
    `on_replaced`. Of a closed or deleted message, only the serial is kept, for the lifetime of the decoder. Exceptions
    of `on_replaced` and `on_deleted` are ignored, so that they cannot stop the reader.
    """

    def __init__(
        self,
        hooks: DecoderHooks[E],
        *,
        on_replaced: Callable[[StreamedMessage], object] | None = None,
        on_deleted: Callable[[str, StreamedMessage | None], object] | None = None,
    ) -> None:
        self._hooks = hooks
        self._on_replaced = on_replaced
        self._on_deleted = on_deleted
        self._known: dict[str, _KnownMessage] = {}

    def decode(self, delivery: Delivery) -> list[Decoded[E]]:
        """Return the events that the delivery adds; none for a stale delivery or one of another application."""
        serial = delivery.serial
        known = self._known.get(serial) if serial is not None else None
        if known is not None and _is_stale(known, delivery):
            return []
        events: list[E] = []
        match delivery.action:
            case DeliveryAction.DELETE:
                if serial is not None:
                    self._delete(serial, known, delivery)
            case DeliveryAction.CREATE | DeliveryAction.APPEND | DeliveryAction.UPDATE if known is not None:
                events = self._again(known, delivery)
            case DeliveryAction.CREATE | DeliveryAction.APPEND | DeliveryAction.UPDATE:
                events = self._first(delivery)
            case _:
                assert_never(delivery.action)
        return [Decoded(event, delivery.message_id) for event in events]

    # -- first contact -----------------------------------------------------------------------------

    def _first(self, delivery: Delivery) -> list[E]:
        if delivery.is_stream is None:
            return []
        if not delivery.is_stream:
            return self._first_discrete(delivery)
        serial = delivery.serial
        if serial is None:
            return []
        stream = StreamedMessage(serial, delivery.name, delivery.scope, delivery.message_id, delivery.headers)
        known = self._known[serial] = _KnownMessage(delivery.version, stream)
        events = list(self._hooks.start(stream))
        if delivery.action is DeliveryAction.CREATE:  # the text of a new message comes with the appends
            return [*events, *self._close(known, stream, delivery)]
        if isinstance(delivery.content, str) and delivery.content:
            events += self._grow(stream, delivery.content)
        return [*events, *self._close(known, stream, delivery)]

    def _first_discrete(self, delivery: Delivery) -> list[E]:
        if delivery.serial is not None and delivery.version is not None:
            self._known[delivery.serial] = _KnownMessage(delivery.version, None)
        return list(self._hooks.discrete(delivery))

    # -- a message that is known -------------------------------------------------------------------

    def _again(self, known: _KnownMessage, delivery: Delivery) -> list[E]:
        stream = known.stream
        foreign = delivery.is_stream is None and delivery.action is DeliveryAction.APPEND
        if stream is None or foreign or delivery.action is DeliveryAction.CREATE:
            return []
        if not isinstance(delivery.content, str):
            return []
        if delivery.version is not None:
            known.version = delivery.version
        stream.headers = delivery.headers
        events: list[E] = []
        if delivery.action is DeliveryAction.APPEND:
            if delivery.content or delivery.status is StreamStatus.STREAMING:
                events += self._grow(stream, delivery.content)
        elif delivery.content.startswith(stream.text):
            rest = delivery.content[len(stream.text) :]
            events += self._grow(stream, rest) if rest else []
        else:
            stream.pieces = [delivery.content]
            if self._on_replaced is not None:
                with suppress(Exception):
                    self._on_replaced(stream)
        return [*events, *self._close(known, stream, delivery)]

    def _grow(self, stream: StreamedMessage, piece: str) -> list[E]:
        stream.pieces.append(piece)
        return list(self._hooks.delta(stream, piece))

    def _close(self, known: _KnownMessage, stream: StreamedMessage, delivery: Delivery) -> list[E]:
        if delivery.status is StreamStatus.STREAMING:
            return []
        known.stream = None
        return list(self._hooks.end(stream)) if delivery.status is StreamStatus.COMPLETE else []

    def _delete(self, serial: str, known: _KnownMessage | None, delivery: Delivery) -> None:
        stream = known.stream if known is not None else None
        self._known[serial] = _KnownMessage(delivery.version, None)
        if self._on_deleted is not None:
            with suppress(Exception):
                self._on_deleted(serial, stream)


def decode_history(decoder: Decoder[E], newest_first: Iterable[Delivery]) -> list[Decoded[E]]:
    """Decode a page of history, which carriers return newest first, in chronological order."""
    return [decoded for delivery in reversed(list(newest_first)) for decoded in decoder.decode(delivery)]


def _is_stale(known: _KnownMessage, delivery: Delivery) -> bool:
    return known.version is not None and delivery.version is not None and delivery.version <= known.version
