"""What a conversation says to a model: the steps of each message, and an answer for every call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from ..messages.json_values import encode_json
from ..messages.message import Part, UIMessage
from ..messages.readable_parts import keep_readable_parts
from ..messages.tool_calls import is_tool_part, tool_name

__all__ = [
    "DataUrl",
    "ToolCall",
    "ToolCallResult",
    "output_text",
    "provider_metadata",
    "read_data_url",
    "read_messages",
    "read_tool_call",
    "split_steps",
]

INTERRUPTED: Final = "The call was interrupted: it has no result."
NOT_APPROVED: Final = "The call was not run: nobody approved it."
DENIED: Final = "The user denied this call."

Outcome = Literal["success", "failed", "denied", "interrupted"]


class ToolCallResult(msgspec.Struct, frozen=True):
    """What came of a call: its output, or a text that says why there is none."""

    outcome: Outcome
    value: Any


class ToolCall(msgspec.Struct, frozen=True):
    """A call as a model is shown it."""

    id: str
    tool: str
    input: dict[str, Any]
    answer: ToolCallResult
    part: Part

    @property
    def is_executed(self) -> bool:
        """Whether the provider ran it."""
        return bool(self.part.get("providerExecuted"))

    @property
    def raw_input(self) -> str:
        """The arguments as JSON text."""
        return encode_json(self.input).decode()


class DataUrl(msgspec.Struct, frozen=True):
    """A file inside its own address, as base64."""

    media_type: str
    base64: str


def read_messages(messages: Iterable[UIMessage | Mapping[str, Any]]) -> list[UIMessage]:
    """Take messages as they are or as JSON objects, without parts that cannot be read."""
    return [
        keep_readable_parts(each if isinstance(each, UIMessage) else UIMessage.from_dict(each)) for each in messages
    ]


def split_steps(message: UIMessage) -> Iterator[list[Part]]:
    """Yield the parts of each step that has any."""
    step: list[Part] = []
    for part in message.parts:
        if part["type"] == "step-start":
            if step:
                yield step
            step = []
        else:
            step.append(part)
    if step:
        yield step


def read_tool_call(part: Part) -> ToolCall | None:
    """Return the call of a tool part with an answer, whatever state it is in.

    None for parts of other kinds, and for a call that the model had not finished asking for.
    """
    if not is_tool_part(part) or part.get("state") == "input-streaming" or not part.get("toolCallId"):
        return None
    given = part.get("input")
    return ToolCall(
        id=str(part["toolCallId"]),
        tool=tool_name(part),
        input=given if isinstance(given, dict) else {},
        answer=_answer(part),
        part=part,
    )


def _answer(part: Part) -> ToolCallResult:
    approval = part.get("approval") or {}
    match part.get("state"):
        case "output-available":
            return ToolCallResult("success", part.get("output"))
        case "output-error":
            return ToolCallResult("failed", str(part.get("errorText") or "The tool failed."))
        case "output-denied":
            return ToolCallResult("denied", str(approval.get("reason") or DENIED))
        case "approval-responded" if approval.get("approved") is False:
            return ToolCallResult("denied", str(approval.get("reason") or DENIED))
        case "approval-requested":
            return ToolCallResult("interrupted", NOT_APPROVED)
        case _:
            return ToolCallResult("interrupted", INTERRUPTED)


def output_text(value: Any) -> str:
    """Return an output as a model reads it: text as it is, everything else as JSON."""
    return value if isinstance(value, str) else encode_json(value).decode()


def provider_metadata(part: Part, provider: str, field: str = "providerMetadata") -> dict[str, Any]:
    """Return what a provider left on a part; empty when it left nothing."""
    metadata = part.get(field)
    own = metadata.get(provider) if isinstance(metadata, dict) else None
    return own if isinstance(own, dict) else {}


def read_data_url(url: str) -> DataUrl | None:
    """Return the content of a base64 data URL, None for every other address."""
    head, comma, body = url.partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        return None
    return DataUrl(head[5:].partition(";")[0] or "application/octet-stream", body)
