"""Think through the real SDKs, against a provider on loopback: what is sent, what is told, and what is closed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import openai
import pytest
from pydantic import BaseModel
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from everyword import TurnLimits
from everyword.agents.think import Think
from everyword.agents.think.model import resolved_model
from everyword.agents.tools import tool
from everyword.core.commands import Submit
from everyword.ids import MessageId, RequestId
from everyword.log.base import LogStore
from everyword.log.memory import MemoryLog
from everyword.messages.message import Chunk
from tests.agents.kit import AGENT, Served, served
from tests.agents.think.kit import calls_of, think
from tests.models import recordings as r
from tests.models.checks import settled
from tests.models.provider import FakeProvider, Reply, serving, sse
from tests.timeouts import PATIENCE


@pytest.fixture(scope="module")
def running() -> Iterator[FakeProvider]:
    with serving() as provider:
        yield provider


@pytest.fixture
def provider(running: FakeProvider) -> FakeProvider:
    running.clear()
    return running


class Weather(Think):
    """Knows the weather and the time."""

    instructions = "Be brief."
    turn_limits = TurnLimits(max_attempts=2)

    @tool
    def weather(self, city: str) -> str:
        """Return the weather."""
        return f"sunny in {city}"

    @tool
    def time(self) -> None:
        return None


@asynccontextmanager
async def over_openai(
    provider: FakeProvider, store: LogStore | None = None, **members: Any
) -> AsyncIterator[tuple[Served, Think]]:
    async with openai.AsyncOpenAI(base_url=f"{provider.url}/v1", api_key="k", max_retries=0) as sdk:
        model = OpenAIChatModel("gpt-x", provider=OpenAIProvider(openai_client=sdk))
        async with served(type("Chat", (Weather,), {"model": model, **members}), store) as serving:
            yield serving, think(serving)
        await settled()


def openai_replies(provider: FakeProvider, *replies: list[dict[str, Any]]) -> None:
    provider.replies += [Reply([sse(events, done=True)]) for events in replies]


async def client_asks(serving: Served, request: str, *messages: dict[str, Any]) -> None:
    async with serving.directory.attach(AGENT) as loaded:
        await loaded.actor.ask(Submit(RequestId(request), MessageId(f"a-{request}"), messages))
    await serving.agent._runtime.wait_until_idle()


def user(text: str, message_id: str) -> dict[str, Any]:
    return {"id": message_id, "role": "user", "parts": [{"type": "text", "text": text}]}


async def test_openais_sdk_streams_calls_that_are_run_and_told(provider: FakeProvider) -> None:
    openai_replies(provider, r.CHAT_CALLS, r.CHAT_TEXT)
    async with over_openai(provider, model_settings={"temperature": 0.5}) as (_, agent):
        result = await agent.run_turn("weather?")
    assert result.message is not None and result.message.text == "Looking.Grüß Gott 🙂"
    assert [part["output"] for part in calls_of(result.message).values()] == ["sunny in Paris", None]
    assert result.message.metadata["usage"] | {"cachedInputTokens": 4} == result.message.metadata["usage"]
    assert result.message.metadata["model"] == "gpt-x"
    first, second = provider.bodies
    assert first["messages"][0]["content"] == "Be brief." and first["temperature"] == 0.5
    assert [each["function"]["name"] for each in first["tools"]] == ["weather", "time"]
    told = [message for message in second["messages"] if message["role"] == "tool"]
    assert [message["content"] for message in told] == ["sunny in Paris", ""]


async def test_a_name_is_enough_of_a_model(provider: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{provider.url}/v1")
    openai_replies(provider, r.CHAT_TEXT, r.CHAT_TEXT)

    class Chat(Think):
        model = "openai-chat:gpt-x"

    async with served(Chat) as serving:
        for _ in range(2):
            result = await think(serving).run_turn("hi")
            assert result.message is not None and result.message.text == "Grüß Gott 🙂"
    assert [body["model"] for body in provider.bodies] == ["gpt-x", "gpt-x"]
    await resolved_model("openai-chat:gpt-x").client.close()  # type: ignore[attr-defined]


async def test_anthropics_sdk_gets_its_thoughts_back_signed(provider: FakeProvider) -> None:
    replies = (r.CLAUDE_THINKING_CALL, r.CLAUDE_TEXT)
    provider.replies += [Reply([sse(events, named=True)]) for events in replies]
    async with anthropic.AsyncAnthropic(base_url=provider.url, api_key="k", max_retries=0) as sdk:
        model = AnthropicModel("claude-x", provider=AnthropicProvider(anthropic_client=sdk))
        async with served(type("Chat", (Weather,), {"model": model})) as serving:
            result = await think(serving).run_turn("weather?")
        await settled()
    assert calls_of(result.message)["toolu_a"]["output"] == "sunny in Paris"
    assert "SIG" in [block.get("signature") for block in provider.bodies[1]["messages"][1]["content"]]
    assert "Be brief." in str(provider.bodies[0]["system"])


class Found(BaseModel):
    """What was found."""

    city: str


async def test_an_object_is_demanded_of_the_provider(provider: FakeProvider) -> None:
    given = [r.chat_call(0, '{"city": "Oslo"}', "final_result", "call_a"), r.chat({}, finish="tool_calls")]
    openai_replies(provider, given)
    async with over_openai(provider) as (_, agent):
        assert await agent.run_turn("where?", output_type=Found) == Found(city="Oslo")
    (body,) = provider.bodies
    assert body["tool_choice"] == "required"
    assert [each["function"]["name"] for each in body["tools"]] == ["weather", "time", "final_result"]


async def test_stopping_a_turn_closes_the_providers_connection_and_keeps_what_was_said(provider: FakeProvider) -> None:
    never, heard = threading.Event(), asyncio.Event()
    provider.replies.append(Reply([sse(r.CHAT_TEXT[:2]), sse(r.CHAT_TEXT[2:], done=True)], gate=never))

    def on_chunk(self: Think, chunk: Chunk) -> None:
        if chunk["type"] == "text-delta":
            heard.set()

    async with over_openai(provider, on_chunk=on_chunk) as (_, agent):
        asking = asyncio.create_task(agent.run_turn("hi"))
        await heard.wait()
        await agent.abort_all_requests()
        result = await asking
        assert (result.status, result.message and result.message.text) == ("aborted", "Grüß")
        assert await asyncio.to_thread(provider.left.wait, PATIENCE)
    never.set()


async def test_the_same_history_is_the_same_bytes_also_in_another_process(provider: FakeProvider) -> None:
    openai_replies(provider, r.CHAT_CALLS, r.CHAT_TEXT, r.CHAT_TEXT, r.CHAT_TEXT)
    store = MemoryLog()
    first, second = user("weather?", "u1"), user("and now?", "u2")
    async with over_openai(provider, store) as (serving, _):
        await client_asks(serving, "r1", first)
        await client_asks(serving, "r2", first, second)
    async with over_openai(provider, store) as (serving, agent):
        path = [message.to_dict() for message in agent.messages]
        await client_asks(serving, "r3", *path[:-1])
        assert len(await agent.versions.list("a-r3")) == 2
    _, told, asked, again = provider.raw
    assert asked == again
    before, after = provider.bodies[1], provider.bodies[2]
    assert after["messages"][: len(before["messages"])] == before["messages"], "what was sent once is a prefix"
    head, _, tail = told.partition(b'"messages":')
    assert asked.startswith(head) and tail[:40] in asked, "so that the provider's cache is of use"


@pytest.mark.parametrize(
    ("refusals", "status", "asked"), [(1, "completed", 2), (2, "error", 2)], ids=["passes", "stays"]
)
async def test_a_busy_provider_is_asked_again_within_bounds(
    provider: FakeProvider, refusals: int, status: str, asked: int
) -> None:
    busy = Reply(status=529, error={"error": {"message": "secret", "type": "overloaded_error"}})
    provider.replies += [busy] * refusals
    openai_replies(provider, r.CHAT_TEXT)
    async with over_openai(provider) as (serving, agent):
        asking = asyncio.create_task(agent.run_turn("hi"))
        while not asking.done():
            serving.clock.advance(60)
            await asyncio.sleep(0)
        result = asking.result()
    assert (result.status, len(provider.bodies)) == (status, asked)
    assert result.error is None or ("secret" not in result.error and "busy" in result.error)


async def test_a_connection_that_breaks_keeps_what_was_said_and_the_next_attempt_goes_on(
    provider: FakeProvider,
) -> None:
    provider.replies.append(Reply([sse(r.CHAT_TEXT[:2])], is_dropped=True))
    openai_replies(provider, r.CHAT_TEXT[2:])
    async with over_openai(provider) as (serving, agent):
        asking = asyncio.create_task(agent.run_turn("hi"))
        while not asking.done():
            serving.clock.advance(60)
            await asyncio.sleep(0)
        result = asking.result()
    assert result.message is not None and result.message.text == "Grüß Gott 🙂"
    roles = [message["role"] for message in provider.bodies[1]["messages"]]
    assert roles == ["system", "user", "assistant", "user"]
    assert provider.bodies[1]["messages"][2]["content"] == "Grüß"
