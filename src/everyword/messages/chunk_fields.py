"""Select the valid fields of a chunk that a handler yields."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import msgspec

from ..errors import BadChunk, BadInput
from .chunks import CHUNK_TYPES, NEWER_FIELDS, NULLABLE, DataChunk
from .json_values import plain_json, scrub_text
from .message import Chunk

__all__ = ["usable_fields"]


class _Field(NamedTuple):
    name: str
    type: Any
    is_required: bool
    is_nullable: bool


@cache
def _fields_of(kind: str, newer: bool) -> tuple[_Field, ...]:
    struct = CHUNK_TYPES.get(kind, DataChunk)
    nullable = "data" if struct is DataChunk else NULLABLE.get(kind)
    unknown = frozenset() if newer else NEWER_FIELDS.get(kind, frozenset())
    return tuple(
        _Field(field.encode_name, field.type, field.required, field.encode_name == nullable)
        for field in msgspec.structs.fields(struct)
        if field.encode_name not in unknown and field.encode_name != "type"
    )


def usable_fields(chunk: Chunk, problems: list[str], *, newer: bool) -> Chunk:
    """Return an independent copy of the chunk with only the fields that clients accept.

    Optional fields that are null or of the wrong type are left out; `input`, `output` and `data` become null. Unknown
    fields are kept only with `newer`. Each field that is left out for its type adds a sentence to `problems`.
    Raises BadChunk if a required field is missing or has the wrong type.
    """
    kind: str = chunk["type"]
    usable: Chunk = {"type": kind}
    fields = _fields_of(kind, newer)
    for field in fields:
        value = chunk.get(field.name)
        if value is None:
            if field.is_nullable or (field.name == "inputSchemaInput" and field.name in chunk):
                usable[field.name] = None
            elif field.is_required:
                raise BadChunk(f"unable to use a {kind} chunk; it has no {field.name}")
            continue
        try:
            usable[field.name] = _usable_value(value, field.type)
        except (BadInput, msgspec.ValidationError) as error:
            if field.is_nullable:
                usable[field.name] = None
            elif field.is_required:
                raise BadChunk(f"unable to use a {kind} chunk; {field.name}: {error}") from error
            problems.append(f"{kind}: {field.name} left out; {error}")
    if newer:
        _keep_unknown(chunk, usable, {field.name for field in fields}, problems)
    return usable


def _usable_value(value: Any, wanted: Any) -> Any:
    if value.__class__ is str:
        value = scrub_text(value)
    elif value.__class__ is not bool:
        value = plain_json(value)
    msgspec.convert(value, wanted)
    return value


def _keep_unknown(chunk: Chunk, usable: Chunk, known: set[str], problems: list[str]) -> None:
    for name, value in chunk.items():
        if name in known or name == "type" or not isinstance(name, str):
            continue
        try:
            usable[scrub_text(name)] = plain_json(value)
        except BadInput as error:
            problems.append(f"{chunk['type']}: {name} left out; {error}")
