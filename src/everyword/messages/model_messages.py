"""Convert UIMessages to the AI SDK's ModelMessages, as plain dicts.

Where ai 6 and 7 differ, this follows ai 7: file contents are `{"type": "url" | "reference", …}`, a denied call has an
`execution-denied` result, and approvals that were still unanswered when the user wrote again are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from ..errors import BadMessage
from .attachment_contents import with_read_contents
from .json_values import encode_json
from .message import ROLES, Part, UIMessage, is_part
from .readable_parts import is_readable, keep_readable_parts
from .tool_calls import is_tool_part, tool_name

__all__ = ["ConvertPart", "ModelMessage", "convert_to_model_messages"]

ModelMessage = dict[str, Any]
"""One message for a model: `{"role": "user", "content": [{"type": "text", "text": …}]}`."""

ConvertPart = Callable[[Part], dict[str, Any] | None]
"""Converts a `data-*` part to a text or file part for the model, or returns None to leave it out."""

_FINISHED: Final = frozenset({"approval-responded", "output-error", "output-denied"})
_HAS_RESULT: Final = frozenset({"output-available", "output-error"})
_CONTENT_TYPES: Final = frozenset({"text", "reasoning", "custom", "file", "reasoning-file"})
_FILES: Final = frozenset({"file", "reasoning-file"})
_TOOL_GONE: Final = "Tool output omitted because the tool is no longer available."
_DENIED: Final = "Tool call execution denied."

_ABSOLUTE_URL = re.compile(r"(?!https?:/*$)[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def convert_to_model_messages(
    messages: Sequence[UIMessage | Mapping[str, Any]],
    *,
    tools: Mapping[str, Any] | None = None,
    ignore_incomplete_tool_calls: bool = False,
    convert_data_part: ConvertPart | None = None,
) -> list[ModelMessage]:
    """Return the model messages for the messages; the result shares values with them.

    An assistant message becomes one model message per step, each followed by a tool message if its calls have results.
    A tool's `to_model_output(tool_call_id=…, input=…, output=…)`, an attribute or a key, converts its output for the
    model. An open call stays without a result, unless `ignore_incomplete_tool_calls` drops it; see also
    `repair_calls`. Parts that cannot be given to a model are left out: those with fields of the wrong type, and files
    whose url is not absolute. Attachments are read, if code of their agent runs. Raises BadMessage for a message
    without a role or a list of parts.
    """
    read = [_read(index, message) for index, message in enumerate(with_read_contents(list(messages)))]
    asked = max((index for index, (role, _) in enumerate(read) if role == "user"), default=-1)
    conversion = _Conversion(tools or {}, convert_data_part)
    for index, (role, parts) in enumerate(read):
        wanted = [
            part
            for part in parts
            if _is_wanted(part, is_past=index < asked, only_complete=ignore_incomplete_tool_calls)
        ]
        conversion.add(role, wanted)
    return conversion.converted


def _read(index: int, message: UIMessage | Mapping[str, Any]) -> tuple[str, list[Part]]:
    if isinstance(message, UIMessage):
        return _known_role(index, message.role), keep_readable_parts(message).parts
    parts = message.get("parts")
    role = _known_role(index, message.get("role"))
    if not isinstance(parts, list):
        raise BadMessage(f"unable to convert message {index}; its parts must be a list")
    return role, [part for part in parts if is_part(part) and is_readable(part)]


def _known_role(index: int, role: Any) -> str:
    if not isinstance(role, str) or role not in ROLES:
        raise BadMessage(f"unable to convert message {index}; its role is not system, user or assistant")
    return role


def _is_wanted(part: Part, *, is_past: bool, only_complete: bool) -> bool:
    if part["type"] in _FILES:
        return _has_contents(part)
    if not is_tool_part(part):
        return True
    state = part.get("state")
    if state == "approval-requested" and is_past:
        return False  # the user wrote again instead of answering
    if not only_complete or state in _FINISHED:
        return True
    return state == "output-available" and part.get("preliminary") is not True


def _has_contents(part: Part) -> bool:
    """Return True if a model can read the file: its provider stores it, or its url is absolute."""
    return _is_reference(part) or _ABSOLUTE_URL.match(part["url"]) is not None


def _is_reference(part: Part) -> bool:
    return part["type"] == "file" and part.get("providerReference") is not None


class _Conversion:
    def __init__(self, tools: Mapping[str, Any], convert_data_part: ConvertPart | None) -> None:
        self.converted: list[ModelMessage] = []
        self._tools = tools
        self._convert_data_part = convert_data_part

    def add(self, role: str, parts: list[Part]) -> None:
        match role:
            case "system":
                self._add_system(parts)
            case "user":
                self._put("user", [made for part in parts for made in self._user_content(part)])
            case _:
                self._add_answer(parts)

    def _put(self, role: str, content: list[Part]) -> None:
        self.converted.append({"role": role, "content": content})

    def _add_system(self, parts: list[Part]) -> None:
        texts = [part for part in parts if part["type"] == "text"]
        message: ModelMessage = {"role": "system", "content": "".join(part["text"] for part in texts)}
        given = [part["providerMetadata"] for part in texts if isinstance(part.get("providerMetadata"), dict)]
        options = {name: value for each in given for name, value in each.items()}
        if options:
            message["providerOptions"] = options
        self.converted.append(message)

    def _add_answer(self, parts: list[Part]) -> None:
        block: list[Part] = []
        for part in parts:
            kind: str = part["type"]
            if kind in _CONTENT_TYPES or kind.startswith("data-") or is_tool_part(part):
                block.append(part)
            elif kind in ("step-start", "steering-message"):
                self._add_step(block)
                block = []
                if kind == "steering-message":
                    self._put(
                        "user",
                        [
                            _text_or_file(each)
                            for each in part["parts"]
                            if each["type"] == "text" or _has_contents(each)
                        ],
                    )
        self._add_step(block)

    def _add_step(self, block: list[Part]) -> None:
        if content := [made for part in block for made in self._content(part)]:
            self._put("assistant", content)
        calls = [part for part in block if is_tool_part(part)]
        if answers := [made for call in calls for made in self._answers(call)]:
            self._put("tool", answers)

    def _user_content(self, part: Part) -> Iterable[Part]:
        if part["type"] in ("text", "file"):
            return [_text_or_file(part)]
        return self._converted_data(part) if part["type"].startswith("data-") else []

    def _content(self, part: Part) -> Iterable[Part]:
        match part["type"]:
            case "text" | "file":
                return [_text_or_file(part)]
            case "custom":
                return [{"type": "custom", "kind": part["kind"], **_options(part)}]
            case "reasoning":
                return [{"type": "reasoning", "text": part["text"], **_options_as_given(part)}]
            case "reasoning-file":
                made = {"type": "reasoning-file", "data": _file_contents(part), "mediaType": part["mediaType"]}
                return [{**made, **_options_as_given(part)}]
            case kind if kind.startswith("data-"):
                return self._converted_data(part)
            case _:
                return self._call(part)

    def _converted_data(self, part: Part) -> Iterable[Part]:
        made = self._convert_data_part(part) if self._convert_data_part is not None else None
        return [] if made is None else [made]

    def _call(self, part: Part) -> Iterable[Part]:
        state = part.get("state")
        if state == "input-streaming":
            return
        yield _tool_call(part)
        if _approval_of(part):
            yield _approval_request(part)
        if part.get("providerExecuted") is True and state in _HAS_RESULT:
            options = _options(part, "resultProviderMetadata", "callProviderMetadata")
            yield {**_result(part, self._output(part, error_type="error-json")), **options}

    def _answers(self, part: Part) -> Iterable[Part]:
        """Yield the content of the step's tool message for a call."""
        approval, state = _approval_of(part), part.get("state")
        options = _options(part, "callProviderMetadata")
        if approval.get("approved") is not None:
            yield _approval_response(part)
            if state == "approval-responded" and approval["approved"] is False:
                yield {**_result(part, {"type": "execution-denied", **_copied(approval, "reason")}), **options}
        if part.get("providerExecuted") is True:
            return  # its result is in the assistant message, beside the call
        if state == "output-denied":
            reason = approval.get("reason")
            output = {"type": "error-text", "value": _DENIED if reason is None else reason}
            yield {**_result(part, output), **options}
        elif state in _HAS_RESULT:
            yield {**_result(part, self._output(part, error_type="error-text")), **options}

    def _output(self, part: Part, *, error_type: str) -> dict[str, Any]:
        if part["state"] == "output-error":
            text = part.get("errorText")
            return {"type": error_type, "value": text if error_type == "error-json" else _error_text(text)}
        tool = self._tools.get(tool_name(part))
        if tool is None and part["type"] == "dynamic-tool" and part.get("dynamic") is False:
            return {"type": "text", "value": _TOOL_GONE}
        output = part.get("output")
        if (to_model_output := _to_model_output(tool)) is not None:
            made: dict[str, Any] = to_model_output(
                tool_call_id=part["toolCallId"], input=part.get("input"), output=output
            )
            return made
        return {"type": "text" if isinstance(output, str) else "json", "value": output}


def _to_model_output(tool: Any) -> Callable[..., Any] | None:
    found: Callable[..., Any] | None = (
        tool.get("to_model_output") if isinstance(tool, Mapping) else getattr(tool, "to_model_output", None)
    )
    return found


def _text_or_file(part: Part) -> Part:
    if part["type"] == "text":
        return {"type": "text", "text": part["text"], **_options(part)}
    made = {"type": "file", "mediaType": part["mediaType"], **_copied(part, "filename")}
    return {**made, "data": _file_contents(part), **_options(part)}


def _file_contents(part: Part) -> dict[str, Any]:
    if _is_reference(part):
        return {"type": "reference", "reference": part["providerReference"]}
    return {"type": "url", "url": part["url"]}


def _tool_call(part: Part) -> Part:
    made = {"type": "tool-call", "toolCallId": part["toolCallId"], "toolName": tool_name(part)}
    sources = ["callProviderMetadata"]
    if part.get("state") != "output-error":
        made |= _copied(part, "input")
    else:
        sources.append("resultProviderMetadata")
        if part.get("input") is not None:
            made["input"] = part["input"]
        elif "rawInput" in part:
            made["input"] = part["rawInput"]
    return {**made, **_copied(part, "providerExecuted"), **_options(part, *sources)}


def _approval_request(part: Part) -> Part:
    approval = part["approval"]
    made = {
        "type": "tool-approval-request",
        "approvalId": approval["id"],
        "toolCallId": part["toolCallId"],
    }
    made |= _copied(approval, "isAutomatic", "inputSchemaInput")
    if approval.get("requestReason") is not None:
        made["reason"] = approval["requestReason"]
    if approval.get("signature") is not None:
        made["signature"] = approval["signature"]
    return made


def _approval_response(part: Part) -> Part:
    approval = part["approval"]
    made = {"type": "tool-approval-response", "approvalId": approval["id"], "approved": approval["approved"]}
    return {**made, **_copied(approval, "reason"), **_copied(part, "providerExecuted")}


def _result(part: Part, output: dict[str, Any]) -> Part:
    return {
        "type": "tool-result",
        "toolCallId": part["toolCallId"],
        "toolName": tool_name(part),
        "output": output,
    }


def _error_text(value: Any) -> str:
    if value is None:
        return "unknown error"
    return value if isinstance(value, str) else encode_json(value).decode()


def _approval_of(part: Part) -> dict[str, Any]:
    """Return a call's approval; an empty dict if it has none, or none with an id."""
    approval: dict[str, Any] = part.get("approval") or {}
    return approval if "id" in approval else {}


def _copied(source: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: source[name] for name in names if name in source}


def _options(part: Part, *sources: str) -> dict[str, Any]:
    for source in sources or ("providerMetadata",):
        if part.get(source) is not None:
            return {"providerOptions": part[source]}
    return {}


def _options_as_given(part: Part) -> dict[str, Any]:
    return {"providerOptions": part["providerMetadata"]} if "providerMetadata" in part else {}
