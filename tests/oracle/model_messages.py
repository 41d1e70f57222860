"""What the AI SDK makes of whole conversations, and the tools and schemas that both sides are given."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.oracle.client import Oracle

__all__ = ["DATA_SCHEMAS", "OUTPUT_TOOLS", "SCHEMA_TOOLS", "ask_convert", "ask_prune", "ask_validate"]
__all__ += ["check_metadata", "data_as_text", "difference"]


def ask_convert(oracle: Oracle, version: int, cases: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    answers: list[dict[str, Any]] = oracle._ask([{"ask": "convert", "version": version, **case} for case in cases])
    return answers


def ask_prune(oracle: Oracle, version: int, cases: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    answers: list[list[dict[str, Any]]] = oracle._ask([{"ask": "prune", "version": version, **case} for case in cases])
    return answers


def ask_validate(oracle: Oracle, version: int, cases: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    answers: list[dict[str, Any]] = oracle._ask([{"ask": "validate", "version": version, **case} for case in cases])
    return answers


def difference(cases: Sequence[Any], ours: Sequence[Any], theirs: Sequence[Any]) -> str | None:
    """Describe the shortest case with two answers, or return None."""
    assert len(cases) == len(ours) == len(theirs) >= 100, "a batch this small proves little"
    rows = [(json.dumps(case), us, them) for case, us, them in zip(cases, ours, theirs, strict=True) if us != them]
    if not rows:
        return None
    case, us, them = min(rows, key=lambda row: len(row[0]))
    return f"{len(rows)} of {len(cases)} differ:\n{case}\nours:   {json.dumps(us)}\ntheirs: {json.dumps(them)}"


def search_output(*, tool_call_id: str, input: Any, output: Any) -> dict[str, Any]:
    return {"type": "json", "value": [tool_call_id, input, output]}


def data_as_text(part: dict[str, Any]) -> dict[str, Any] | None:
    return {"type": "text", "text": json.dumps(part.get("id"))} if part["type"] == "data-note" else None


def check_metadata(value: Any) -> Any:
    if isinstance(value, dict) and "a" in value:
        raise ValueError("refused")
    return value


def check_note(value: Any) -> Any:
    if isinstance(value, str):
        raise TypeError("refused")
    return value


def check_object(value: Any) -> Any:
    if not isinstance(value, dict):
        raise TypeError("refused")
    return value


def check_search(value: Any) -> Any:
    if "a" not in check_object(value):
        raise ValueError("refused")
    return value


def check_output(value: Any) -> Any:
    if value is None:
        raise ValueError("refused")
    return value


OUTPUT_TOOLS = {"search": {"to_model_output": search_output}}
DATA_SCHEMAS = {"note": check_note}
SCHEMA_TOOLS = {
    "search": {"input_schema": check_search, "output_schema": check_output},
    "get-weather": {"input_schema": check_object},
}
