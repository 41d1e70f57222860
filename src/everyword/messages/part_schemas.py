"""Every part of a message that ai 7 accepts: the Structs are the table.

A field without a default is required, one that may be UNSET may be absent but not null, `Never` must be absent, and
what is not named here is dropped.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from .chunks import Keyed
from .message import Part

__all__ = ["checked_part"]

Never = UnsetType
Text = str | UnsetType
Flag = bool | UnsetType
Metadata = Keyed | UnsetType
Position = (
    Annotated[int, Meta(ge=0, le=2**53 - 1)] | Annotated[float, Meta(ge=0, le=2**53 - 1, multiple_of=1)] | UnsetType
)


class Shape(msgspec.Struct, rename="camel", omit_defaults=True):
    """The fields of one kind of part."""


class CitedUrl(Shape, kw_only=True, tag_field="sourceType", tag="url"):
    type: Literal["source"]
    id: str
    url: str
    title: Text = UNSET
    provider_metadata: Metadata = UNSET


class CitedDocument(Shape, kw_only=True, tag_field="sourceType", tag="document"):
    type: Literal["source"]
    id: str
    media_type: str
    title: str
    filename: Text = UNSET
    provider_metadata: Metadata = UNSET


class CitationShape(Shape, kw_only=True):
    source: CitedUrl | CitedDocument
    start_index: Position = UNSET
    end_index: Position = UNSET
    cited_text: Text = UNSET


class TextShape(Shape, kw_only=True):
    type: str
    text: str
    citations: list[CitationShape] | UnsetType = UNSET
    state: Literal["streaming", "done"] | UnsetType = UNSET
    provider_metadata: Metadata = UNSET


class ReasoningShape(Shape, kw_only=True):
    type: str
    id: Text = UNSET
    text: str
    state: Literal["streaming", "done"] | UnsetType = UNSET
    provider_metadata: Metadata = UNSET


class CustomShape(Shape, kw_only=True):
    type: str
    kind: str
    provider_metadata: Metadata = UNSET


class SourceUrlShape(Shape, kw_only=True):
    type: str
    source_id: str
    url: str
    title: Text = UNSET
    provider_metadata: Metadata = UNSET


class SourceDocumentShape(Shape, kw_only=True):
    type: str
    source_id: str
    media_type: str
    title: str
    filename: Text = UNSET
    provider_metadata: Metadata = UNSET


class FileShape(Shape, kw_only=True):
    type: str
    media_type: str
    filename: Text = UNSET
    url: str
    provider_reference: dict[str, str] | UnsetType = UNSET
    provider_metadata: Metadata = UNSET


class ReasoningFileShape(Shape, kw_only=True):
    type: str
    media_type: str
    url: str
    provider_metadata: Metadata = UNSET


class SaidText(Shape, kw_only=True, tag_field="type", tag="text"):
    text: str
    provider_metadata: Metadata = UNSET


class SaidFile(Shape, kw_only=True, tag_field="type", tag="file"):
    media_type: str
    filename: Text = UNSET
    url: str
    provider_reference: dict[str, str] | UnsetType = UNSET
    provider_metadata: Metadata = UNSET


class SteeringShape(Shape, kw_only=True):
    type: str
    id: str
    parts: list[SaidText | SaidFile]


class StepStartShape(Shape, kw_only=True):
    type: str


class DataShape(Shape, kw_only=True):
    type: str
    id: Text = UNSET
    data: Any


class Asked(Shape, kw_only=True):
    """The approval of a call that waits for it."""

    id: str
    approved: Never = UNSET
    descriptor: Any = UNSET
    request_reason: Text = UNSET
    reason: Never = UNSET
    is_automatic: Flag = UNSET
    signature: Text = UNSET
    input_schema_input: Any = UNSET


class Answered(Shape, kw_only=True):
    id: str
    approved: bool
    descriptor: Any = UNSET
    request_reason: Text = UNSET
    reason: Text = UNSET
    is_automatic: Flag = UNSET
    signature: Text = UNSET
    input_schema_input: Any = UNSET


class Granted(Answered):
    def __post_init__(self) -> None:
        if not self.approved:
            raise ValueError("the call has an outcome, so its approval must have been granted")


class Denied(Answered):
    def __post_init__(self) -> None:
        if self.approved:
            raise ValueError("the call was denied, so its approval cannot have been granted")


class CallShape(Shape, kw_only=True):
    """What calls have in every state. Only dynamic ones have a tool name, and `dynamic` if their tool is gone."""

    type: str
    tool_name: Text = UNSET
    dynamic: Flag = UNSET
    tool_call_id: str
    title: Text = UNSET
    tool_metadata: dict[str, Any] | UnsetType = UNSET
    state: str
    provider_executed: Flag = UNSET
    call_provider_metadata: Metadata = UNSET

    def __post_init__(self) -> None:
        if self.type == "dynamic-tool" and self.tool_name is UNSET:
            raise ValueError("a dynamic tool part needs a toolName")
        if self.dynamic is True:
            raise ValueError("dynamic may only be false: its type says that the call is dynamic")


class InputStreaming(CallShape, kw_only=True):
    input: Any = UNSET
    raw_input: Text = UNSET
    input_encoding: Literal["json", "text"] | UnsetType = UNSET
    output: Never = UNSET
    error_text: Never = UNSET
    approval: Never = UNSET


class InputAvailable(CallShape, kw_only=True):
    input: Any
    output: Never = UNSET
    error_text: Never = UNSET
    approval: Never = UNSET


class ApprovalRequested(CallShape, kw_only=True):
    input: Any
    output: Never = UNSET
    error_text: Never = UNSET
    approval: Asked


class ApprovalResponded(CallShape, kw_only=True):
    input: Any
    output: Never = UNSET
    error_text: Never = UNSET
    approval: Answered


class OutputAvailable(CallShape, kw_only=True):
    input: Any
    output: Any
    error_text: Never = UNSET
    result_provider_metadata: Metadata = UNSET
    preliminary: Flag = UNSET
    approval: Granted | UnsetType = UNSET


class OutputError(CallShape, kw_only=True):
    input: Any = UNSET
    raw_input: Any = UNSET
    output: Never = UNSET
    error_text: str
    result_provider_metadata: Metadata = UNSET
    approval: Granted | UnsetType = UNSET


class OutputDenied(CallShape, kw_only=True):
    input: Any
    output: Never = UNSET
    error_text: Never = UNSET
    approval: Denied


_SHAPES: Final[dict[str, type[Shape]]] = {
    "text": TextShape,
    "reasoning": ReasoningShape,
    "custom": CustomShape,
    "source-url": SourceUrlShape,
    "source-document": SourceDocumentShape,
    "file": FileShape,
    "reasoning-file": ReasoningFileShape,
    "steering-message": SteeringShape,
    "step-start": StepStartShape,
}
_CALL_SHAPES: Final[dict[str, type[CallShape]]] = {
    "input-streaming": InputStreaming,
    "input-available": InputAvailable,
    "approval-requested": ApprovalRequested,
    "approval-responded": ApprovalResponded,
    "output-available": OutputAvailable,
    "output-error": OutputError,
    "output-denied": OutputDenied,
}
_DYNAMIC_ONLY: Final = frozenset({"toolName", "dynamic"})


def checked_part(part: Any) -> Part:
    """Return a copy of the part with the fields that it may have; raises msgspec.ValidationError."""
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str):
        raise msgspec.ValidationError("it is not an object with a type")
    shape: type[Shape] | None = _SHAPES.get(kind)
    if kind.startswith("data-"):
        shape = DataShape
    elif kind == "dynamic-tool" or kind.startswith("tool-"):
        state = part.get("state")
        shape = _CALL_SHAPES.get(state) if isinstance(state, str) else None
        if shape is None:
            raise msgspec.ValidationError(f"{state!r} is not a state of a call")
        if kind != "dynamic-tool":
            part = {name: value for name, value in part.items() if name not in _DYNAMIC_ONLY}
    if shape is None:
        raise msgspec.ValidationError("there is no such type")
    checked: Part = msgspec.to_builtins(msgspec.convert(part, shape))
    return checked
