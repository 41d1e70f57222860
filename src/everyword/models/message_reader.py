"""Read messages for the `to_*` adapters: the steps of each message, and a result for every tool call."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from ..messages.attachment_contents import with_read_contents
from ..messages.json_values import encode_json
from ..messages.message import Part, UIMessage
from ..messages.readable_parts import keep_readable_parts
from ..messages.tool_calls import is_tool_part, tool_name

__all__ = [
    "DataUrl",
    "ToolCall",
    "ToolCallResult",
    "decode_text",
    "is_text",
    "named_file",
    "output_text",
    "provider_metadata",
    "read_data_url",
    "read_messages",
    "read_tool_call",
    "split_steps",
]

log = logging.getLogger("everyword.models")

INTERRUPTED: Final = "The call was interrupted: it has no result."
NOT_APPROVED: Final = "The call was not run: it was not approved."
DENIED: Final = "The user denied this call."

_TEXTS: Final = frozenset({"application/json", "application/xml", "image/svg+xml"})

Outcome = Literal["success", "failed", "denied", "interrupted"]


class ToolCallResult(msgspec.Struct, frozen=True):
    """The result of a tool call: its output, or a text that says why it has none."""

    outcome: Outcome
    value: Any


class ToolCall(msgspec.Struct, frozen=True):
    """A tool call with its result, as a model is given it."""

    id: str
    tool: str
    input: dict[str, Any]
    result: ToolCallResult
    part: Part

    @property
    def is_provider_executed(self) -> bool:
        """True if the provider ran the tool itself."""
        return bool(self.part.get("providerExecuted"))

    @property
    def raw_input(self) -> str:
        """The arguments as JSON text."""
        return encode_json(self.input).decode()


class DataUrl(msgspec.Struct, frozen=True):
    """The content of a base64 data URL."""

    media_type: str
    base64: str


def read_messages(messages: Iterable[UIMessage | Mapping[str, Any]]) -> list[UIMessage]:
    """Return the messages, given as UIMessages or JSON objects, without their unreadable parts.

    The contents of attachments are in them, if code of their agent runs.
    """
    return [
        keep_readable_parts(each if isinstance(each, UIMessage) else UIMessage.from_dict(each))
        for each in with_read_contents(list(messages))
    ]


def split_steps(message: UIMessage) -> Iterator[list[Part]]:
    """Yield the parts of each step that is not empty."""
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
    """Return the call of a tool part, with a result in every state.

    Return None for parts of other types, and for a call whose input is incomplete.
    """
    if not is_tool_part(part) or part.get("state") == "input-streaming" or not part.get("toolCallId"):
        return None
    given = part.get("input")
    return ToolCall(
        id=str(part["toolCallId"]),
        tool=tool_name(part),
        input=given if isinstance(given, dict) else {},
        result=_result(part),
        part=part,
    )


def _result(part: Part) -> ToolCallResult:
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
    """Return a tool output as text for the model: a string as it is, any other value as JSON."""
    return value if isinstance(value, str) else encode_json(value).decode()


def provider_metadata(part: Part, provider: str, field: str = "providerMetadata") -> dict[str, Any]:
    """Return the metadata of one provider on a part; empty if there is none."""
    metadata = part.get(field)
    own = metadata.get(provider) if isinstance(metadata, dict) else None
    return own if isinstance(own, dict) else {}


def read_data_url(url: str) -> DataUrl | None:
    """Return the content of a base64 data URL, or None for any other URL."""
    head, comma, body = url.partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        return None
    return DataUrl(head[5:].partition(";")[0] or "application/octet-stream", body)


def is_text(media_type: str) -> bool:
    """Tell whether files of a type are given to models as text."""
    return media_type.startswith("text/") or media_type in _TEXTS


def decode_text(content: str) -> str | None:
    """Return the text of a base64 content; None, with a warning, if it cannot be read."""
    try:
        return base64.b64decode(content).decode("utf-8", "replace")
    except ValueError as exc:
        log.warning("skipped a stored file part whose data URL cannot be read: %s", exc)
        return None


def named_file(name: str, media_type: str) -> str:
    """Return a file's name and type for a sentence: `file a.zip (application/zip)`."""
    return " ".join(filter(None, ["file", name, f"({media_type})"]))
