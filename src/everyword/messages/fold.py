"""The fold: build a message from chunks. Server, Python client and recovery all use this one.

It gives the results of the stock client's `processUIMessageStream` as of ai 6, plus the chunk types and fields that
only ai 7 has. A chunk that makes the client throw raises FoldError; an unknown type is ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..errors import FoldError
from .message import Chunk, Part, UIMessage
from .metadata import merge_metadata
from .open_parts import OpenInput, OpenPart
from .tool_calls import CallAnswer, answered_part, find_tool_part, is_tool_part, last_step, tool_name

__all__ = ["MessageFold"]

# Fields that every update of a tool part sets, or removes if the update does not give them.
_VOLATILE: Final = ("input", "output", "errorText", "rawInput", "inputEncoding", "preliminary")


class MessageFold:
    """A message that is being built from chunks.

    `base` is the message to continue: its parts are kept, and tool inputs that still stream can grow further. Open
    text and reasoning parts cannot, because a message does not store their chunk ids.
    """

    def __init__(self, message_id: str, *, base: UIMessage | None = None) -> None:
        self._id = message_id
        self._parts: list[Part] = [dict(part) for part in base.parts] if base is not None else []
        self._metadata: Any = base.metadata if base is not None else None
        self._extra = dict(base.extra) if base is not None else {}
        self._step = last_step(self._parts)
        self._texts: dict[str, OpenPart] = {}
        self._reasonings: dict[str, OpenPart] = {}
        self._inputs: dict[str, OpenInput] = {}
        self._finish_reason: str | None = None
        self._is_finished = False
        for part in self._parts[self._step :]:
            if is_tool_part(part) and part.get("state") == "input-streaming":
                is_dynamic, raw_input = part["type"] == "dynamic-tool", part.get("rawInput")
                text = raw_input if isinstance(raw_input, str) else ""
                self._inputs[part["toolCallId"]] = OpenInput(
                    tool_name(part), dict(part), is_dynamic=is_dynamic, text=text
                )

    # -- reading ---------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """True if the message has no parts."""
        return not self._parts

    @property
    def is_finished(self) -> bool:
        """True after a `finish` chunk."""
        return self._is_finished

    @property
    def finish_reason(self) -> str | None:
        """The `finishReason` of the last `finish` chunk that had one."""
        return self._finish_reason

    @property
    def open_parts(self) -> dict[int, str]:
        """Index in the list of parts → chunk id, for every open text and reasoning part, in order."""
        streams = [(open_part.position, name) for name, open_part in self._texts.items()]
        streams += [(open_part.position, name) for name, open_part in self._reasonings.items()]
        return dict(sorted(streams))

    def message(self) -> UIMessage:
        """Return a copy of the message so far; chunks applied later do not change it."""
        for open_part in self._texts.values():
            open_part.join()
        for open_part in self._reasonings.values():
            open_part.join()
        for open_input in self._inputs.values():
            open_input.settle()
        parts = [dict(part) for part in self._parts]
        return UIMessage(self._id, "assistant", parts, self._metadata, dict(self._extra))

    def closed_message(self) -> UIMessage:
        """Return the message as it would be after `closing_chunks` were applied."""
        message = self.message()
        for position in self.open_parts:
            message.parts[position]["state"] = "done"
        return message

    def closing_chunks(self) -> list[Chunk]:
        """Return an end chunk for every open text and reasoning part, in the order in which they were opened (R-23)."""
        return [{"type": f"{self._parts[at]['type']}-end", "id": name} for at, name in self.open_parts.items()]

    # -- writing ---------------------------------------------------------------------------------

    def apply(self, chunk: Chunk) -> None:
        """Apply the next chunk.

        Raises FoldError for a chunk that does not fit the message; the message is then unchanged.
        """
        try:
            kind: str = chunk["type"]
            fold = _FOLDS.get(kind)
            if fold is not None:
                fold(self, chunk)
            elif kind.startswith("data-"):
                self._data_part(chunk)
        except (KeyError, TypeError, AttributeError) as error:
            named = str(chunk.get("type"))
            raise FoldError(f"unable to fold a {named} chunk; it is malformed ({error!r})", chunk_type=named) from error

    def answer(self, call_id: str, answer: CallAnswer) -> bool:
        """Apply an answer to a tool call, like `settle`. Return False if the call is unknown or already settled."""
        index = find_tool_part(self._parts, call_id, self._step)
        if index is None:
            return False
        self._settle_input(call_id)
        answered = answered_part(self._parts[index], answer)
        if answered is None:
            return False
        self._parts[index] = answered
        return True

    # -- text and reasoning ----------------------------------------------------------------------

    def _open_text(self, chunk: Chunk) -> None:
        self._open(self._texts, chunk["id"], {"type": "text", "text": "", "state": "streaming"}, chunk)

    def _open_reasoning(self, chunk: Chunk) -> None:
        part = {"type": "reasoning", "id": chunk["id"], "text": "", "state": "streaming"}
        self._open(self._reasonings, chunk["id"], part, chunk)

    def _open(self, streams: dict[str, OpenPart], name: str, part: Part, chunk: Chunk) -> None:
        forgotten = streams.pop(name, None)
        if forgotten is not None:
            forgotten.join()
        _keep_provider_metadata(part, chunk)
        streams[name] = OpenPart(part, len(self._parts))
        self._parts.append(part)

    def _grow_text(self, chunk: Chunk) -> None:
        open_part = self._texts.get(chunk["id"])
        if open_part is None:
            raise _missing(chunk, "text")
        delta = chunk["delta"]
        if len(chunk) == 3 and delta.__class__ is str:  # the common case: type, id and delta only
            open_part.pieces.append(delta)
        else:
            _grow(open_part, chunk)

    def _grow_reasoning(self, chunk: Chunk) -> None:
        open_part = self._reasonings.get(chunk["id"])
        if open_part is None:
            raise _missing(chunk, "reasoning")
        _grow(open_part, chunk)

    def _end_text(self, chunk: Chunk) -> None:
        part = self._end(self._texts, chunk, "text")
        if chunk.get("citations") is not None:
            part["citations"] = chunk["citations"]

    def _end_reasoning(self, chunk: Chunk) -> None:
        self._end(self._reasonings, chunk, "reasoning")

    def _end(self, streams: dict[str, OpenPart], chunk: Chunk, kind: str) -> Part:
        open_part = streams.pop(chunk["id"], None)
        if open_part is None:
            raise _missing(chunk, kind)
        open_part.join()
        open_part.part["state"] = "done"
        _keep_provider_metadata(open_part.part, chunk)
        return open_part.part

    def _forget_open_parts(self) -> None:
        for streams in (self._texts, self._reasonings):
            for open_part in streams.values():
                open_part.join()
            streams.clear()

    # -- tool calls ------------------------------------------------------------------------------

    def _start_input(self, chunk: Chunk) -> None:
        call_id, encoding = chunk["toolCallId"], chunk.get("inputEncoding")
        is_dynamic = bool(chunk.get("dynamic"))
        open_input = OpenInput(chunk["toolName"], chunk, is_dynamic=is_dynamic)
        part, _ = self._announced(call_id, chunk["toolName"], is_dynamic)
        values = {} if encoding is None else {"inputEncoding": encoding}
        _update_call(part, "input-streaming", values, chunk, title=chunk.get("title"))
        open_input.part = part
        self._inputs[call_id] = open_input

    def _grow_input(self, chunk: Chunk) -> None:
        open_input = self._inputs.get(chunk["toolCallId"])
        if open_input is None:
            raise _missing(chunk, "tool-input")
        open_input.pieces.append(chunk["inputTextDelta"] + "")
        if open_input.part is not None:
            open_input.pending = True
            return
        part, is_new = self._announced(chunk["toolCallId"], open_input.name, open_input.is_dynamic)
        values = open_input.values()
        if is_new and open_input.is_dynamic:
            del values["rawInput"]  # the stock client drops it here, and only here
        announced = {"toolMetadata": open_input.announced.get("toolMetadata")}
        _update_call(part, "input-streaming", values, announced, title=open_input.announced.get("title"))
        open_input.part = part

    def _end_input(self, chunk: Chunk) -> None:
        self._settle_input(chunk["toolCallId"])
        part, _ = self._announced(chunk["toolCallId"], chunk["toolName"], bool(chunk.get("dynamic")))
        values = {"input": chunk["input"]} if "input" in chunk else {}
        _update_call(part, "input-available", values, chunk, title=chunk.get("title"))

    def _fail_input(self, chunk: Chunk) -> None:
        call_id, error_text = chunk["toolCallId"], chunk["errorText"]
        self._settle_input(call_id)
        calls = (part for part in self._parts[self._step :] if is_tool_part(part))
        known = next((part for part in calls if part.get("toolCallId") == call_id), None)
        is_dynamic = known["type"] == "dynamic-tool" if known is not None else bool(chunk.get("dynamic"))
        part, _ = self._announced(call_id, chunk["toolName"], is_dynamic)
        # ai 6: a static call without a valid input keeps what was sent as `rawInput` only.
        values = {"errorText": error_text}
        if "input" in chunk:
            values["input" if is_dynamic else "rawInput"] = chunk["input"]
        _update_call(part, "output-error", values, chunk)

    def _request_approval(self, chunk: Chunk) -> None:
        part = self._call(chunk)
        approval: dict[str, Any] = {"id": chunk["approvalId"]}
        for name, source in (("descriptor", "approvalDescriptor"), ("signature", "signature")):
            if chunk.get(source) is not None:
                approval[name] = chunk[source]
        if "inputSchemaInput" in chunk:
            approval["inputSchemaInput"] = chunk["inputSchemaInput"]
        if chunk.get("reason") is not None:
            approval["requestReason"] = chunk["reason"]
        if chunk.get("isAutomatic") is True:
            approval["isAutomatic"] = True
        part["state"] = "approval-requested"
        part["approval"] = approval

    def _respond_approval(self, chunk: Chunk) -> None:
        wanted, approved = chunk["approvalId"], chunk["approved"]
        for part in self._parts:
            approval = part.get("approval")
            if isinstance(approval, dict) and approval.get("id") == wanted and is_tool_part(part):
                break
        else:
            raise FoldError(
                f"unable to fold a tool-approval-response; no call asked for approval {wanted!r}",
                chunk_type="tool-approval-response",
                chunk_id=str(wanted),
            )
        self._settle_input(part["toolCallId"])
        part["state"] = "approval-responded"
        part["approval"] = {**approval, "approved": approved}
        if chunk.get("reason") is not None:
            part["approval"]["reason"] = chunk["reason"]
        if chunk.get("providerExecuted") is not None:
            part["providerExecuted"] = chunk["providerExecuted"]
        if chunk.get("providerMetadata") is not None:
            part["callProviderMetadata"] = chunk["providerMetadata"]

    def _deny(self, chunk: Chunk) -> None:
        self._call(chunk)["state"] = "output-denied"

    def _output(self, chunk: Chunk) -> None:
        part = self._call(chunk)
        values = {name: part[name] for name in ("input",) if name in part}
        if "output" in chunk:
            values["output"] = chunk["output"]
        if chunk.get("preliminary") is not None:
            values["preliminary"] = chunk["preliminary"]
        _update_call(part, "output-available", values, chunk)

    def _fail(self, chunk: Chunk) -> None:
        part = self._call(chunk)
        kept = ("input",) if part["type"] == "dynamic-tool" else ("input", "rawInput")
        values = {name: part[name] for name in kept if name in part}
        _update_call(part, "output-error", {**values, "errorText": chunk["errorText"]}, chunk)

    def _announced(self, call_id: str, name: str, is_dynamic: bool) -> tuple[Part, bool]:
        """Return the call's part in the current step, static or dynamic as asked, and True if it was just created."""
        for part in self._parts[self._step :]:
            if part.get("toolCallId") == call_id and is_tool_part(part):
                if (part["type"] == "dynamic-tool") is not is_dynamic:
                    continue
                part["toolName" if is_dynamic else "type"] = name if is_dynamic else f"tool-{name}"
                return part, False
        part = {"type": "dynamic-tool", "toolName": name} if is_dynamic else {"type": f"tool-{name}"}
        part["toolCallId"] = call_id
        self._parts.append(part)
        return part, True

    def _call(self, chunk: Chunk) -> Part:
        call_id = chunk["toolCallId"]
        index = find_tool_part(self._parts, call_id, self._step)
        if index is None:
            raise FoldError(
                f"unable to fold a {chunk['type']} chunk; there is no tool call {call_id!r}",
                chunk_type="tool-invocation",
                chunk_id=str(call_id),
            )
        self._settle_input(call_id)
        return self._parts[index]

    def _settle_input(self, call_id: str) -> None:
        open_input = self._inputs.get(call_id)
        if open_input is not None:
            open_input.settle()
            open_input.part = None

    # -- everything else -------------------------------------------------------------------------

    def _start(self, chunk: Chunk) -> None:
        self._merge(chunk)
        if chunk.get("messageId") is not None:
            self._id = chunk["messageId"]

    def _finish(self, chunk: Chunk) -> None:
        self._merge(chunk)
        self._is_finished = True
        if chunk.get("finishReason") is not None:
            self._finish_reason = chunk["finishReason"]

    def _merge(self, chunk: Chunk) -> None:
        self._metadata = merge_metadata(self._metadata, chunk.get("messageMetadata"))

    def _start_step(self, chunk: Chunk) -> None:
        for open_input in self._inputs.values():
            open_input.settle()
            open_input.part = None
        self._parts.append({"type": "step-start"})
        self._step = len(self._parts)

    def _finish_step(self, chunk: Chunk) -> None:
        self._forget_open_parts()

    def _reset_step(self, chunk: Chunk) -> None:
        self._forget_open_parts()
        self._inputs.clear()
        del self._parts[self._step :]

    def _push(self, chunk: Chunk) -> None:
        names = _PUSHED[chunk["type"]]
        part = {name: chunk[name] for name in names if chunk.get(name) is not None}
        self._parts.append({"type": chunk["type"], **part})

    def _data_part(self, chunk: Chunk) -> None:
        if chunk.get("transient"):
            return
        kind, name = chunk["type"], chunk.get("id")
        if name is not None:
            for part in self._parts:
                if part.get("id") == name and part["type"] == kind:
                    part["data"] = chunk.get("data")
                    return
        self._parts.append(dict(chunk))

    def _ignore(self, chunk: Chunk) -> None:
        pass


def _grow(open_part: OpenPart, chunk: Chunk) -> None:
    delta = chunk["delta"]
    if delta.__class__ is not str:
        raise TypeError("delta is not a string")
    open_part.pieces.append(delta)
    if chunk.get("providerMetadata") is not None:
        open_part.part["providerMetadata"] = chunk["providerMetadata"]


def _keep_provider_metadata(part: Part, chunk: Chunk) -> None:
    if chunk.get("providerMetadata") is not None:
        part["providerMetadata"] = chunk["providerMetadata"]


def _update_call(part: Part, state: str, values: dict[str, Any], chunk: Chunk, *, title: Any = None) -> None:
    part["state"] = state
    for name in _VOLATILE:
        if name in values:
            part[name] = values[name]
        else:
            part.pop(name, None)
    if title is not None:
        part["title"] = title
    for name in ("toolMetadata", "providerExecuted"):
        if chunk.get(name) is not None:
            part[name] = chunk[name]
    if chunk.get("providerMetadata") is not None:
        has_output = state in ("output-available", "output-error")
        part["resultProviderMetadata" if has_output else "callProviderMetadata"] = chunk["providerMetadata"]


def _missing(chunk: Chunk, kind: str) -> FoldError:
    chunk_type, chunk_id = str(chunk["type"]), str(chunk.get("id", chunk.get("toolCallId")))
    return FoldError(
        f"unable to fold a {chunk_type} chunk; no open part {chunk_id!r}: send a {kind}-start first",
        chunk_type=chunk_type,
        chunk_id=chunk_id,
    )


# Chunks that become a part at once → the fields that the part takes from the chunk.
_PUSHED: Final = {
    "file": ("mediaType", "url", "providerMetadata"),
    "reasoning-file": ("mediaType", "url", "providerMetadata"),
    "source-url": ("sourceId", "url", "title", "providerMetadata"),
    "source-document": ("sourceId", "mediaType", "title", "filename", "providerMetadata"),
    "custom": ("kind", "providerMetadata"),
    "steering-message": ("id", "parts"),
}

_FOLDS: Final[dict[str, Callable[[MessageFold, Chunk], None]]] = {
    "text-delta": MessageFold._grow_text,
    "text-start": MessageFold._open_text,
    "text-end": MessageFold._end_text,
    "reasoning-delta": MessageFold._grow_reasoning,
    "reasoning-start": MessageFold._open_reasoning,
    "reasoning-end": MessageFold._end_reasoning,
    "tool-input-start": MessageFold._start_input,
    "tool-input-delta": MessageFold._grow_input,
    "tool-input-available": MessageFold._end_input,
    "tool-input-error": MessageFold._fail_input,
    "tool-approval-request": MessageFold._request_approval,
    "tool-approval-response": MessageFold._respond_approval,
    "tool-output-available": MessageFold._output,
    "tool-output-error": MessageFold._fail,
    "tool-output-denied": MessageFold._deny,
    **dict.fromkeys(_PUSHED, MessageFold._push),
    "start": MessageFold._start,
    "start-step": MessageFold._start_step,
    "finish-step": MessageFold._finish_step,
    "reset-step": MessageFold._reset_step,
    "finish": MessageFold._finish,
    "message-metadata": MessageFold._merge,
    "abort": MessageFold._ignore,
    "error": MessageFold._ignore,
}
