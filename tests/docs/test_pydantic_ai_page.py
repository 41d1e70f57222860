"""What the page on Pydantic AI agents says of crashes, for both ways that it shows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

from everyword import AIChatAgent, Everyword, Think, Turn
from everyword.models import deferred_results, from_pydantic_ai, to_pydantic_ai
from everyword.testing import LocalServer
from tests.architecture.tree import ROOT
from tests.timeouts import PATIENCE

PAGE = (ROOT / "docs" / "how-to" / "pydantic-ai.md").read_text(encoding="utf-8")


class World:
    """An agent of Pydantic AI with one tool, whose effects are counted, and which hangs behind the first of them."""

    def __init__(self, *, needs_approval: bool) -> None:
        self.effects = 0
        self.has_begun = asyncio.Event()
        self.told: list[str] = []
        model = FunctionModel(stream_function=self.answer)
        self.agent: Agent[Any, Any] = Agent(model, output_type=[str, DeferredToolRequests])
        self.agent.tool_plain(requires_approval=needs_approval)(self.pay)

    async def answer(self, messages: Any, info: Any) -> AsyncIterator[Any]:
        last = messages[-1].parts[-1]
        if last.part_kind == "tool-return":
            self.told.append(str(last.content))
            yield f"It says: {last.content}"
        else:
            yield {0: DeltaToolCall("pay", "{}", tool_call_id="p1")}

    async def pay(self) -> str:
        """Pay."""
        self.effects += 1
        if self.effects == 1:
            self.has_begun.set()
            await asyncio.Event().wait()
        return "paid"

    def classes(self) -> dict[str, type[AIChatAgent]]:
        agent = self.agent

        class Support(AIChatAgent):
            async def on_chat_message(self, turn: Turn) -> Any:
                return from_pydantic_ai(
                    agent.run_stream_events(
                        message_history=to_pydantic_ai(self.messages),
                        deferred_tool_results=deferred_results(self.messages),
                    )
                )

        return {
            "as it is": Support,
            "Think": type("Desk", (Think,), {"model": agent.model, "tools": [*agent.toolsets]}),
        }


async def killed_in_the_tool(world: World, cls: type[AIChatAgent], *, approves: bool) -> str:
    """Kill the server behind the tool's first effect, start it again, and return what the answer says then."""
    async with (
        asyncio.timeout(PATIENCE),
        LocalServer(Everyword([cls], store="memory:")) as server,
        server.client(cls.kind, "ann") as chat,
    ):
        asking = asyncio.create_task(chat.send("pay")._last())
        if approves:
            await asking
            await chat.approve(chat.pending_approvals[0]["toolCallId"])
        await world.has_begun.wait()
        await server.restart()
        if approves:
            return (await chat.follow()).text
        return (await asking).text


@pytest.mark.parametrize("way", ["as it is", "Think"])
async def test_a_call_that_a_crash_cut_off_is_told_to_the_model_and_not_made_again(way: str) -> None:
    assert "| a crash in the middle of a tool | the model is told that the call was interrupted |" in PAGE
    world = World(needs_approval=False)
    text = await killed_in_the_tool(world, world.classes()[way], approves=False)
    assert world.effects == 1
    assert "interrupted" in world.told[-1] and world.told[-1] in text


async def test_an_approved_call_that_a_crash_cut_off_is_made_again_by_the_agent_as_it_is_and_not_by_think() -> None:
    assert "| a crash in the middle of an approved tool | **the call is made again** |" in PAGE
    effects = {}
    for way in ("as it is", "Think"):
        world = World(needs_approval=True)
        text = await killed_in_the_tool(world, world.classes()[way], approves=True)
        effects[way] = (world.effects, "paid" in text)
    assert effects == {"as it is": (2, True), "Think": (1, False)}
