"""Reading a UI message stream from bytes: the same chunks however the network cut them."""

from __future__ import annotations

import codecs
from typing import Any

import msgspec

from .message import Chunk

__all__ = ["SseParser", "StreamDecoder"]


class SseParser:
    """An incremental reader of server-sent events; `feed` returns the data of the events that are complete.

    Lines may end in LF, CRLF or CR, and bytes may be cut anywhere, also inside a character.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""
        self._data: list[str] = []
        self._after_cr = False

    def feed(self, piece: bytes) -> list[str]:
        """Take the next bytes."""
        return self._lines(self._decoder.decode(piece))

    def close(self) -> list[str]:
        """Say that no bytes follow; returns a last event that lacked its blank line."""
        events = self._lines(self._decoder.decode(b"", final=True) + "\n\n")
        self._pending = ""
        return events

    def _lines(self, text: str) -> list[str]:
        if self._after_cr and text.startswith("\n"):
            text = text[1:]
        if text:
            self._after_cr = text.endswith("\r")
        lines = (self._pending + text).replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._pending = lines.pop()
        events: list[str] = []
        for line in lines:
            if not line:
                if self._data:
                    events.append("\n".join(self._data))
                    self._data = []
            elif line.startswith("data:"):
                self._data.append(line[5:].removeprefix(" "))
        return events


class StreamDecoder:
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
        return self._chunks(self._parser.close())

    def _chunks(self, events: list[str]) -> list[str | Chunk]:
        chunks: list[str | Chunk] = []
        for event in events:
            if event == "[DONE]":
                continue
            try:
                chunk: Any = msgspec.json.decode(event)
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
