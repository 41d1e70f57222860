"""Convert tool definitions to the formats of the providers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import UsageError

__all__ = ["anthropic_tools", "openai_responses_tools", "openai_tools"]

Definition = Mapping[str, Any]


def openai_tools(definitions: Iterable[Definition]) -> list[dict[str, Any]]:
    """Return the `tools` of a chat completion, from `{name, description, parameters}` and `strict`, if given."""
    return [{"type": "function", "function": _function(each, "parameters")} for each in definitions]


def openai_responses_tools(definitions: Iterable[Definition]) -> list[dict[str, Any]]:
    """Return the `tools` of a response, from `{name, description, parameters}`; `strict` is False unless given."""
    return [{"type": "function", "strict": False, **_function(each, "parameters")} for each in definitions]


def anthropic_tools(definitions: Iterable[Definition]) -> list[dict[str, Any]]:
    """Return the `tools` of a message request, from `{name, description, parameters}`."""
    return [_function(each, "input_schema") for each in definitions]


def _function(definition: Definition, schema: str) -> dict[str, Any]:
    name = definition.get("name")
    if not isinstance(name, str) or not name:
        raise UsageError(f"unable to offer a tool; it has no name: {dict(definition)!r}")
    function: dict[str, Any] = {"name": name}
    if definition.get("description"):
        function["description"] = definition["description"]
    parameters = definition.get("parameters")
    function[schema] = dict(parameters) if parameters else {"type": "object", "properties": {}}
    if isinstance(definition.get("strict"), bool):
        function["strict"] = definition["strict"]
    return function
