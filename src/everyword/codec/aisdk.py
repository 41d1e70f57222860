"""The codec for the AI SDK's chunks: write chunks as deliveries, and decode deliveries to chunks.

Texts, reasonings and tool inputs are streamed messages; every other chunk is a message of its own. A reader that sees
every delivery gets the chunks as they were written. A reader that joins later first gets the chunks that it missed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from ..errors import FoldError
from ..messages.message import Chunk
from ..messages.partial_json import UNREADABLE, parse_partial_json, repair_json
from .decoder import Decoder, Delivery, DeliveryAction, StreamedMessage, StreamStatus
from .lifecycle import LifecycleTracker, Phase, create_lifecycle_tracker

__all__ = ["ENDINGS", "DeliveryWriter", "aisdk_decoder", "chunk_tracker"]

_START: Final = "start"
_START_STEP: Final = "start-step"

ENDINGS: Final = frozenset({"finish", "abort", "error"})
"""Chunk types that end a stream."""

# Name of a streamed message → the field with the part's id, and the field with the delta.
_STREAMED: Final = {
    "text": ("id", "delta"),
    "reasoning": ("id", "delta"),
    "tool-input": ("toolCallId", "inputTextDelta"),
}

# Chunk type → name of the streamed message that it closes.
_CLOSES: Final = {
    "text-end": "text",
    "reasoning-end": "reasoning",
    "tool-input-available": "tool-input",
    "tool-input-error": "tool-input",
}


def chunk_tracker() -> LifecycleTracker[Chunk]:
    """Return a tracker for the phases `start` (built with the context's `messageId`) and `start-step`."""
    return create_lifecycle_tracker(
        [
            Phase(_START, lambda context: [_start(context.get("messageId"))]),
            Phase(_START_STEP, lambda _: [{"type": _START_STEP}]),
        ]
    )


def _start(message_id: str | None) -> Chunk:
    return {"type": _START} if message_id is None else {"type": _START, "messageId": message_id}


def aisdk_decoder(
    *,
    on_replaced: Callable[[StreamedMessage], object] | None = None,
    on_deleted: Callable[[str, StreamedMessage | None], object] | None = None,
) -> Decoder[Chunk]:
    """Return a decoder whose events are chunks. Missing `start` and `start-step` chunks are added before content."""
    return Decoder(_ChunkHooks(), on_replaced=on_replaced, on_deleted=on_deleted)


class _ChunkHooks:
    """Decoder hooks. Headers: `part` has the fields of the part's start chunk, `chunk` is the chunk of the delivery."""

    def __init__(self) -> None:
        self._tracker = chunk_tracker()

    def start(self, stream: StreamedMessage) -> list[Chunk]:
        start = [*self._ensure(stream), {"type": f"{stream.name}-start", **stream.headers["part"]}]
        # A tool input with an empty delta differs from one without any delta.
        return [*start, *self.delta(stream, "")] if stream.headers.get("is_blank") else start

    def delta(self, stream: StreamedMessage, piece: str) -> list[Chunk]:
        key, grows = _STREAMED[stream.name]
        chunk = {"type": f"{stream.name}-delta", key: stream.headers["part"][key], grows: piece}
        written: Chunk = stream.headers.get("chunk") or {}
        if written.get("type") == chunk["type"] and "providerMetadata" in written:
            chunk["providerMetadata"] = written["providerMetadata"]
        return [chunk]

    def end(self, stream: StreamedMessage) -> list[Chunk]:
        written: Chunk = stream.headers.get("chunk") or {}
        if _CLOSES.get(written.get("type", "")) == stream.name:
            return [written]
        if stream.name != "tool-input":
            return [{"type": f"{stream.name}-end", "id": stream.headers["part"]["id"]}]
        call = {name: value for name, value in stream.headers["part"].items() if name != "inputEncoding"}
        return [{"type": "tool-input-available", **call, "input": _input_of(stream)}]

    def discrete(self, delivery: Delivery) -> list[Chunk]:
        scope, made_up = delivery.scope, list[Chunk]()
        match delivery.name:
            case "start" | "start-step":
                self._tracker.mark_emitted(scope, delivery.name)
            case "finish-step":
                self._tracker.reset_phase(scope, _START_STEP)
            case name if name in ENDINGS:
                self._tracker.clear_scope(scope)
            case name if name in _CLOSES:
                made_up = self._ensure(delivery)
            case _:
                pass
        return [*made_up, delivery.content]

    def _ensure(self, seen: StreamedMessage | Delivery) -> list[Chunk]:
        return self._tracker.ensure_phases(seen.scope, {"messageId": seen.message_id})


def _input_of(stream: StreamedMessage) -> Any:
    """Return the complete input: None if its text is empty, the text itself if it is not JSON."""
    if not stream.text:
        return None
    encoding = stream.headers["part"].get("inputEncoding")
    value = stream.text if encoding == "text" else _whole_json(stream.text)
    return stream.text if value is UNREADABLE else value


def _whole_json(text: str) -> Any:
    # Text that must be repaired is not a complete input.
    return parse_partial_json(text) if repair_json(text) == text else UNREADABLE


class DeliveryWriter:
    """Writes the chunks of one scope as deliveries, in the order of their indexes.

    Part ids may be reused: each start chunk creates a new message.
    """

    def __init__(self, scope: str, message_id: str | None = None) -> None:
        self._scope = scope
        self._message_id = message_id
        self._open: dict[tuple[str, str], str] = {}
        self._history: dict[str, Delivery] = {}

    def write(self, index: int, chunk: Chunk) -> list[Delivery]:
        """Return the deliveries of the next chunk: one, and for an abort also the end of every open part before it.

        Raises FoldError for a delta or an end of a part that is not open.
        """
        kind: str = chunk["type"]
        family, _, moment = kind.rpartition("-")
        if family in _STREAMED and moment == "start":
            return [self._create(index, family, chunk)]
        if family in _STREAMED and moment == "delta":
            return [self._append(index, family, chunk, StreamStatus.STREAMING)]
        closes = _CLOSES.get(kind)
        if closes is not None and (closes != "tool-input" or (closes, chunk["toolCallId"]) in self._open):
            return [self._append(index, closes, chunk, StreamStatus.COMPLETE)]
        ended = self._cancel_all(index) if kind == "abort" else []
        return [*ended, self._discrete(index, kind, chunk)]

    def history(self) -> list[Delivery]:
        """Return every message in its current state, the newest first, without transient parts."""
        return list(reversed(self._history.values()))

    def _create(self, index: int, family: str, chunk: Chunk) -> Delivery:
        key, _ = _STREAMED[family]
        serial = f"{self._scope}:{index}"
        self._open[family, chunk[key]] = serial
        part = {name: value for name, value in chunk.items() if name != "type"}
        return self._deliver(DeliveryAction.CREATE, serial, index, name=family, headers={"part": part, "chunk": chunk})

    def _append(self, index: int, family: str, chunk: Chunk, status: StreamStatus) -> Delivery:
        key, grows = _STREAMED[family]
        serial = self._open.get((family, chunk[key]))
        if serial is None:
            raise FoldError(
                f"unable to write a {chunk['type']} chunk; no open part {chunk[key]!r}: write its start first",
                chunk_type=chunk["type"],
                chunk_id=str(chunk[key]),
            )
        if status is not StreamStatus.STREAMING:
            del self._open[family, chunk[key]]
        headers = {"part": self._history[serial].headers["part"], "chunk": chunk}
        piece = chunk[grows] if status is StreamStatus.STREAMING else ""
        return self._deliver(
            DeliveryAction.APPEND, serial, index, name=family, content=piece, status=status, headers=headers
        )

    def _cancel_all(self, index: int) -> list[Delivery]:
        open_serials = list(self._open.values())
        self._open.clear()
        return [
            self._deliver(
                DeliveryAction.APPEND,
                serial,
                index,
                name=self._history[serial].name,
                status=StreamStatus.CANCELLED,
                headers=self._history[serial].headers,
            )
            for serial in open_serials
        ]

    def _discrete(self, index: int, kind: str, chunk: Chunk) -> Delivery:
        serial = f"{self._scope}:{index}"
        if kind == "finish-step":
            self._open = {key: serial for key, serial in self._open.items() if key[0] == "tool-input"}
        elif kind == "reset-step":
            self._open.clear()
        return self._deliver(DeliveryAction.CREATE, serial, index, name=kind, content=chunk, is_stream=False)

    def _deliver(self, action: DeliveryAction, serial: str, version: int, **fields: Any) -> Delivery:
        delivery = Delivery(
            action=action, serial=serial, version=version, scope=self._scope, message_id=self._message_id, **fields
        )
        if delivery.is_stream:
            self._history[serial] = self._folded(self._history.get(serial), delivery)
        elif not delivery.content.get("transient"):
            self._history[serial] = delivery
        return delivery

    def _folded(self, before: Delivery | None, delivery: Delivery) -> Delivery:
        """Return a streamed message for the history: the whole text so far, with the newest provider metadata."""
        if before is None:
            return replace(delivery, action=DeliveryAction.UPDATE)
        text, headers = before.content + delivery.content, dict(delivery.headers)
        metadata = headers["chunk"].get("providerMetadata")
        if metadata is not None and delivery.status is StreamStatus.STREAMING:
            headers["part"] = {**headers["part"], "providerMetadata": metadata}
        headers["is_blank"] = not text and delivery.status is StreamStatus.STREAMING
        return replace(delivery, action=DeliveryAction.UPDATE, content=text, headers=headers)
