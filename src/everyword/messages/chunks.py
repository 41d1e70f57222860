"""Every chunk type of AI SDK 6 and 7, as a Struct: what a handler may yield and what a client accepts.

The tag of a Struct is the chunk's `type`; a field without a default is required. `NEWER_TYPES` lists the types that
clients before ai 7 reject, `NEWER_FIELDS` the fields that they do not know. A Struct is named after its type in
CamelCase (`TextDelta`); types of one word get the suffix Chunk (`StartChunk`).
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated, Any, Final, Literal, get_args

import msgspec
from msgspec import Meta

from ..errors import BadChunk, BadInput
from .json_values import encode_json
from .message import Chunk

__all__ = ["CHUNK_TYPES", "NEWER_FIELDS", "NEWER_TYPES", "NULLABLE", "AbortChunk", "ChunkStruct", "Citation"]
__all__ += ["CustomChunk", "DataChunk", "DocumentSource", "ErrorChunk", "FileChunk", "FinishChunk", "FinishReason"]
__all__ += ["FinishStep", "MessageMetadata", "NewerFinishReason", "ProviderMetadata", "ReasoningDelta", "ReasoningEnd"]
__all__ += ["ReasoningFile", "ReasoningStart", "ResetStep", "SourceDocument", "SourceUrl", "StartChunk"]
__all__ += ["StartStep", "SteeringFile", "SteeringMessage", "SteeringText", "TextDelta", "TextEnd", "TextStart"]
__all__ += ["ToolApprovalRequest"]
__all__ += ["ToolApprovalResponse", "ToolInputAvailable", "ToolInputDelta", "ToolInputError"]
__all__ += ["ToolInputStart", "ToolOutputAvailable", "ToolOutputDenied", "ToolOutputError", "as_chunk"]
__all__ += ["UrlSource", "check_chunk", "encode_chunk", "known_chunk", "type_problem"]

ProviderMetadata = dict[str, dict[str, Any]]
"""Provider metadata: `{provider: {name: JSON}}`."""

FinishReason = Literal["stop", "length", "content-filter", "tool-calls", "error", "other"]
NewerFinishReason = Literal["interrupted"]
InputEncoding = Literal["json", "text"]


class UrlSource(msgspec.Struct, tag_field="sourceType", tag="url", rename="camel", omit_defaults=True):
    type: Literal["source"]
    id: str
    url: str
    title: str | None = None
    provider_metadata: ProviderMetadata | None = None


class DocumentSource(msgspec.Struct, tag_field="sourceType", tag="document", rename="camel", omit_defaults=True):
    type: Literal["source"]
    id: str
    media_type: str
    title: str
    filename: str | None = None
    provider_metadata: ProviderMetadata | None = None


class Citation(msgspec.Struct, rename="camel", omit_defaults=True):
    """A source that supports a text part, and the range of characters that it supports."""

    source: UrlSource | DocumentSource
    start_index: Annotated[int, Meta(ge=0)] | None = None
    end_index: Annotated[int, Meta(ge=0)] | None = None
    cited_text: str | None = None


class SteeringText(msgspec.Struct, tag_field="type", tag="text", rename="camel", omit_defaults=True):
    text: str
    provider_metadata: ProviderMetadata | None = None


class SteeringFile(msgspec.Struct, tag_field="type", tag="file", rename="camel", omit_defaults=True):
    media_type: str
    url: str
    filename: str | None = None
    provider_reference: dict[str, str] | None = None
    provider_metadata: ProviderMetadata | None = None


class ChunkStruct(msgspec.Struct, tag_field="type", rename="camel", omit_defaults=True, kw_only=True):
    """Base of the typed chunks. Every function that takes a chunk takes a Struct or the equivalent dict."""


class StartChunk(ChunkStruct, tag="start"):
    message_id: str | None = None
    message_metadata: Any = None


class TextStart(ChunkStruct, tag="text-start"):
    id: str
    provider_metadata: ProviderMetadata | None = None


class TextDelta(ChunkStruct, tag="text-delta"):
    id: str
    delta: str
    provider_metadata: ProviderMetadata | None = None


class TextEnd(ChunkStruct, tag="text-end"):
    id: str
    citations: list[Citation] | None = None
    provider_metadata: ProviderMetadata | None = None


class ReasoningStart(ChunkStruct, tag="reasoning-start"):
    id: str
    provider_metadata: ProviderMetadata | None = None


class ReasoningDelta(ChunkStruct, tag="reasoning-delta"):
    id: str
    delta: str
    provider_metadata: ProviderMetadata | None = None


class ReasoningEnd(ChunkStruct, tag="reasoning-end"):
    id: str
    provider_metadata: ProviderMetadata | None = None


class ToolInputStart(ChunkStruct, tag="tool-input-start"):
    tool_call_id: str
    tool_name: str
    input_encoding: InputEncoding | None = None
    provider_executed: bool | None = None
    provider_metadata: ProviderMetadata | None = None
    tool_metadata: dict[str, Any] | None = None
    dynamic: bool | None = None
    title: str | None = None


class ToolInputDelta(ChunkStruct, tag="tool-input-delta"):
    tool_call_id: str
    input_text_delta: str


class ToolInputAvailable(ChunkStruct, tag="tool-input-available"):
    tool_call_id: str
    tool_name: str
    input: Any
    provider_executed: bool | None = None
    provider_metadata: ProviderMetadata | None = None
    tool_metadata: dict[str, Any] | None = None
    dynamic: bool | None = None
    title: str | None = None


class ToolInputError(ChunkStruct, tag="tool-input-error"):
    tool_call_id: str
    tool_name: str
    input: Any
    error_text: str
    provider_executed: bool | None = None
    provider_metadata: ProviderMetadata | None = None
    tool_metadata: dict[str, Any] | None = None
    dynamic: bool | None = None
    title: str | None = None


class ToolApprovalRequest(ChunkStruct, tag="tool-approval-request"):
    approval_id: str
    tool_call_id: str
    approval_descriptor: Any = None
    input_schema_input: Any = None
    reason: str | None = None
    is_automatic: bool | None = None
    signature: str | None = None


class ToolApprovalResponse(ChunkStruct, tag="tool-approval-response"):
    approval_id: str
    approved: bool
    reason: str | None = None
    provider_executed: bool | None = None
    provider_metadata: ProviderMetadata | None = None


class ToolOutputAvailable(ChunkStruct, tag="tool-output-available"):
    tool_call_id: str
    output: Any
    provider_executed: bool | None = None
    provider_metadata: ProviderMetadata | None = None
    tool_metadata: dict[str, Any] | None = None
    dynamic: bool | None = None
    preliminary: bool | None = None


class ToolOutputError(ChunkStruct, tag="tool-output-error"):
    tool_call_id: str
    error_text: str
    provider_executed: bool | None = None
    provider_metadata: ProviderMetadata | None = None
    tool_metadata: dict[str, Any] | None = None
    dynamic: bool | None = None


class ToolOutputDenied(ChunkStruct, tag="tool-output-denied"):
    tool_call_id: str


class SourceUrl(ChunkStruct, tag="source-url"):
    source_id: str
    url: str
    title: str | None = None
    provider_metadata: ProviderMetadata | None = None


class SourceDocument(ChunkStruct, tag="source-document"):
    source_id: str
    media_type: str
    title: str
    filename: str | None = None
    provider_metadata: ProviderMetadata | None = None


class FileChunk(ChunkStruct, tag="file"):
    url: str
    media_type: str
    provider_metadata: ProviderMetadata | None = None


class ReasoningFile(ChunkStruct, tag="reasoning-file"):
    url: str
    media_type: str
    provider_metadata: ProviderMetadata | None = None


class CustomChunk(ChunkStruct, tag="custom"):
    kind: str
    provider_metadata: ProviderMetadata | None = None


class SteeringMessage(ChunkStruct, tag="steering-message"):
    id: str
    parts: list[SteeringText | SteeringFile]


class StartStep(ChunkStruct, tag="start-step"):
    pass


class FinishStep(ChunkStruct, tag="finish-step"):
    pass


class ResetStep(ChunkStruct, tag="reset-step"):
    pass


class FinishChunk(ChunkStruct, tag="finish"):
    finish_reason: FinishReason | NewerFinishReason | None = None
    message_metadata: Any = None


class AbortChunk(ChunkStruct, tag="abort"):
    reason: str | None = None


class ErrorChunk(ChunkStruct, tag="error"):
    error_text: str


class MessageMetadata(ChunkStruct, tag="message-metadata"):
    message_metadata: Any


class DataChunk(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A data part. Its `type` begins with `data-`. A transient part is shown by clients and never stored."""

    type: str
    id: str | None = None
    data: Any
    transient: bool | None = None


def _struct_type(struct: type[ChunkStruct]) -> str:
    return str(struct.__struct_config__.tag)


CHUNK_TYPES: Final[dict[str, type[ChunkStruct]]] = {
    _struct_type(struct): struct for struct in ChunkStruct.__subclasses__()
}
"""Chunk type → its Struct, for all types but `data-*`."""

NEWER_TYPES: Final = frozenset({"tool-approval-response", "custom", "reasoning-file", "reset-step", "steering-message"})
"""Chunk types that clients before ai 7 reject."""

NEWER_FIELDS: Final[dict[str, frozenset[str]]] = {
    "text-end": frozenset({"citations"}),
    "tool-approval-request": frozenset({"reason", "isAutomatic"}),
}
"""Chunk type → the fields that only ai 7 folds into the message."""

NULLABLE: Final[dict[str, str]] = {
    "tool-input-available": "input",
    "tool-input-error": "input",
    "tool-output-available": "output",
}
"""Chunk type → its one field that is required and may be null. For `data-*` that field is `data`."""

_BARE: Final = {kind: b'{"type":"%b"}' % kind.encode() for kind in ("start-step", "finish-step", "finish")}
_NAMED: Final = frozenset({"text-start", "text-end", "reasoning-start", "reasoning-end"})
"""Types that `encode_chunk` encodes without validation when the chunk has no optional fields. Every answer has them."""

_NEWER_REASONS: Final = frozenset(get_args(NewerFinishReason))


def as_chunk(value: object) -> Chunk:
    """Return the chunk as a JSON object: a dict is returned as it is, a Struct is converted."""
    if isinstance(value, dict):
        return value
    if isinstance(value, (ChunkStruct, DataChunk)):
        chunk: Chunk = msgspec.to_builtins(value, builtin_types=())
        return chunk
    kind = type(value).__name__
    raise BadChunk(f"unable to use {kind} as a chunk; yield a dict with a type, or a chunk Struct")


def known_chunk(value: object) -> Chunk:
    """Return the chunk's JSON object, as `as_chunk` does, if its type is one of AI SDK 6 or 7.

    Raises:
        BadChunk: the value is not a chunk, or no client knows its type.
    """
    chunk = as_chunk(value)
    problem = type_problem(chunk)
    if problem is not None:
        raise BadChunk(f"unable to use {problem[0]}; {problem[1]}")
    return chunk


def type_problem(chunk: Chunk) -> tuple[str, str] | None:
    """Return (what is wrong with the chunk's type, how to fix it), or None if AI SDK 6 or 7 knows the type."""
    kind = chunk.get("type")
    if not isinstance(kind, str):
        return "a dict without a type", "a chunk has a `type`, such as 'text-delta'"
    if kind in CHUNK_TYPES or kind.startswith("data-"):
        return None
    meant = get_close_matches(kind, CHUNK_TYPES, n=1, cutoff=0.84)
    own = f"a type of your own begins with data-, as in 'data-{kind}'"
    return f"a chunk of the unknown type {kind!r}", f"did you mean {meant[0]!r}? Else {own}" if meant else own


def encode_chunk(chunk: Chunk | ChunkStruct | DataChunk, *, newer: bool = False) -> bytes:
    """Validate the chunk against the oldest supported client and encode it for the log and the wire.

    Optional fields that are None are dropped; `input`, `output` and `data` are always present. Without `newer`,
    fields that ai 6 does not know are dropped and types that it rejects raise BadChunk. With `newer`, both are kept.
    """
    raw = as_chunk(chunk)
    kind = raw.get("type")
    if kind == "text-delta" and len(raw) == 3:
        delta, part = raw.get("delta"), raw.get("id")
        if delta.__class__ is str and part.__class__ is str:
            return encode_json({"type": "text-delta", "id": part, "delta": delta})
    elif len(raw) == 1 and kind in _BARE:
        return _BARE[kind]
    elif len(raw) == 2 and kind in _NAMED and (part := raw.get("id")).__class__ is str:
        return encode_json({"type": kind, "id": part})
    try:
        return encode_json(check_chunk(raw, newer=newer))
    except BadInput as error:
        if isinstance(error, BadChunk):
            raise
        raise BadChunk(f"unable to send a {raw['type']!r} chunk; {error}") from error


def check_chunk(raw: Chunk, *, newer: bool = False) -> Chunk:
    """Return the chunk as `encode_chunk` encodes it. Raises BadChunk with the reason."""
    kind = raw.get("type")
    if not isinstance(kind, str):
        raise BadChunk("unable to send a chunk; it has no type")
    if kind.startswith("data-"):
        return _checked(raw, kind, DataChunk, newer)
    struct = CHUNK_TYPES.get(kind)
    if struct is None:
        if newer:
            return raw
        raise BadChunk(
            f"unable to send a {kind!r} chunk; no client knows this type; types of your own begin with data-"
        )
    if kind in NEWER_TYPES and not newer:
        raise BadChunk(f"unable to send a {kind!r} chunk; clients before ai 7 reject it")
    if kind == "finish" and not newer and raw.get("finishReason") in _NEWER_REASONS:
        raise BadChunk(f"unable to send finish reason {raw['finishReason']!r}; clients before ai 7 reject it")
    if kind == "message-metadata" and raw.get("messageMetadata") is None:
        raise BadChunk("unable to send a 'message-metadata' chunk; it has no messageMetadata")
    return _checked(raw, kind, struct, newer)


def _checked(raw: Chunk, kind: str, struct: type[ChunkStruct | DataChunk], newer: bool) -> Chunk:
    nullable = "data" if struct is DataChunk else NULLABLE.get(kind)
    given = {nullable: None, **raw} if nullable else raw
    try:
        typed = msgspec.convert(given, struct)
        known = msgspec.to_builtins(typed, builtin_types=())
    except (msgspec.ValidationError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise BadChunk(f"unable to send a {kind!r} chunk; {error}") from error
    chunk: Chunk = known
    # The original input of an approval may be null: here null differs from absent.
    if kind == "tool-approval-request" and "inputSchemaInput" in raw:
        chunk["inputSchemaInput"] = raw["inputSchemaInput"]
    if newer:
        fields = {field.encode_name for field in msgspec.structs.fields(struct)}
        chunk.update((key, value) for key, value in raw.items() if key not in fields and key not in chunk)
        return chunk
    for name in NEWER_FIELDS.get(kind, ()):
        chunk.pop(name, None)
    return chunk
