"""Read server-sent events, and the UI message streams in them, from bytes that may be split anywhere."""

from __future__ import annotations

import codecs
from typing import Any

import msgspec

from .message import Chunk

__all__ = ["SseEvent", "SseParser", "UIMessageStreamDecoder"]


class SseEvent(msgspec.Struct, frozen=True):
    """One server-sent event. `id` is the event's own id, or None if it has none."""

    data: str
    event: str = "message"
    id: str | None = None


class SseParser:
    """Parses server-sent events from bytes that may be split anywhere: inside lines, characters or line ends.

    `last_event_id` and `retry` are the latest values in the stream. An event without its final blank line is ignored.
    """

    def __init__(self) -> None:
        self.last_event_id = ""
        self.retry: int | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._line: list[str] = []
        self._data: list[str] = []
        self._event = ""
        self._id: str | None = None
        self._after_cr = False

    def feed(self, piece: bytes) -> list[SseEvent]:
        """Parse the next bytes; return the events that they complete, in order."""
        text = self._decoder.decode(piece)
        if not text:
            return []
        if self._after_cr and text[0] == "\n":
            text = text[1:]
            self._after_cr = False
            if not text:
                return []
        self._after_cr = text[-1] == "\r"
        first, *rest = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._line.append(first)
        events: list[SseEvent] = []
        for following in rest:
            self._take("".join(self._line), events)
            self._line = [following]
        return events

    def _take(self, line: str, events: list[SseEvent]) -> None:
        if not line:
            self._dispatch(events)
            return
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "data":
                self._data.append(value)
            case "event":
                self._event = value
            case "id" if "\0" not in value:
                self._id = self.last_event_id = value
            case "retry" if value.isascii() and value.isdigit() and len(value) < 10:
                self.retry = int(value)
            case _:
                pass  # a comment or an unknown field

    def _dispatch(self, events: list[SseEvent]) -> None:
        if self._data:
            events.append(SseEvent("\n".join(self._data), self._event or "message", self._id))
        self._data, self._event, self._id = [], "", None


class UIMessageStreamDecoder:
    """Decodes the bytes of a response body into chunks (server-sent events) or text (anything else).

    `is_sse` tells which; if it is None, the first bytes decide. A data line that is not a chunk is skipped and adds a
    sentence to `problems`.
    """

    def __init__(self, *, is_sse: bool | None = None) -> None:
        self.problems: list[str] = []
        self._is_sse = is_sse
        self._head = b""
        self._parser = SseParser()
        self._text = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, piece: bytes) -> list[str | Chunk]:
        """Decode the next bytes; return the text or the chunks that they complete."""
        if self._is_sse is None:
            self._head += piece
            if len(self._head) < _SNIFF and not self._head.endswith(b"\n"):
                return []  # too few bytes to decide
            piece, self._head = self._head, b""
            self._is_sse = piece.lstrip().startswith(_BEGINNINGS)
        if not self._is_sse:
            text = self._text.decode(piece)
            return [text] if text else []
        return self._chunks(self._parser.feed(piece))

    def close(self) -> list[str | Chunk]:
        """Decode the end of the stream; return the remaining text or chunks."""
        if self._is_sse is None:
            self._is_sse = self._head.lstrip().startswith(_BEGINNINGS)
            rest, self._head = self._head, b""
            return [*(self.feed(rest) if rest else []), *self.close()]
        if not self._is_sse:
            text = self._text.decode(b"", final=True)
            return [text] if text else []
        return self._chunks(self._parser.feed(b"\n\n"))  # completes a last event without its blank line

    def _chunks(self, events: list[SseEvent]) -> list[str | Chunk]:
        chunks: list[str | Chunk] = []
        for event in events:
            if event.data == "[DONE]":
                continue
            try:
                chunk: Any = msgspec.json.decode(event.data)
            except msgspec.DecodeError as exc:
                self.problems.append(f"a data line is not JSON and was left out: {exc}")
                continue
            if isinstance(chunk, dict) and isinstance(chunk.get("type"), str):
                chunks.append(chunk)
            else:
                self.problems.append("a data line is not a chunk and was left out")
        return chunks


_BEGINNINGS = (b"data:", b"event:", b"id:", b"retry:", b": ")
_SNIFF = 16
