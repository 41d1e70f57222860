from __future__ import annotations

import pytest

from everyword.errors import UsageError
from everyword.models import anthropic_tools, openai_responses_tools, openai_tools

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = {"name": "weather", "description": "The weather.", "parameters": SCHEMA}
EMPTY = {"type": "object", "properties": {}}


def test_each_provider_gets_its_own_shape() -> None:
    said = {"name": "weather", "description": "The weather."}
    assert openai_tools([WEATHER]) == [{"type": "function", "function": {**said, "parameters": SCHEMA}}]
    assert openai_responses_tools([WEATHER]) == [{"type": "function", "strict": False, **said, "parameters": SCHEMA}]
    assert anthropic_tools([WEATHER]) == [{**said, "input_schema": SCHEMA}]


def test_a_tool_without_parameters_takes_an_empty_object() -> None:
    assert anthropic_tools([{"name": "now"}]) == [{"name": "now", "input_schema": EMPTY}]


def test_strictness_is_passed_on() -> None:
    assert openai_responses_tools([{"name": "now", "strict": True}])[0]["strict"] is True
    assert openai_tools([{"name": "now", "strict": True}])[0]["function"]["strict"] is True


def test_a_tool_without_a_name_is_refused_with_a_sentence() -> None:
    with pytest.raises(UsageError, match="unable to offer a tool; it has no name"):
        openai_tools([{"description": "x"}])
