"""What providers refuse and how they break, as the SDKs report it."""

from __future__ import annotations

import socket
import threading
from collections.abc import AsyncIterator
from typing import Any

import anthropic
import openai
import pytest
from pydantic_ai import Agent
from pydantic_ai.exceptions import ModelHTTPError, UsageLimitExceeded, UserError
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from everyword.errors import ChatError
from everyword.messages.message import Chunk
from everyword.models import classify, failure_of, from_anthropic, from_openai, from_pydantic_ai
from everyword.models.errors import classify_error_report, model_error, stream_dropped
from tests.models import recordings as r
from tests.models.checks import failed
from tests.models.provider import FakeProvider, Reply, sse


async def ask_openai(url: str, **how: Any) -> AsyncIterator[Chunk]:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0, **how) as sdk:
        async for chunk in from_openai(sdk.chat.completions.create(model="gpt-x", messages=[], stream=True)):
            yield chunk


async def ask_anthropic(url: str, **how: Any) -> AsyncIterator[Chunk]:
    asked: Any = [{"role": "user", "content": "x"}]
    async with anthropic.AsyncAnthropic(base_url=url, api_key="k", max_retries=0, **how) as sdk:
        async for chunk in from_anthropic(sdk.messages.stream(model="m", max_tokens=9, messages=asked)):
            yield chunk


async def ask_pydantic_ai(url: str, **how: Any) -> AsyncIterator[Chunk]:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0, **how) as sdk:
        agent = Agent(OpenAIChatModel("gpt-x", provider=OpenAIProvider(openai_client=sdk)))
        async for chunk in from_pydantic_ai(agent.run_stream_events("hello")):
            yield chunk


ASKS = {"openai": ask_openai, "anthropic": ask_anthropic, "pydantic-ai": ask_pydantic_ai}

REFUSALS = [
    (401, {"type": "authentication_error", "message": "secret"}, "key", False),
    (403, {"type": "permission_error", "message": "secret"}, "key", False),
    (404, {"type": "not_found_error", "code": "model_not_found", "message": "secret"}, "model", False),
    (429, {"type": "rate_limit_error", "message": "secret"}, "rate-limit", True),
    (429, {"type": "insufficient_quota", "code": "insufficient_quota", "message": "secret"}, "quota", False),
    (
        400,
        {"type": "invalid_request_error", "message": "secret: prompt is too long: 9 tokens"},
        "context-length",
        False,
    ),
    (
        400,
        {"type": "invalid_request_error", "code": "context_length_exceeded", "message": "s"},
        "context-length",
        False,
    ),
    (400, {"type": "invalid_request_error", "code": "content_policy_violation", "message": "s"}, "refused", False),
    (400, {"type": "invalid_request_error", "message": "secret: unknown field"}, "request", False),
    (413, {"type": "request_too_large", "message": "secret"}, "context-length", False),
    (500, {"type": "api_error", "message": "secret"}, "provider", True),
    (529, {"type": "overloaded_error", "message": "secret"}, "overloaded", True),
]


@pytest.mark.parametrize("sdk", ASKS)
async def test_every_refusal_has_a_kind_and_a_text_for_each_reader(provider: FakeProvider, sdk: str) -> None:
    for status, report, kind, retryable in REFUSALS:
        provider.replies.append(Reply(status=status, error={"type": "error", "error": report}))
        chunks, failure = await failed(ASKS[sdk](provider.url))
        assert chunks == []
        assert (failure.kind, failure.retryable, failure.status) == (kind, retryable, status), report
        assert failure.text.startswith("unable to get an answer from the ")
        assert "secret" not in failure.public_text


async def test_the_providers_wish_to_wait_is_kept(provider: FakeProvider) -> None:
    report = {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}
    for headers, wait in (({"retry-after": "7"}, 7.0), ({"retry-after-ms": "1500"}, 1.5), ({"retry-after": "x"}, None)):
        provider.replies.append(Reply(status=429, error=report, headers=headers))
        _, failure = await failed(ask_anthropic(provider.url))
        assert failure.retry_after == wait


@pytest.mark.parametrize("sdk", ASKS)
async def test_a_provider_that_is_not_there_is_a_broken_connection(sdk: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    _, failure = await failed(ASKS[sdk](f"http://127.0.0.1:{port}"))
    assert (failure.kind, failure.retryable) == ("connection", True)


@pytest.mark.parametrize("sdk", ASKS)
async def test_a_provider_that_falls_silent_is_a_timeout(provider: FakeProvider, sdk: str) -> None:
    gate = threading.Event()
    body = sse(r.CLAUDE_TEXT[:4], named=True) if sdk == "anthropic" else sse(r.CHAT_TEXT[:2])
    provider.replies.append(Reply([body, b"\n"], gate=gate))
    chunks, failure = await failed(ASKS[sdk](provider.url, timeout=1.0))
    gate.set()
    assert (failure.kind, failure.retryable) == ("timeout", True)
    assert chunks[-1] == {"type": "finish-step"}


async def test_an_answer_that_breaks_off_under_an_agent_is_a_broken_connection(provider: FakeProvider) -> None:
    provider.replies.append(Reply([sse(r.CHAT_TEXT[:2])], is_dropped=True))
    chunks, failure = await failed(ask_pydantic_ai(provider.url))
    assert chunks[-2:] == [{"type": "text-end", "id": "step-0-0"}, {"type": "finish-step"}]
    assert (failure.kind, failure.retryable) == ("connection", True)


def test_a_developers_own_exceptions_are_not_the_providers() -> None:
    mine = [ValueError("x"), KeyError("timeout"), UserError("x"), UsageLimitExceeded("x"), ChatError("shown")]
    assert [classify(error) for error in mine] == [None] * 5


def test_a_failure_is_found_again_on_the_error_that_carries_it() -> None:
    failure = classify(ModelHTTPError(503, "m"))
    assert failure is not None
    error = model_error(failure)
    assert failure_of(error) is failure
    assert classify(error) is failure
    assert str(error) == failure.public_text
    assert error.__notes__ == [failure.text]


@pytest.mark.parametrize("report", [None, "", {}, {"message": None}, 3])
def test_an_error_that_says_nothing_is_still_an_error(report: Any) -> None:
    failure = classify_error_report(report, provider="openai")
    assert (failure.kind, failure.retryable) == ("provider", True)


def test_every_text_says_what_to_do() -> None:
    failure = stream_dropped("openai")
    assert failure.text == (
        "unable to get an answer from the openai model; the stream ended before the answer did; "
        "the connection to the provider broke; try again"
    )
