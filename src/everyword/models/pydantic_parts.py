"""What a part of Pydantic AI carries beyond its text: kept on our parts under one name, and found there again."""

from __future__ import annotations

from typing import Any, Final

from ..messages.message import Chunk
from .streams import require

__all__ = ["CARRIER", "KEPT", "OWN", "dumped", "jsonable", "loaded", "part_metadata", "result_metadata"]

OWN: Final = "pydantic_ai"
CARRIER: Final = "data-pydantic-ai"
"""The data part that carries what no part of a UIMessage can: retries without a call, compactions, steering."""

_OF_RESULTS: Final = ("provider_name", "provider_details")
KEPT: Final = ("id", "signature", *_OF_RESULTS)
"""Attributes of Pydantic AI's parts that are kept as provider metadata."""


def part_metadata(part: Any) -> dict[str, Any] | None:
    """Return the provider metadata of a text, thinking, call or file part; None when it has nothing of the kind."""
    kept = {name: value for name in KEPT if (value := getattr(part, name, None)) is not None}
    if kept.keys() <= {"provider_name"}:
        return None
    return {OWN: jsonable(kept)}


def result_metadata(part: Any) -> dict[str, Any] | None:
    """Return the provider metadata of a call's return; None when the outcome says it all."""
    kept = {name: value for name in _OF_RESULTS if (value := getattr(part, name, None)) is not None}
    outcome = getattr(part, "outcome", "success")
    if outcome in ("retried", "interrupted", "denied"):
        kept["outcome"] = outcome
    return {OWN: jsonable(kept)} if kept else None


def jsonable(value: Any) -> Any:
    """Return what a tool gave back as JSON values; what has no such form becomes its text."""
    core = require("pydantic_core")
    return core.to_jsonable_python(
        value, bytes_mode="base64", inf_nan_mode="null", serialize_unknown=True, fallback=str
    )


def dumped(part: Any, *, is_response: bool) -> Chunk:
    """Return a data part that `loaded` turns back into the part."""
    messages = require("pydantic_ai.messages")
    message = messages.ModelResponse(parts=[part]) if is_response else messages.ModelRequest(parts=[part])
    kept = messages.ModelMessagesTypeAdapter.dump_python([message], mode="json")[0]
    # When it was said is in the log; without it the same run gives the same chunks.
    parts = [{name: value for name, value in each.items() if name != "timestamp"} for each in kept["parts"]]
    return {"type": CARRIER, "data": {"kind": kept["kind"], "parts": parts}}


def loaded(content: Any) -> tuple[str, list[Any]]:
    """Return (`request` or `response`, its parts) of a data part made by `dumped`."""
    messages = require("pydantic_ai.messages")
    message = messages.ModelMessagesTypeAdapter.validate_python([content])[0]
    return message.kind, list(message.parts)
