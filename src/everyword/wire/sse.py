"""Writing server-sent events: turns as the AI SDK's UI message stream, and logs as they are.

One function per kind of event makes its bytes, for live, late and replaying readers alike (I-4). The id of a chunk's
event is the chunk's index, the id of a log event is its seq, so `Last-Event-ID` is a cursor in both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, assert_never

import msgspec
from msgspec.structs import replace

from ..events import ABSENT, Chunk, Event, Outcome, encode_event
from ..ids import Seq

__all__ = ["DONE", "KEEP_ALIVE", "PLAIN_STREAM_HEADERS", "UI_STREAM_HEADERS", "chunk_event", "encode_sse"]
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

PLAIN_STREAM_HEADERS: Final = {
    name: each for name, each in UI_STREAM_HEADERS.items() if not name.startswith("x-vercel")
}
"""For streams that are not the AI SDK's."""

# What events say about connections and failures stays here.
_PRIVATE: Final = {
    "body": ABSENT,
    "by": None,
    "client_tools": ABSENT,
    "detail": None,
    "digest": "",
    "origin": None,
    "owner": None,
    "payload": ABSENT,
    "principal": None,
    "snapshot": ABSENT,
}


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
    """Return the end of a turn's stream: a chunk for the outcome, if there is one, and `[DONE]`.

    A completed turn has written `finish` itself. The AI SDK has no chunk for a skipped turn: it is sent as an abort
    with its reason. The id is the first index without a chunk.
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
    """Return an event of the log as clients get it, without private fields; its id is its seq."""
    return encode_sse(encode_event(public_event(event)), event_id=seq)


def public_event(event: Event) -> Event:
    """Return the event without what is not for clients: who sent it, with what along, and why it really failed.

    Nor what the agent's own code puts aside for itself: payloads of jobs, and checkpoints.
    """
    if isinstance(event, Chunk):
        return event
    hidden = {name: absent for name, absent in _PRIVATE.items() if getattr(event, name, absent) is not absent}
    return replace(event, **hidden) if hidden else event
