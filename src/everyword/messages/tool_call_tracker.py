"""Track the state of each tool call in a stream, and drop chunks that its state does not allow."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

from .json_values import encode_json
from .message import Chunk, Part
from .tool_calls import approval_request, is_tool_part, last_step, tool_name

__all__ = ["ToolCallTracker"]


class _State(Enum):
    STREAMING = auto()  # the input is still streaming
    AVAILABLE = auto()  # the input is complete
    REQUESTED = auto()  # waits for an approval
    APPROVED = auto()
    REFUSED = auto()  # not approved; the denial chunk has not been sent yet
    RUNNING = auto()  # has preliminary outputs; the final one follows
    DONE = auto()  # has an output or an error, which a later one may replace
    CLOSED = auto()  # denied, or answered from outside the stream; accepts nothing more


_OF_PART: Final = {
    "input-streaming": _State.STREAMING,
    "input-available": _State.AVAILABLE,
    "approval-requested": _State.REQUESTED,
    "output-available": _State.DONE,
    "output-error": _State.DONE,
    "output-denied": _State.CLOSED,
}

_MAY_BE_ASKED: Final = frozenset({_State.STREAMING, _State.AVAILABLE, _State.REQUESTED})
_MAY_BE_DENIED: Final = _MAY_BE_ASKED | {_State.REFUSED}
_TAKES_NO_OUTPUT: Final = frozenset({_State.REFUSED, _State.CLOSED})


class _Call:
    __slots__ = ("has_input", "has_pieces", "is_dynamic", "name", "request", "state", "step")

    def __init__(self, name: str, step: int, *, is_dynamic: bool, state: _State) -> None:
        self.name = name
        self.step = step
        self.is_dynamic = is_dynamic
        self.state = state
        self.has_input = state is not _State.STREAMING
        self.has_pieces = False
        self.request: Chunk | None = None


class ToolCallTracker:
    """The tool calls of one message, by id.

    Each method takes a chunk and returns the chunks to send: usually that chunk, or none if the call does not accept
    it. `step` is the number of the step that the chunk belongs to: clients look for a call's input in the current step
    only, and for everything else in the whole message.
    """

    def __init__(self, parts: Sequence[Part], *, last_step_is_open: bool) -> None:
        self._calls: dict[str, _Call] = {}
        begin = last_step(parts)
        for position, part in enumerate(parts):
            if is_tool_part(part) and isinstance(part.get("toolCallId"), str):
                in_open_step = last_step_is_open and position >= begin
                self._calls[part["toolCallId"]] = _call_of(part, 0 if in_open_step else -1)

    def name_of(self, call_id: object) -> str | None:
        """Return the tool name of a call, for chunks that lack it; None if the call is unknown."""
        call = self._calls.get(call_id) if isinstance(call_id, str) else None
        return None if call is None else call.name

    def start_input(self, chunk: Chunk, step: int) -> list[Chunk]:
        call_id, is_dynamic = chunk["toolCallId"], chunk.get("dynamic", False)
        call = self._calls.get(call_id)
        if call is not None and call.state is not _State.STREAMING:
            return []
        if call is not None and call.step == step:
            _as_kind(chunk, call.is_dynamic)
            is_dynamic = call.is_dynamic
        self._calls[call_id] = _Call(chunk["toolName"], step, is_dynamic=is_dynamic, state=_State.STREAMING)
        return [chunk]

    def grow_input(self, chunk: Chunk, step: int) -> list[Chunk]:
        call = self._calls.get(chunk["toolCallId"])
        if call is None or call.state is not _State.STREAMING or call.step != step:
            return []
        call.has_pieces = True
        return [chunk]

    def end_input(self, chunk: Chunk, step: int) -> list[Chunk]:
        call_id = chunk["toolCallId"]
        call = self._calls.get(call_id)
        if call is None or (call.state is _State.STREAMING and call.step != step):
            is_dynamic = chunk.get("dynamic", False)
            self._calls[call_id] = _Call(chunk["toolName"], step, is_dynamic=is_dynamic, state=_State.AVAILABLE)
            return [chunk]
        if call.has_input or call.step != step or call.state not in _MAY_BE_ASKED:
            return []
        _as_kind(chunk, call.is_dynamic)
        call.has_input = True
        if call.state is _State.REQUESTED and call.request is not None:
            # The input moves the part back to input-available. Sending the request again restores its state.
            return [chunk, call.request]
        call.state = _State.AVAILABLE
        return [chunk]

    def fail_input(self, chunk: Chunk, step: int) -> list[Chunk]:
        """Return a failed input as chunks that ai 6 and ai 7 fold alike: they differ on `tool-input-error`."""
        call_id, chunks = chunk["toolCallId"], []
        call = self._calls.get(call_id)
        if call is None:
            chunks.append(_announcement(chunk))
            self.start_input(chunks[0], step)
            call = self._calls[call_id]
        elif call.state is _State.DONE or call.state in _TAKES_NO_OUTPUT:
            return []
        if call.state is _State.STREAMING and call.step == step and not call.has_pieces:
            text = encode_json(chunk["input"]).decode()
            chunks.append({"type": "tool-input-delta", "toolCallId": call_id, "inputTextDelta": text})
        call.state = _State.DONE
        failed: Chunk = {"type": "tool-output-error", "toolCallId": call_id, "errorText": chunk["errorText"]}
        failed |= {name: chunk[name] for name in ("providerMetadata", "toolMetadata") if name in chunk}
        return [*chunks, failed]

    def request_approval(self, chunk: Chunk) -> list[Chunk]:
        call = self._calls.get(chunk["toolCallId"])
        if call is None or call.state not in _MAY_BE_ASKED:
            return []
        if call.request is not None and call.request["approvalId"] == chunk["approvalId"]:
            return []
        call.state, call.request = _State.REQUESTED, chunk
        return [chunk]

    def respond_approval(self, chunk: Chunk) -> list[Chunk]:
        for call in self._calls.values():
            asked = call.request is not None and call.request["approvalId"] == chunk["approvalId"]
            if asked and call.state is _State.REQUESTED:
                call.state = _State.APPROVED if chunk["approved"] else _State.REFUSED
                return [chunk]
        return []

    def output(self, chunk: Chunk) -> list[Chunk]:
        call = self._calls.get(chunk["toolCallId"])
        if call is None or call.state in _TAKES_NO_OUTPUT:
            return []
        is_preliminary = chunk.get("preliminary", False)
        if is_preliminary and call.state is _State.DONE:
            return []
        call.state = _State.RUNNING if is_preliminary else _State.DONE
        return [chunk]

    def deny(self, chunk: Chunk) -> list[Chunk]:
        call = self._calls.get(chunk["toolCallId"])
        if call is None or call.state not in _MAY_BE_DENIED:
            return []
        call.state = _State.CLOSED
        return [chunk]

    def close(self, call_id: str) -> None:
        """Record that a call was answered from outside the stream; it accepts no more chunks."""
        if call_id in self._calls:
            self._calls[call_id].state = _State.CLOSED

    def forget_step(self, step: int) -> None:
        """Forget the calls of a step that was reset."""
        for call_id in [call_id for call_id, call in self._calls.items() if call.step == step]:
            del self._calls[call_id]


def _call_of(part: Part, step: int) -> _Call:
    approval = part.get("approval") or {}
    state = _OF_PART.get(str(part.get("state")))
    if state is None:
        state = _State.APPROVED if approval.get("approved") else _State.REFUSED
    if state is _State.DONE and part.get("preliminary"):
        state = _State.RUNNING
    call = _Call(tool_name(part), step, is_dynamic=part["type"] == "dynamic-tool", state=state)
    call.has_input = state is not _State.STREAMING and not (
        state is _State.REQUESTED and ("rawInput" in part or "input" not in part)
    )
    call.has_pieces = "rawInput" in part
    if approval.get("id") is not None:
        call.request = approval_request(part)
    return call


def _as_kind(chunk: Chunk, is_dynamic: bool) -> None:
    """Set or remove `dynamic`, so that clients find the call's part: they keep static and dynamic calls apart."""
    chunk.pop("dynamic", None)
    if is_dynamic:
        chunk["dynamic"] = True


def _announcement(chunk: Chunk) -> Chunk:
    start: Chunk = {"type": "tool-input-start"}
    names = ("toolCallId", "toolName", "title", "toolMetadata", "providerExecuted", "dynamic")
    return start | {name: chunk[name] for name in names if name in chunk}
