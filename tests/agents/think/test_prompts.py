"""What a provider is sent begins, byte for byte, with what it was sent before: its prompt cache is of use."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import anthropic
import openai
import pytest
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from everyword.agents.think import Think
from everyword.agents.tools import tool
from everyword.core.commands import Submit
from everyword.ids import MessageId, RequestId
from everyword.log.memory import MemoryLog
from tests.agents.kit import AGENT, Served, served
from tests.agents.think.kit import think
from tests.models import recordings as r
from tests.models.checks import settled
from tests.models.provider import FakeProvider, Reply, serving, sse


@pytest.fixture(scope="module")
def running() -> Iterator[FakeProvider]:
    with serving() as provider:
        yield provider


@pytest.fixture
def provider(running: FakeProvider) -> FakeProvider:
    running.clear()
    return running


class Weather(Think):
    instructions = "Be brief."

    @tool
    def weather(self, city: str) -> str:
        """Return the weather."""
        return f"sunny in {city}"

    @tool
    def time(self) -> None:
        return None


@asynccontextmanager
async def talking(kind: str, provider: FakeProvider, store: MemoryLog) -> AsyncIterator[Served]:
    """Serve an agent through one of the SDKs: a process of its own, as far as the agent can tell."""
    if kind == "openai":
        sdk: Any = openai.AsyncOpenAI(base_url=f"{provider.url}/v1", api_key="k", max_retries=0)
        model: Any = OpenAIChatModel("gpt-x", provider=OpenAIProvider(openai_client=sdk))
    else:
        sdk = anthropic.AsyncAnthropic(base_url=provider.url, api_key="k", max_retries=0)
        model = AnthropicModel("claude-x", provider=AnthropicProvider(anthropic_client=sdk))
    async with sdk:
        async with served(type("Chat", (Weather,), {"model": model}), store) as serving:
            yield serving
        await settled()


def will_say(kind: str, provider: FakeProvider, *replies: str) -> None:
    """Have the provider answer so: with calls, or with words."""
    said = {"openai": (r.CHAT_CALLS, r.CHAT_TEXT), "anthropic": (r.CLAUDE_THINKING_CALL, r.CLAUDE_TEXT)}[kind]
    streams = {"calls": said[0], "words": said[1]}
    is_openai = kind == "openai"
    provider.replies += [Reply([sse(streams[each], named=not is_openai, done=is_openai)]) for each in replies]


async def ask(serving: Served, request: str, *messages: dict[str, Any]) -> None:
    async with serving.directory.attach(AGENT) as loaded:
        await loaded.actor.ask(Submit(RequestId(request), MessageId(f"a-{request}"), messages))
    await think(serving)._runtime.wait_until_idle()


def user(number: int) -> dict[str, Any]:
    return {"id": f"u{number}", "role": "user", "parts": [{"type": "text", "text": f"Question {number}?"}]}


def up_to_the_last_message(raw: bytes) -> str:
    """Return a request's text from its beginning to the end of its last message."""
    text = raw.decode()
    begin = text.index('"messages":') + len('"messages":')
    _, end = json.JSONDecoder().raw_decode(text, begin)
    return text[: end - 1]


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_every_request_of_a_conversation_begins_with_the_one_before(kind: str, provider: FakeProvider) -> None:
    will_say(kind, provider, "calls", "words", "words", "words")
    store = MemoryLog()
    async with talking(kind, provider, store) as serving:
        await ask(serving, "r1", user(1))
        await ask(serving, "r2", user(1), user(2))
    async with talking(kind, provider, store) as serving:  # which knows of the rest only from the log
        await ask(serving, "r3", user(3))
        assert len(think(serving).messages) == 6
    assert len(provider.raw) == 4
    for before, after in pairwise(provider.raw):
        assert after.decode().startswith(up_to_the_last_message(before))
    fixed = [{key: value for key, value in body.items() if key != "messages"} for body in provider.bodies]
    assert fixed == [fixed[0]] * 4, "tools, system prompt and settings do not change"


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_asking_for_another_version_sends_the_same_bytes(kind: str, provider: FakeProvider) -> None:
    will_say(kind, provider, "calls", "words", "words", "words", "words")
    store = MemoryLog()
    async with talking(kind, provider, store) as serving:
        await ask(serving, "r1", user(1))
        await ask(serving, "r2", user(1), user(2))
        path = [message.to_dict() for message in think(serving).messages]
        await ask(serving, "again", *path[:-1])
    async with talking(kind, provider, store) as serving:
        await ask(serving, "and again", *path[:-1])
        assert len(await think(serving).versions.list("a-and again")) == 3
    _, _, asked, again, later = provider.raw
    assert asked == again == later
