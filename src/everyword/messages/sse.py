"""Reading server-sent events, and the UI message streams in them: the same however the network cut their bytes."""

from __future__ import annotations

import codecs
from typing import Any

import msgspec

from .message import Chunk

__all__ = ["SseEvent", "SseParser", "UIMessageStreamDecoder"]


class SseEvent(msgspec.Struct, frozen=True):
    """One event that was read. `id` is the one that it carries itself; None when it has none."""

    data: str
    event: str = "message"
    id: str | None = None


class SseParser:
    """Reads server-sent events from bytes, however they are cut: inside lines, characters or line ends.

    `last_event_id` and `retry` are what the stream has said so far. An event without its blank line is not an event.
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
        """Take the next bytes; return the events that they complete, in order."""
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
                pass  # a comment, or a field that nobody knows

    def _dispatch(self, events: list[SseEvent]) -> None:
        if self._data:
            events.append(SseEvent("\n".join(self._data), self._event or "message", self._id))
        self._data, self._event, self._id = [], "", None


class UIMessageStreamDecoder:
    """Turns the bytes of an answer into chunks or text.

    Server-sent events are recognised by how they begin, unless `is_sse` says what they are; anything else is plain
    text. A data line that is no chunk is left out and told in `problems`.
    """

    def __init__(self, *, is_sse: bool | None = None) -> None:
        self.problems: list[str] = []
        self._is_sse = is_sse
        self._head = b""
        self._parser = SseParser()
        self._text = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, piece: bytes) -> list[str | Chunk]:
        """Take the next bytes; return the text or the chunks that they complete."""
        if self._is_sse is None:
            self._head += piece
            if len(self._head) < _SNIFF and not self._head.endswith(b"\n"):
                return []  # too little to tell
            piece, self._head = self._head, b""
            self._is_sse = piece.lstrip().startswith(_BEGINNINGS)
        if not self._is_sse:
            text = self._text.decode(piece)
            return [text] if text else []
        return self._chunks(self._parser.feed(piece))

    def close(self) -> list[str | Chunk]:
        """Say that no bytes follow; return what was still held back."""
        if self._is_sse is None:
            self._is_sse = self._head.lstrip().startswith(_BEGINNINGS)
            rest, self._head = self._head, b""
            return [*(self.feed(rest) if rest else []), *self.close()]
        if not self._is_sse:
            text = self._text.decode(b"", final=True)
            return [text] if text else []
        return self._chunks(self._parser.feed(b"\n\n"))  # a last event that lacked its blank line

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
