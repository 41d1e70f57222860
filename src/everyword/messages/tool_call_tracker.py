"""What is known of a stream's tool calls, so that none is moved backwards and no answer goes nowhere."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

from .json_values import encode_json
from .message import Chunk, Part
from .tool_calls import approval_request, is_tool_part, last_step, tool_name

__all__ = ["ToolCallTracker"]


class _State(Enum):
    STREAMING = auto()  # the input arrives in pieces
    AVAILABLE = auto()  # the input is whole
    REQUESTED = auto()  # a person is asked
    APPROVED = auto()
    REFUSED = auto()  # a person said no, and the call does not show it yet
    RUNNING = auto()  # preliminary outputs, the final one to come
    DONE = auto()  # an output or an error; a later one may replace it
    CLOSED = auto()  # denied, or answered from outside: nothing more may happen


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
    """The calls of one message, by id. Every method returns the chunks that may go out, often none.

    `step` is the number of the step that the chunk would land in: clients look for a call's input in the
    current step only, and for everything else in the whole message.
    """

    def __init__(self, parts: Sequence[Part], *, last_step_is_open: bool) -> None:
        self._calls: dict[str, _Call] = {}
        begin = last_step(parts)
        for position, part in enumerate(parts):
            if is_tool_part(part) and isinstance(part.get("toolCallId"), str):
                in_open_step = last_step_is_open and position >= begin
                self._calls[part["toolCallId"]] = _call_of(part, 0 if in_open_step else -1)

    def name_of(self, call_id: object) -> str | None:
        """Return the tool's name, for chunks that forgot it."""
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
            # The input moves the part back to input-available; asking again repairs that.
            return [chunk, call.request]
        call.state = _State.AVAILABLE
        return [chunk]

    def fail_input(self, chunk: Chunk, step: int) -> list[Chunk]:
        """Say a failed input in chunks that ai 6 and ai 7 fold alike: they differ on `tool-input-error`."""
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
        """Note that a call was answered from outside the stream; it takes nothing more from inside."""
        if call_id in self._calls:
            self._calls[call_id].state = _State.CLOSED

    def forget_step(self, step: int) -> None:
        """Drop the calls of a step that was taken back."""
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
    """Make the chunk meet the part that the call already has: clients keep the two kinds apart."""
    chunk.pop("dynamic", None)
    if is_dynamic:
        chunk["dynamic"] = True


def _announcement(chunk: Chunk) -> Chunk:
    start: Chunk = {"type": "tool-input-start"}
    names = ("toolCallId", "toolName", "title", "toolMetadata", "providerExecuted", "dynamic")
    return start | {name: chunk[name] for name in names if name in chunk}
