"""Think as its users write it: a model, instructions, tools, and hooks around them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic_ai.models.test import TestModel

from everyword import TurnLimits
from everyword.agents import StepContext, Think, TurnContext
from everyword.agents.tools import ToolContext, tool
from everyword.core.commands import Submit
from everyword.errors import ChatError, UsageError
from everyword.events import to_raw
from everyword.ids import MessageId, RequestId
from everyword.messages.message import Chunk
from everyword.messages.tool_calls import ApprovalAnswer, OutputAnswer
from tests.agents.kit import AGENT, served
from tests.agents.think.kit import Script, answer, call, calls_of, think, thinker


class Support(Think):
    """Has a tool of every kind."""

    instructions = "Answer briefly."

    @tool
    async def find(self, number: str, context: ToolContext) -> dict[str, Any]:
        """Find an order."""
        return {"number": number, "key": context.idempotency_key}

    @tool(needs_approval=lambda amount: amount > 100)
    async def refund(self, amount: float) -> str:
        return f"refunded {amount}"

    @tool
    async def broken(self) -> None:
        raise RuntimeError("secret of the house")

    @tool
    async def slow(self) -> AsyncIterator[str]:
        yield "half"
        yield "whole"

    @tool(client=True)
    async def where(self) -> str: ...


async def test_a_model_is_all_that_an_agent_needs() -> None:
    class Chat(Think):
        model = TestModel(custom_output_text="hello there")

    async with served(Chat) as serving:
        result = await think(serving).run_turn("hi")
        assert result.status == "completed"
        assert result.message is not None and result.message.text == "hello there"
        assert [message.text for message in serving.agent.messages] == ["hi", "hello there"]


async def test_the_model_is_sent_the_instructions_the_tools_and_the_conversation() -> None:
    script = Script(["one"], ["two"])
    async with served(thinker(script, Support)) as serving:
        await think(serving).run_turn("first")
        await think(serving).run_turn("second")
    assert script.said(1) == ["first", "one", "second"]
    assert script.infos[0].instructions == "Answer briefly."
    offered = {each.name: each for each in script.infos[0].function_tools}
    assert set(offered) == {"find", "refund", "broken", "slow", "where"}
    assert offered["find"].description == "Find an order."
    assert set(offered["find"].parameters_json_schema["properties"]) == {"number"}


async def test_a_call_is_run_and_the_model_is_asked_again_with_its_result() -> None:
    script = Script(["Looking. ", call("find", number="7")], ["found it"])
    async with served(thinker(script, Support)) as serving:
        result = await think(serving).run_turn("order 7?")
    output = calls_of(result.message)["c1"]["output"]
    assert output["number"] == "7" and output["key"].endswith("/c1")
    assert result.message is not None and result.message.text == "Looking. found it"
    assert script.said(1)[-1] == output
    assert sum(part["type"] == "step-start" for part in result.message.parts) == 2


async def test_a_raising_tool_is_an_answer_for_the_model_and_not_the_end() -> None:
    script = Script([call("broken")], ["sorry"])
    async with served(thinker(script, Support)) as serving:
        result = await think(serving).run_turn("go")
    assert (result.status, calls_of(result.message)["c1"]["errorText"]) == ("completed", "The tool broken failed.")
    assert script.said(1)[-1] == "The tool broken failed. Its error was logged on the server."


async def test_an_unknown_tool_and_input_that_does_not_fit_are_told_to_the_model() -> None:
    script = Script([call("nobody", "c1", 1), call("find", "c2", 2, wrong=1)], ["ok"])
    async with served(thinker(script, Support)) as serving:
        await think(serving).run_turn("go")
    assert script.said(1)[-2] == "There is no tool 'nobody'."
    assert "number: is required" in script.said(1)[-1]


async def test_progress_is_shown_before_the_result() -> None:
    seen: list[Chunk] = []
    script = Script([call("slow")], ["ok"])
    async with served(thinker(script, Support, on_chunk=lambda self, chunk: seen.append(chunk))) as serving:
        result = await think(serving).run_turn("go")
    outputs = [(c["output"], bool(c.get("preliminary"))) for c in seen if c["type"] == "tool-output-available"]
    assert outputs == [("half", True), ("whole", True), ("whole", False)]
    assert calls_of(result.message)["c1"]["output"] == "whole"


async def test_a_call_that_needs_approval_ends_the_turn_and_runs_once_when_it_is_given() -> None:
    script = Script([call("refund", amount=500)], ["done"])
    async with served(thinker(script, Support)) as serving:
        result = await think(serving).run_turn("refund me")
        assert result.status == "completed"
        assert calls_of(result.message)["c1"]["state"] == "approval-requested"
        assert len(script.asked) == 1
        await answer(serving, "c1", ApprovalAnswer(True))
        _, last = serving.agent.messages
    assert calls_of(last)["c1"]["output"] == "refunded 500.0"
    assert last.text == "done" and script.said(1)[-1] == "refunded 500.0"


async def test_a_refusal_is_told_to_the_model() -> None:
    script = Script([call("refund", amount=500)], ["as you wish"])
    async with served(thinker(script, Support)) as serving:
        await think(serving).run_turn("refund me")
        await answer(serving, "c1", ApprovalAnswer(False, "too much"))
        assert serving.agent.messages[-1].text == "as you wish"
    assert script.said(1)[-1] == "too much"


async def test_a_tool_of_the_page_waits_for_the_page() -> None:
    script = Script([call("where")], ["in Oslo"])
    async with served(thinker(script, Support)) as serving:
        await think(serving).run_turn("where am I?")
        assert await serving.agent.has_pending_interaction()
        await answer(serving, "c1", OutputAnswer("Oslo"))
        assert serving.agent.messages[-1].text == "in Oslo"
    assert script.said(1)[-1] == "Oslo"


async def test_a_tool_that_the_page_brings_is_offered_and_left_to_it() -> None:
    script = Script([call("pick", colour="red")], ["picked"])
    declared = [{"name": "pick", "description": "Pick a colour.", "parameters": {"type": "object"}}]
    question = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "go"}]}
    async with served(thinker(script, Support)) as serving:
        async with serving.directory.attach(AGENT) as loaded:
            await loaded.actor.ask(Submit(RequestId("r1"), MessageId("a1"), [question], client_tools=to_raw(declared)))
        await serving.agent._runtime.wait_until_idle()
        assert await serving.agent.has_pending_interaction()
        await answer(serving, "c1", OutputAnswer("done"))
        assert serving.agent.messages[-1].text == "picked"
    assert script.infos[0].function_tools[-1].name == "pick"


async def test_a_page_cannot_take_a_tool_of_ours_over() -> None:
    script = Script([call("find", number="7")], ["found it"])
    question = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "go"}]}
    async with served(thinker(script, Support)) as serving:
        async with serving.directory.attach(AGENT) as loaded:
            declared = to_raw([{"name": "find", "description": "Mine now."}, "nonsense"])
            await loaded.actor.ask(Submit(RequestId("r1"), MessageId("a1"), [question], client_tools=declared))
        await serving.agent._runtime.wait_until_idle()
        assert calls_of(serving.agent.messages[-1])["c1"]["output"]["number"] == "7"
    assert [each.description for each in script.infos[0].function_tools if each.name == "find"] == ["Find an order."]


async def test_a_model_that_says_stop_while_it_calls_is_taken_at_its_calls() -> None:
    seen: list[Chunk] = []
    script = Script([call("where")])  # these models never say why they stop
    async with served(thinker(script, Support, on_chunk=lambda self, chunk: seen.append(chunk))) as serving:
        await think(serving).run_turn("where am I?")
    assert seen[-1]["finishReason"] == "tool-calls"


@pytest.mark.parametrize("kind", ["property", "method", "async method"])
async def test_the_model_may_be_chosen_by_code(kind: str) -> None:
    script = Script(["chosen"])

    async def choose(self: Think) -> Any:
        return script.model

    ways = {"property": property(lambda self: script.model), "method": lambda self: script.model}
    async with served(thinker(Script(), get_model=ways.get(kind, choose))) as serving:
        result = await think(serving).run_turn("hi")
    assert result.message is not None and result.message.text == "chosen"


async def test_the_loop_ends_at_max_steps() -> None:
    script = Script(*[[call("find", f"c{n}", number="7")] for n in range(9)])
    async with served(thinker(script, Support, max_steps=3)) as serving:
        result = await think(serving).run_turn("go")
    assert (result.status, len(script.asked)) == ("completed", 3)


async def test_usage_is_counted_over_the_steps_and_put_on_the_message() -> None:
    script = Script([call("find", number="7")], ["found it"])
    finished: list[StepContext] = []
    hooks = {"on_step_finish": lambda self, ctx: finished.append(ctx)}
    async with served(thinker(script, Support, **hooks)) as serving:
        result = await think(serving).run_turn("go")
    assert [ctx.number for ctx in finished] == [1, 2]
    assert finished[0].message is not None and calls_of(finished[0].message)["c1"]["state"] == "output-available"
    assert result.message is not None
    usage = result.message.metadata["usage"]
    assert usage == finished[1].usage and usage["outputTokens"] > finished[0].usage["outputTokens"]


@pytest.mark.parametrize("is_async", [False, True])
async def test_before_turn_may_change_everything_that_the_model_is_sent(is_async: bool) -> None:
    plain, other = Script(), Script([call("shout", word="a")], ["ok"])

    @tool
    def shout(word: str) -> str:
        return word.upper()

    def change(ctx: TurnContext) -> None:
        ctx.model, ctx.instructions, ctx.tools = other.model, "Be loud.", {"shout": shout}
        ctx.messages = ctx.messages[-1:]

    class Hooked(Support):
        if is_async:

            async def before_turn(self, ctx: TurnContext) -> None:
                change(ctx)
        else:

            def before_turn(self, ctx: TurnContext) -> None:
                change(ctx)

    async with served(thinker(plain, Hooked)) as serving:
        await serving.agent.persist_messages([{"id": "old", "role": "user", "parts": [{"type": "text", "text": "x"}]}])
        result = await think(serving).run_turn("go")
    assert calls_of(result.message)["c1"]["output"] == "A"
    assert other.said(1) == ["go", None, "A"]
    assert other.infos[0].instructions == "Be loud." and [t.name for t in other.infos[0].function_tools] == ["shout"]


async def test_before_step_changes_one_step_only() -> None:
    script = Script([call("find", number="7")], ["ok"])

    class Hooked(Support):
        async def before_step(self, ctx: StepContext) -> None:
            if ctx.number == 1:
                ctx.instructions, ctx.only_tools = "First.", ["find"]

    async with served(thinker(script, Hooked)) as serving:
        await think(serving).run_turn("go")
    assert [info.instructions for info in script.infos] == ["First.", "Answer briefly."]
    assert [len(info.function_tools) for info in script.infos] == [1, 5]


async def test_watching_chunks_sees_them_all_and_harms_none() -> None:
    seen: list[str] = []

    class Watched(Support):
        async def on_chunk(self, chunk: Chunk) -> None:
            seen.append(chunk["type"])
            chunk.clear()
            raise RuntimeError("a watcher that fails")

    script = Script([call("find", number="7")], ["ok"])
    async with served(thinker(script, Watched)) as serving:
        result = await think(serving).run_turn("go")
    assert result.status == "completed" and result.message is not None and result.message.text == "ok"
    assert seen.count("tool-output-available") == 1 and seen[0] == "start-step" and seen[-1] == "finish"


async def test_a_failure_may_be_put_in_words() -> None:
    class Worded(Support):
        turn_limits = TurnLimits(max_attempts=1)

        def error_text(self, exc: BaseException) -> str:
            return "The kitchen is on fire." if isinstance(exc, OSError) else super().error_text(exc)

    for failure, text in ((OSError("x"), "The kitchen is on fire."), (ChatError("as it is"), "as it is")):
        script = Script(["Hel", failure])
        async with served(thinker(script, Worded)) as serving:
            result = await think(serving).run_turn("go")
        assert (result.status, result.error) == ("error", text)
        assert result.message is not None and result.message.text == "Hel"


async def test_a_model_that_is_missing_or_unknown_is_told_to_the_developer_only() -> None:
    class Nothing(Think):
        """Forgot its model."""

    class Wrong(Think):
        model = "nobody:nothing"

    for cls in (Nothing, Wrong):
        async with served(cls) as serving:
            result = await think(serving).run_turn("go")
        assert result.status == "error" and result.error is not None and "nobody" not in result.error
    with pytest.raises(UsageError, match="set `model` on Nothing"):
        Nothing(serving.agent._runtime).get_model()


async def test_a_turn_inside_a_turn_is_refused() -> None:
    class Nested(Support):
        @tool
        async def again(self) -> str:
            with pytest.raises(UsageError, match="inside a turn"):
                await self.run_turn("again")
            with pytest.raises(UsageError, match="inside a turn"):
                await self.save_messages([])
            return "refused"

    script = Script([call("again")], ["ok"])
    async with served(thinker(script, Nested)) as serving:
        result = await think(serving).run_turn("go")
    assert calls_of(result.message)["c1"]["output"] == "refused"


async def test_an_answer_that_goes_on_is_asked_to_go_on_where_it_stops() -> None:
    script = Script(["Once upon"], [" a time"])
    async with served(thinker(script, Support)) as serving:
        await think(serving).run_turn("a story")
        await serving.agent.continue_last_turn()
        texts = [part["text"] for part in serving.agent.messages[-1].parts if part["type"] == "text"]
    assert texts == ["Once upon", " a time"]
    assert script.said(1)[1] == "Once upon" and "Go on exactly where it stops" in script.said(1)[2]
