"""The decoder: messages that grow, are replaced or vanish under a reader, told as start, deltas and end.

It knows nothing of chunks. A carrier hands it deliveries of messages that change in place; whoever makes it says
what a start, a delta, an end and a message without a life of its own look like. Because stale and repeated
deliveries are dropped, one decoder may serve a live feed and pages of history at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar, assert_never

__all__ = ["Action", "Decoded", "Decoder", "Delivery", "Hooks", "Status", "StreamedMessage", "decode_history"]

E = TypeVar("E")
T_co = TypeVar("T_co", covariant=True)

Headers = Mapping[str, Any]


class Action(StrEnum):
    """What happened to a message: it was made, got more text, got another text, or is gone."""

    CREATE = "create"
    APPEND = "append"
    UPDATE = "update"
    DELETE = "delete"


class Status(StrEnum):
    """How far a streamed message is; a cancelled one is closed without an end."""

    STREAMING = "streaming"
    COMPLETE = "complete"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One sight of a message: an append brings more text, an update the whole text so far.

    `version` orders the sights of one message; without it nothing is dropped as stale. `is_stream` is None for
    a message that is none of ours. Headers are the message's, whole, every time.
    """

    action: Action
    serial: str | None
    name: str = ""
    content: Any = ""
    is_stream: bool | None = True
    status: Status = Status.STREAMING
    version: int | None = None
    scope: str = ""
    message_id: str | None = None
    headers: Headers = field(default_factory=dict)


@dataclass(slots=True)
class StreamedMessage:
    """A streamed message as far as it is known."""

    serial: str
    name: str
    scope: str
    message_id: str | None
    headers: Headers
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text so far; joined when somebody looks."""
        if len(self.pieces) != 1:
            self.pieces = ["".join(self.pieces)]
        return self.pieces[0]


@dataclass(frozen=True, slots=True)
class Decoded(Generic[T_co]):
    """What a delivery says, and the message that it says it of."""

    event: T_co
    message_id: str | None = None


class Hooks(Protocol[T_co]):
    """What the codec makes of streamed and discrete messages."""

    def start(self, stream: StreamedMessage) -> Iterable[T_co]: ...
    def delta(self, stream: StreamedMessage, piece: str) -> Iterable[T_co]: ...
    def end(self, stream: StreamedMessage) -> Iterable[T_co]: ...
    def discrete(self, delivery: Delivery) -> Iterable[T_co]: ...


@dataclass(slots=True)
class _Place:
    """What is kept of a serial; the stream is dropped once it is closed."""

    version: int | None
    stream: StreamedMessage | None


class Decoder(Generic[E]):
    """Follows streamed messages by their serial.

    First contact with a message in the middle gives its start and the text so far; a text that goes on from the
    known one gives the rest only; a text that does not gives nothing and is told to `on_replaced`. Of a closed
    or deleted message only its serial is kept, for as long as the decoder lives.
    What the two observers raise is ignored: they watch, and must not stop the reader.
    """

    def __init__(
        self,
        hooks: Hooks[E],
        *,
        on_replaced: Callable[[StreamedMessage], object] | None = None,
        on_deleted: Callable[[str, StreamedMessage | None], object] | None = None,
    ) -> None:
        self._hooks = hooks
        self._on_replaced = on_replaced
        self._on_deleted = on_deleted
        self._places: dict[str, _Place] = {}

    def decode(self, delivery: Delivery) -> list[Decoded[E]]:
        """Return what the delivery adds to what was delivered before; nothing for stale and foreign ones."""
        serial = delivery.serial
        place = self._places.get(serial) if serial is not None else None
        if place is not None and _is_stale(place, delivery):
            return []
        events: list[E] = []
        match delivery.action:
            case Action.DELETE:
                if serial is not None:
                    self._delete(serial, place, delivery)
            case Action.CREATE | Action.APPEND | Action.UPDATE if place is not None:
                events = self._again(place, delivery)
            case Action.CREATE | Action.APPEND | Action.UPDATE:
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
        place = self._places[serial] = _Place(delivery.version, stream)
        events = list(self._hooks.start(stream))
        if delivery.action is Action.CREATE:  # what a new message says of itself comes with the appends
            return [*events, *self._close(place, stream, delivery)]
        if isinstance(delivery.content, str) and delivery.content:
            events += self._grow(stream, delivery.content)
        return [*events, *self._close(place, stream, delivery)]

    def _first_discrete(self, delivery: Delivery) -> list[E]:
        if delivery.serial is not None and delivery.version is not None:
            self._places[delivery.serial] = _Place(delivery.version, None)
        return list(self._hooks.discrete(delivery))

    # -- a message that is known -------------------------------------------------------------------

    def _again(self, place: _Place, delivery: Delivery) -> list[E]:
        stream = place.stream
        foreign = delivery.is_stream is None and delivery.action is Action.APPEND
        if stream is None or foreign or delivery.action is Action.CREATE:
            return []
        if not isinstance(delivery.content, str):
            return []
        if delivery.version is not None:
            place.version = delivery.version
        stream.headers = delivery.headers
        events: list[E] = []
        if delivery.action is Action.APPEND:
            if delivery.content or delivery.status is Status.STREAMING:
                events += self._grow(stream, delivery.content)
        elif delivery.content.startswith(stream.text):
            rest = delivery.content[len(stream.text) :]
            events += self._grow(stream, rest) if rest else []
        else:
            stream.pieces = [delivery.content]
            if self._on_replaced is not None:
                with suppress(Exception):
                    self._on_replaced(stream)
        return [*events, *self._close(place, stream, delivery)]

    def _grow(self, stream: StreamedMessage, piece: str) -> list[E]:
        stream.pieces.append(piece)
        return list(self._hooks.delta(stream, piece))

    def _close(self, place: _Place, stream: StreamedMessage, delivery: Delivery) -> list[E]:
        if delivery.status is Status.STREAMING:
            return []
        place.stream = None
        return list(self._hooks.end(stream)) if delivery.status is Status.COMPLETE else []

    def _delete(self, serial: str, place: _Place | None, delivery: Delivery) -> None:
        stream = place.stream if place is not None else None
        self._places[serial] = _Place(delivery.version, None)
        if self._on_deleted is not None:
            with suppress(Exception):
                self._on_deleted(serial, stream)


def decode_history(decoder: Decoder[E], newest_first: Iterable[Delivery]) -> list[Decoded[E]]:
    """Decode a page of history, which carriers hand out backwards, in the order in which it happened."""
    return [decoded for delivery in reversed(list(newest_first)) for decoded in decoder.decode(delivery)]


def _is_stale(place: _Place, delivery: Delivery) -> bool:
    return place.version is not None and delivery.version is not None and delivery.version <= place.version
