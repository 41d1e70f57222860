"""Keep data of Pydantic AI's parts that UIMessages have no field for: as provider metadata, or as a data part."""

from __future__ import annotations

from typing import Any, Final

from ..messages.message import Chunk
from .provider_stream import import_pydantic_ai

__all__ = [
    "DATA_PART_TYPE",
    "KEPT_ATTRIBUTES",
    "METADATA_KEY",
    "from_data_part",
    "part_metadata",
    "result_metadata",
    "to_data_part",
    "to_json_value",
]

METADATA_KEY: Final = "pydantic_ai"
DATA_PART_TYPE: Final = "data-pydantic-ai"
"""Type of the data part for content that no other part can hold: retries without a call, compactions, steering."""

_OF_RESULTS: Final = ("provider_name", "provider_details")
KEPT_ATTRIBUTES: Final = ("id", "signature", *_OF_RESULTS)
"""Attributes of Pydantic AI's parts that are kept as provider metadata."""


def part_metadata(part: Any) -> dict[str, Any] | None:
    """Return the provider metadata of a text, thinking, call or file part, or None if there is nothing to keep."""
    kept = {name: value for name in KEPT_ATTRIBUTES if (value := getattr(part, name, None)) is not None}
    if kept.keys() <= {"provider_name"}:
        return None
    return {METADATA_KEY: to_json_value(kept)}


def result_metadata(part: Any) -> dict[str, Any] | None:
    """Return the provider metadata of a tool return, or None if there is nothing to keep."""
    kept = {name: value for name in _OF_RESULTS if (value := getattr(part, name, None)) is not None}
    outcome = getattr(part, "outcome", "success")
    if outcome in ("retried", "interrupted", "denied"):
        kept["outcome"] = outcome
    return {METADATA_KEY: to_json_value(kept)} if kept else None


def to_json_value(value: Any) -> Any:
    """Return a tool's output as a JSON value. Objects without a JSON form become strings."""
    core = import_pydantic_ai("pydantic_core")
    return core.to_jsonable_python(
        value, bytes_mode="base64", inf_nan_mode="null", serialize_unknown=True, fallback=str
    )


def to_data_part(part: Any, *, is_response: bool) -> Chunk:
    """Return a data part that `from_data_part` turns back into the part."""
    messages = import_pydantic_ai("pydantic_ai.messages")
    message = messages.ModelResponse(parts=[part]) if is_response else messages.ModelRequest(parts=[part])
    kept = messages.ModelMessagesTypeAdapter.dump_python([message], mode="json")[0]
    # The time is in the log. Without it, the same run gives the same chunks.
    parts = [{name: value for name, value in each.items() if name != "timestamp"} for each in kept["parts"]]
    return {"type": DATA_PART_TYPE, "data": {"kind": kept["kind"], "parts": parts}}


def from_data_part(content: Any) -> tuple[str, list[Any]]:
    """Return (`request` or `response`, its parts) of a data part made by `to_data_part`."""
    messages = import_pydantic_ai("pydantic_ai.messages")
    message = messages.ModelMessagesTypeAdapter.validate_python([content])[0]
    return message.kind, list(message.parts)
