"""Server-sent events, both ways: turns as the AI SDK's UI message stream, logs as they are, and an incremental reader.

One function per kind of event makes its bytes, for live, late and replaying readers alike (I-4). The id of a chunk's
event is the chunk's index, the id of a log event is its seq, so `Last-Event-ID` is a cursor in both.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from typing import Any, Final, assert_never

import msgspec
from msgspec.structs import replace

from ..events import Chunk, Event, Outcome, encode_event
from ..ids import Seq

__all__ = ["DONE", "KEEP_ALIVE", "UI_STREAM_HEADERS", "SseEvent", "SseParser", "chunk_event", "encode_sse"]
__all__ += ["log_event", "public_event", "retry_after", "terminal_events"]

DONE: Final = b"data: [DONE]\n\n"
KEEP_ALIVE: Final = b": keep-alive\n\n"

UI_STREAM_HEADERS: Final[Mapping[str, str]] = {
    "content-type": "text/event-stream",
    "cache-control": "no-cache",
    "connection": "keep-alive",
    "x-vercel-ai-ui-message-stream": "v1",
    "x-accel-buffering": "no",
}

# What events say about connections and failures stays here.
_PRIVATE: Final = ("body", "by", "client_tools", "detail", "origin", "owner")


def encode_sse(data: bytes, *, event_id: int | None = None, event: str | None = None) -> bytes:
    """Return one server-sent event. Line breaks in `data` make several data lines, which readers join again."""
    head = b"" if event is None else b"event: %b\n" % event.encode()
    if event_id is not None:
        head += b"id: %d\n" % event_id
    if b"\n" in data or b"\r" in data:
        data = b"\ndata: ".join(data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"))
    return b"%bdata: %b\n\n" % (head, data)


def retry_after(milliseconds: int) -> bytes:
    """Return the field that tells an EventSource how long to wait before it reconnects."""
    return b"retry: %d\n\n" % milliseconds


def chunk_event(chunk: Chunk) -> bytes:
    """Return a chunk as live and late readers get it; its id is its index (R-13)."""
    return encode_sse(bytes(chunk.body), event_id=chunk.index)


def terminal_events(outcome: Outcome, *, chunks: int, error: str | None = None, reason: str | None = None) -> bytes:
    """Return what ends a turn's stream: the outcome, where the stream has a chunk for it, and `[DONE]`.

    A completed turn has said `finish` itself. A skipped one has no chunk of its own in the AI SDK: it is told as an
    abort with its reason. The id is the first index that no chunk has.
    """
    ending: dict[str, Any]
    match outcome:
        case Outcome.COMPLETED:
            return DONE
        case Outcome.ERROR:
            ending = {"type": "error", "errorText": error or "The answer failed."}
        case Outcome.ABORTED | Outcome.SKIPPED:
            ending = {"type": "abort", "reason": reason or outcome.value}
        case _:
            assert_never(outcome)
    return encode_sse(msgspec.json.encode(ending), event_id=chunks) + DONE


def log_event(seq: Seq, event: Event) -> bytes:
    """Return an event of the log as anybody who may read the agent gets it; its id is its seq."""
    return encode_sse(encode_event(public_event(event)), event_id=seq)


def public_event(event: Event) -> Event:
    """Return the event without what is not for clients: who sent it, with what along, and why it really failed."""
    if isinstance(event, Chunk):
        return event
    hidden = {name: None for name in _PRIVATE if getattr(event, name, None) is not None}
    return replace(event, **hidden) if hidden else event


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
