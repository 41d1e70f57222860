"""What a part of Pydantic AI carries beyond its text: kept on our parts under one name, and found there again."""

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
"""The data part that carries what no part of a UIMessage can: retries without a call, compactions, steering."""

_OF_RESULTS: Final = ("provider_name", "provider_details")
KEPT_ATTRIBUTES: Final = ("id", "signature", *_OF_RESULTS)
"""Attributes of Pydantic AI's parts that are kept as provider metadata."""


def part_metadata(part: Any) -> dict[str, Any] | None:
    """Return the provider metadata of a text, thinking, call or file part; None when it has nothing of the kind."""
    kept = {name: value for name in KEPT_ATTRIBUTES if (value := getattr(part, name, None)) is not None}
    if kept.keys() <= {"provider_name"}:
        return None
    return {METADATA_KEY: to_json_value(kept)}


def result_metadata(part: Any) -> dict[str, Any] | None:
    """Return the provider metadata of a call's return; None when the outcome says it all."""
    kept = {name: value for name in _OF_RESULTS if (value := getattr(part, name, None)) is not None}
    outcome = getattr(part, "outcome", "success")
    if outcome in ("retried", "interrupted", "denied"):
        kept["outcome"] = outcome
    return {METADATA_KEY: to_json_value(kept)} if kept else None


def to_json_value(value: Any) -> Any:
    """Return what a tool gave back as JSON values; what has no such form becomes its text."""
    core = import_pydantic_ai("pydantic_core")
    return core.to_jsonable_python(
        value, bytes_mode="base64", inf_nan_mode="null", serialize_unknown=True, fallback=str
    )


def to_data_part(part: Any, *, is_response: bool) -> Chunk:
    """Return a data part that `from_data_part` turns back into the part."""
    messages = import_pydantic_ai("pydantic_ai.messages")
    message = messages.ModelResponse(parts=[part]) if is_response else messages.ModelRequest(parts=[part])
    kept = messages.ModelMessagesTypeAdapter.dump_python([message], mode="json")[0]
    # When it was said is in the log; without it the same run gives the same chunks.
    parts = [{name: value for name, value in each.items() if name != "timestamp"} for each in kept["parts"]]
    return {"type": DATA_PART_TYPE, "data": {"kind": kept["kind"], "parts": parts}}


def from_data_part(content: Any) -> tuple[str, list[Any]]:
    """Return (`request` or `response`, its parts) of a data part made by `to_data_part`."""
    messages = import_pydantic_ai("pydantic_ai.messages")
    message = messages.ModelMessagesTypeAdapter.validate_python([content])[0]
    return message.kind, list(message.parts)
