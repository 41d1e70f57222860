"""The few frames that a floor needs: the same bytes as everyword's, made with nothing around them."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["Question", "as_replay", "body_frame", "chunk_frame", "control_frame", "identity_frame", "resuming_frame"]

_encode = msgspec.json.Encoder().encode


class Init(msgspec.Struct):
    body: str = "{}"


class Question(msgspec.Struct):
    """Any frame of a client."""

    type: str
    id: str = ""
    init: Init = msgspec.field(default_factory=Init)


def chunk_frame(request: str, index: int, chunk: dict[str, Any]) -> bytes:
    """Encode the chunk, and the frame around it."""
    return body_frame(request, index, _encode(chunk))


def body_frame(request: str, index: int, body: bytes) -> bytes:
    return b'{"type":"cf_agent_use_chat_response","id":"%b","body":%b,"done":false,"seq":%d}' % (
        request.encode(),
        _encode(body.decode()),
        index,
    )


def control_frame(request: str, *, done: bool, replay: bool = False) -> bytes:
    """Encode the end of a turn, or of a replay."""
    marks = {"replay": True, "replayComplete": True} if replay else {}
    return _encode({"type": "cf_agent_use_chat_response", "id": request, "body": "", "done": done, **marks})


def as_replay(frame: bytes) -> bytes:
    return frame[:-1] + b',"replay":true}'


def identity_frame(name: str) -> bytes:
    return _encode({"type": "cf_agent_identity", "name": name, "agent": "chat"})


def resuming_frame(request: str) -> bytes:
    return _encode({"type": "cf_agent_stream_resuming", "id": request})
