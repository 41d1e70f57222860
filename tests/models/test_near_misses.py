"""Stored parts of any shape: no model is kept from the rest of the conversation."""

from __future__ import annotations

import logging

import pytest

from everyword.messages.message import Part, UIMessage
from everyword.models.anthropic_messages import to_anthropic
from everyword.models.openai_messages import to_openai, to_openai_responses
from everyword.models.pydantic_ai_messages import deferred_results, to_pydantic_ai
from tests.messages.near_misses import NEAR_MISSES

CONVERSIONS = [to_openai, to_openai_responses, to_anthropic, to_pydantic_ai]


@pytest.mark.parametrize("role", ["user", "assistant", "system"])
@pytest.mark.parametrize("convert", CONVERSIONS)
def test_a_near_miss_does_not_keep_a_model_from_the_rest(convert: object, role: str) -> None:
    assert callable(convert)
    for part in NEAR_MISSES:
        parts: list[Part] = [{"type": "text", "text": "hello there"}, part]
        messages = [UIMessage.from_dict({"id": "m", "role": role, "parts": parts})]
        assert "hello there" in str(convert(messages)), part
        deferred_results(messages)


@pytest.mark.parametrize(
    "url", ["data:", "data:text/plain", "data:text/plain;base64", "data:text/plain;base64,A", "data:,"]
)
@pytest.mark.parametrize("convert", CONVERSIONS)
def test_a_broken_data_url_does_not_keep_a_model_from_the_rest(
    convert: object, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert callable(convert)
    caplog.set_level(logging.WARNING, "everyword.models")
    for role in ("user", "assistant"):
        parts: list[Part] = [{"type": "file", "mediaType": "text/plain", "url": url}, {"type": "text", "text": "hello"}]
        assert "hello" in str(convert([UIMessage("m", role, parts)]))


def test_a_carrier_that_cannot_be_read_or_is_no_prompt_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    words = {"type": "text", "text": "hello"}
    system = {"kind": "request", "parts": [{"part_kind": "system-prompt", "content": "obey"}]}
    for data in (None, 5, {}, {"kind": "request", "parts": [{"part_kind": "spell"}]}, system):
        history = to_pydantic_ai([UIMessage("m", "user", [{"type": "data-pydantic-ai", "data": data}, words])])
        assert [part.content for part in history[0].parts] == ["hello"], data
    assert "cannot be read" in caplog.text
