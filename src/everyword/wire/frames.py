"""Every frame that we send, each built in one place, as JSON text.

Live bytes are replay bytes (I-4): a chunk's frame is built once, as a stem that both variants share.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec

from ..events import Outcome
from ..ids import MessageId, RequestId

__all__ = ["CLEAR", "ChunkFrames", "identity", "mcp_servers", "message_updated", "messages", "pending", "recovering"]
__all__ += ["replay_complete", "response", "resume_none", "resuming", "rpc_error", "state", "state_error"]
__all__ += ["terminal", "text_frame"]

_encode = msgspec.json.Encoder().encode

CLEAR = b'{"type":"cf_agent_chat_clear"}'


class ChunkFrames:
    """The frames of a turn's chunks. All live clients get the same bytes; a replay adds a flag."""

    __slots__ = ("_head", "_tail")

    def __init__(self, request: RequestId, *, is_continuation: bool) -> None:
        self._head = b'{"type":"cf_agent_use_chat_response","id":%b,"body":' % _encode(request)
        self._tail = b',"continuation":true' if is_continuation else b""

    def live(self, chunk: bytes | msgspec.Raw, index: int | None, *, flag: bytes = b"") -> bytes:
        body = _encode(str(chunk, "utf-8"))
        if index is None:
            return b'%b%b,"done":false%b%b}' % (self._head, body, self._tail, flag)
        return b'%b%b,"done":false,"seq":%d%b%b}' % (self._head, body, index, self._tail, flag)

    def replayed(self, chunk: bytes | msgspec.Raw, index: int | None) -> bytes:
        # Not added to a finished frame: two more copies of a long answer were a quarter of the CPU time of its replay.
        return self.live(chunk, index, flag=b',"replay":true')


def response(
    request: RequestId, body: str, *, done: bool, is_continuation: bool = False, replay: bool = False, **more: Any
) -> bytes:
    """A control or terminal frame of a request; keyword arguments with None are left out."""
    frame: dict[str, Any] = {"type": "cf_agent_use_chat_response", "id": request, "body": body, "done": done}
    if is_continuation:
        frame["continuation"] = True
    if replay:
        frame["replay"] = True
    frame.update((key, value) for key, value in more.items() if value is not None)
    return _encode(frame)


def replay_complete(request: RequestId, *, is_continuation: bool) -> bytes:
    """The replay is done and the stream is still live, or its terminal error follows."""
    return response(request, "", done=False, is_continuation=is_continuation, replay=True, replayComplete=True)


def terminal(
    request: RequestId,
    outcome: Outcome,
    *,
    error: str | None = None,
    message_ids: Sequence[MessageId] = (),
    is_continuation: bool = False,
    replay: bool = False,
) -> bytes:
    """The one frame that ends a request, whatever the outcome: in-band and thrown errors look alike."""
    failed = outcome is Outcome.ERROR
    return response(
        request,
        (error or "The answer failed.") if failed else "",
        done=True,
        is_continuation=is_continuation,
        replay=replay,
        error=True if failed else None,
        outcome=outcome.value,
        messageIds=list(message_ids) or None,
    )


def resuming(request: RequestId, probe: str | None = None) -> bytes:
    return _typed("cf_agent_stream_resuming", id=request, probeId=probe)


def resume_none(reason: Literal["idle", "continuation-owned"] | None = None, probe: str | None = None) -> bytes:
    return _typed("cf_agent_stream_resume_none", reason=reason, probeId=probe)


def pending(request: RequestId | None, probe: str | None = None) -> bytes:
    return _typed("cf_agent_stream_pending", id=request, probeId=probe)


def recovering(request: RequestId, *, is_recovering: bool) -> bytes:
    return _typed("cf_agent_chat_recovering", recovering=is_recovering, id=request)


def messages(bodies: Iterable[bytes], *, connect: bool = False) -> bytes:
    """A transcript, joined from the stored bytes of its messages."""
    mark = b',"connect":true' if connect else b""
    return b'{"type":"cf_agent_chat_messages","messages":[%b]%b}' % (b",".join(bodies), mark)


def message_updated(body: bytes) -> bytes:
    return b'{"type":"cf_agent_message_updated","message":%b}' % body


def identity(name: str, kind: str, *, state_follows: bool) -> bytes:
    return _typed("cf_agent_identity", name=name, agent=kind, stateFollows=True if state_follows else None)


def state(value: bytes) -> bytes:
    return b'{"type":"cf_agent_state","state":%b}' % value


def state_error(text: str) -> bytes:
    return _typed("cf_agent_state_error", error=text)


def mcp_servers() -> bytes:
    """The list of MCP servers, always empty here; a client with `onMcpUpdate` expects one."""
    return _typed("cf_agent_mcp_servers", mcp={"servers": {}, "tools": [], "prompts": [], "resources": []})


def presence(principals: Sequence[tuple[str, str | None]]) -> bytes:
    """Return the frame with the id and name of every principal that is connected, for clients that ask for it."""
    return _typed("everyword_presence", principals=[{"id": id, "name": name} for id, name in principals])


def rpc_error(call: str, text: str) -> bytes:
    return _encode({"type": "rpc", "id": call, "success": False, "error": text})


def text_frame(value: Any) -> bytes:
    """A frame of the agent's own making: JSON of anything, or text as it is."""
    return value.encode() if isinstance(value, str) else _encode(value)


def _typed(kind: str, **fields: Any) -> bytes:
    return _encode({"type": kind, **{key: value for key, value in fields.items() if value is not None}})
