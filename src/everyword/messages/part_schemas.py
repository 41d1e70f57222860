"""Every part of a message that ai 7 accepts, as Structs.

A field without a default is required. A field that may be UNSET may be absent but not null. A field of type `Never`
must be absent. Fields that are not named here are dropped.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from .chunks import ProviderMetadata
from .message import Part

__all__ = ["checked_part"]

Never = UnsetType
Text = str | UnsetType
Flag = bool | UnsetType
Metadata = ProviderMetadata | UnsetType
Position = (
    Annotated[int, Meta(ge=0, le=2**53 - 1)] | Annotated[float, Meta(ge=0, le=2**53 - 1, multiple_of=1)] | UnsetType
)


class PartSchema(msgspec.Struct, rename="camel", omit_defaults=True):
    """Base of the schemas: the fields of one kind of part."""


class CitedUrl(PartSchema, kw_only=True, tag_field="sourceType", tag="url"):
    type: Literal["source"]
    id: str
    url: str
    title: Text = UNSET
    provider_metadata: Metadata = UNSET


class CitedDocument(PartSchema, kw_only=True, tag_field="sourceType", tag="document"):
    type: Literal["source"]
    id: str
    media_type: str
    title: str
    filename: Text = UNSET
    provider_metadata: Metadata = UNSET


class CitationSchema(PartSchema, kw_only=True):
    source: CitedUrl | CitedDocument
    start_index: Position = UNSET
    end_index: Position = UNSET
    cited_text: Text = UNSET


class TextSchema(PartSchema, kw_only=True):
    type: str
    text: str
    citations: list[CitationSchema] | UnsetType = UNSET
    state: Literal["streaming", "done"] | UnsetType = UNSET
    provider_metadata: Metadata = UNSET


class ReasoningSchema(PartSchema, kw_only=True):
    type: str
    id: Text = UNSET
    text: str
    state: Literal["streaming", "done"] | UnsetType = UNSET
    provider_metadata: Metadata = UNSET


class CustomSchema(PartSchema, kw_only=True):
    type: str
    kind: str
    provider_metadata: Metadata = UNSET


class SourceUrlSchema(PartSchema, kw_only=True):
    type: str
    source_id: str
    url: str
    title: Text = UNSET
    provider_metadata: Metadata = UNSET


class SourceDocumentSchema(PartSchema, kw_only=True):
    type: str
    source_id: str
    media_type: str
    title: str
    filename: Text = UNSET
    provider_metadata: Metadata = UNSET


class FileSchema(PartSchema, kw_only=True):
    type: str
    media_type: str
    filename: Text = UNSET
    url: str
    provider_reference: dict[str, str] | UnsetType = UNSET
    provider_metadata: Metadata = UNSET


class ReasoningFileSchema(PartSchema, kw_only=True):
    type: str
    media_type: str
    url: str
    provider_metadata: Metadata = UNSET


class SteeringTextSchema(PartSchema, kw_only=True, tag_field="type", tag="text"):
    text: str
    provider_metadata: Metadata = UNSET


class SteeringFileSchema(PartSchema, kw_only=True, tag_field="type", tag="file"):
    media_type: str
    filename: Text = UNSET
    url: str
    provider_reference: dict[str, str] | UnsetType = UNSET
    provider_metadata: Metadata = UNSET


class SteeringSchema(PartSchema, kw_only=True):
    type: str
    id: str
    parts: list[SteeringTextSchema | SteeringFileSchema]


class StepStartSchema(PartSchema, kw_only=True):
    type: str


class DataSchema(PartSchema, kw_only=True):
    type: str
    id: Text = UNSET
    data: Any


class ApprovalAsked(PartSchema, kw_only=True):
    """The approval of a call that waits for a decision."""

    id: str
    approved: Never = UNSET
    descriptor: Any = UNSET
    request_reason: Text = UNSET
    reason: Never = UNSET
    is_automatic: Flag = UNSET
    signature: Text = UNSET
    input_schema_input: Any = UNSET


class ApprovalAnswered(PartSchema, kw_only=True):
    id: str
    approved: bool
    descriptor: Any = UNSET
    request_reason: Text = UNSET
    reason: Text = UNSET
    is_automatic: Flag = UNSET
    signature: Text = UNSET
    input_schema_input: Any = UNSET


class ApprovalGranted(ApprovalAnswered):
    def __post_init__(self) -> None:
        if not self.approved:
            raise ValueError("the call has an outcome, so its approval must have been granted")


class ApprovalDenied(ApprovalAnswered):
    def __post_init__(self) -> None:
        if self.approved:
            raise ValueError("the call was denied, so its approval cannot have been granted")


class ToolCallSchema(PartSchema, kw_only=True):
    """Fields of a call in every state. Only dynamic calls have `tool_name`, and `dynamic` if their tool is gone."""

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
            raise ValueError("dynamic may only be false; the type `dynamic-tool` marks a dynamic call")


class InputStreaming(ToolCallSchema, kw_only=True):
    input: Any = UNSET
    raw_input: Text = UNSET
    input_encoding: Literal["json", "text"] | UnsetType = UNSET
    output: Never = UNSET
    error_text: Never = UNSET
    approval: Never = UNSET


class InputAvailable(ToolCallSchema, kw_only=True):
    input: Any
    output: Never = UNSET
    error_text: Never = UNSET
    approval: Never = UNSET


class ApprovalRequested(ToolCallSchema, kw_only=True):
    input: Any
    output: Never = UNSET
    error_text: Never = UNSET
    approval: ApprovalAsked


class ApprovalResponded(ToolCallSchema, kw_only=True):
    input: Any
    output: Never = UNSET
    error_text: Never = UNSET
    approval: ApprovalAnswered


class OutputAvailable(ToolCallSchema, kw_only=True):
    input: Any
    output: Any
    error_text: Never = UNSET
    result_provider_metadata: Metadata = UNSET
    preliminary: Flag = UNSET
    approval: ApprovalGranted | UnsetType = UNSET


class OutputError(ToolCallSchema, kw_only=True):
    input: Any = UNSET
    raw_input: Any = UNSET
    output: Never = UNSET
    error_text: str
    result_provider_metadata: Metadata = UNSET
    approval: ApprovalGranted | UnsetType = UNSET


class OutputDenied(ToolCallSchema, kw_only=True):
    input: Any
    output: Never = UNSET
    error_text: Never = UNSET
    approval: ApprovalDenied


_SCHEMAS: Final[dict[str, type[PartSchema]]] = {
    "text": TextSchema,
    "reasoning": ReasoningSchema,
    "custom": CustomSchema,
    "source-url": SourceUrlSchema,
    "source-document": SourceDocumentSchema,
    "file": FileSchema,
    "reasoning-file": ReasoningFileSchema,
    "steering-message": SteeringSchema,
    "step-start": StepStartSchema,
}
_CALL_SCHEMAS: Final[dict[str, type[ToolCallSchema]]] = {
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
    """Return a copy of the part with its known fields. Raises msgspec.ValidationError if it does not fit its schema."""
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str):
        raise msgspec.ValidationError("it is not an object with a type")
    schema: type[PartSchema] | None = _SCHEMAS.get(kind)
    if kind.startswith("data-"):
        schema = DataSchema
    elif kind == "dynamic-tool" or kind.startswith("tool-"):
        state = part.get("state")
        schema = _CALL_SCHEMAS.get(state) if isinstance(state, str) else None
        if schema is None:
            raise msgspec.ValidationError(f"{state!r} is not a state of a call")
        if kind != "dynamic-tool":
            part = {name: value for name, value in part.items() if name not in _DYNAMIC_ONLY}
    if schema is None:
        raise msgspec.ValidationError("there is no such type")
    checked: Part = msgspec.to_builtins(msgspec.convert(part, schema))
    return checked
