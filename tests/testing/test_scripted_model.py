"""The scripted model: in an agent that thinks, and in one that asks it by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic_ai import Agent

from everyword import AIChatAgent, Think, Turn, tool
from everyword.errors import ChatError, ChatFailed
from everyword.testing import Call, Gate, LocalServer, Once, Reasoning, ScriptedModel


def plain(model: ScriptedModel) -> type[AIChatAgent]:
    """Return an agent that asks the model by hand."""

    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> AsyncIterator[Any]:
            async for chunk in model.stream(self.messages):
                yield chunk

    return Chat


def thinking(given: ScriptedModel) -> type[Think]:
    class Chat(Think):
        model = given

    return Chat


BOTH = pytest.mark.parametrize("made", [plain, thinking])


@BOTH
async def test_questions_are_answered_in_order(made: Any) -> None:
    model = ScriptedModel("one", ["t", "wo"], lambda question: f"you said {question}")
    async with LocalServer(made(model)) as server, server.client("chat") as chat:
        said = [(await chat.send(text)).text for text in ("a", "b", "c")]  # type: ignore[union-attr]
    assert said == ["one", "two", "you said c"]
    assert model.asked == ["a", "b", "c"]


@BOTH
async def test_it_fails_where_the_script_does_and_what_was_said_stays(made: Any) -> None:
    model = ScriptedModel(["half ", ChatError("No luck.")])
    async with LocalServer(made(model)) as server, server.client("chat") as chat:
        with pytest.raises(ChatFailed, match=r"No luck\."):
            await chat.send("a")
        assert [message.text for message in chat.messages] == ["a", "half "]


@BOTH
async def test_reasoning_is_a_part_of_its_own(made: Any) -> None:
    model = ScriptedModel([Reasoning("let me "), Reasoning("see"), "so", Reasoning("hm"), "there"])
    async with LocalServer(made(model)) as server, server.client("chat") as chat:
        message = await chat.send("a")
    assert message is not None
    kinds = [(part["type"], part["text"]) for part in message.parts if part["type"] in ("text", "reasoning")]
    assert kinds[0] == ("reasoning", "let me see") and message.text == "sothere"


@BOTH
async def test_it_waits_at_a_gate_until_the_test_opens_it(made: Any) -> None:
    gate = Gate()
    async with LocalServer(made(ScriptedModel(["half ", gate, "whole"]))) as server, server.client("chat") as chat:
        reply = chat.send("a")
        await gate.reached.wait()
        await chat.connection.until(lambda: [message.text for message in chat.messages] == ["a", "half "])
        gate.open()
        assert (await reply).text == "half whole"  # type: ignore[union-attr]


class Passing(ChatError):
    retryable = True


@BOTH
async def test_a_failure_that_passes_is_raised_once(made: Any) -> None:
    model = ScriptedModel(["half ", Once(Passing("busy")), "whole"])
    async with LocalServer(made(model)) as server, server.client("chat") as chat:
        assert (await chat.send("a")).text == "half whole"  # type: ignore[union-attr]
    assert model.asked == ["a", "a"]


async def test_calls_are_run_and_the_model_goes_on_with_their_results() -> None:
    class Chat(Think):
        model = ScriptedModel(["Looking. ", Call("find", {"number": "7"}), "Found it."])

        @tool
        async def find(self, number: str) -> str:
            """Find an order."""
            return f"order {number}"

    async with LocalServer(Chat) as server, server.client(Chat) as chat:
        message = await chat.send("order 7?")
    assert message is not None and message.text == "Looking. Found it."
    assert [part["output"] for part in message.parts if part["type"] == "tool-find"] == ["order 7"]


async def test_an_agent_that_asks_by_hand_has_its_calls_run_step_by_step() -> None:
    model = ScriptedModel(["Looking. ", Call("find", {"number": "7"}), "Found it."])

    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> AsyncIterator[Any]:
            async for step in turn.steps():
                async for chunk in step.run(model.stream(step.messages)):
                    yield chunk

        @tool
        async def find(self, number: str) -> str:
            """Find an order."""
            return f"order {number}"

    async with LocalServer(Chat) as server, server.client(Chat) as chat:
        message = await chat.send("order 7?")
    assert message is not None and message.text == "Looking. Found it."
    assert [part["output"] for part in message.parts if part["type"] == "tool-find"] == ["order 7"]


@BOTH
async def test_asked_again_after_a_kill_it_goes_on_behind_what_was_said(made: Any) -> None:
    gate = Gate()
    model = ScriptedModel(["one ", "two ", gate, "three"])
    async with LocalServer(made(model)) as server, server.client("chat") as chat:
        reply = chat.send("a")
        await gate.reached.wait()
        gate.open()
        await server.restart()
        assert (await reply).text == "one two three"  # type: ignore[union-attr]


async def test_it_is_a_model_of_pydantic_ai_for_runs_without_a_stream_as_well() -> None:
    model = ScriptedModel(["Looking. ", Call("find", {"number": "7"}), "Found it."])
    agent = Agent(model)

    @agent.tool_plain
    def find(number: str) -> str:
        return f"order {number}"

    result = await agent.run("order 7?")
    assert result.output == "Found it."
