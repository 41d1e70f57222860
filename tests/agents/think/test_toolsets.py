"""Pydantic AI's toolsets in an agent of ours: recorded, approved and answered like every other tool."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, TypeAdapter
from pydantic_ai import ModelRetry, RunContext, ToolReturn
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import ExternalToolset, FunctionToolset, WrapperToolset

from everyword.agents.think import Think
from everyword.agents.tools import tool
from everyword.log.memory import MemoryLog
from everyword.messages.tool_calls import ApprovalAnswer, OutputAnswer
from tests.agents.kit import AGENT, served
from tests.agents.think.kit import Script, answer, call, calls_of, think, thinker

shop: FunctionToolset[Think] = FunctionToolset()


@shop.tool
def price(ctx: RunContext[Think], item: str) -> str:
    """Return the price."""
    if item == "moon":
        raise ModelRetry("Nobody sells the moon.")
    return f"{ctx.deps.name} pays 5 for {item} ({ctx.tool_call_id})"


@shop.tool_plain(requires_approval=True)
def buy(item: str) -> Any:
    """Buy it."""
    return ToolReturn(return_value=f"bought {item}", metadata=[])


@shop.tool_plain
def broken() -> str:
    raise RuntimeError("secret of the house")


@shop.tool_plain
def stored(kind: str) -> int:
    """Return a number that was stored."""
    return TypeAdapter(Annotated[int, AfterValidator(_is_small)]).validate_python(7)


def _is_small(number: int) -> int:
    raise ValueError(f"secret of the house: {number}")


@tool
def own() -> str:
    """Return our own."""
    return "ours"


async def test_a_toolsets_calls_are_checked_recorded_and_answered() -> None:
    script = Script(
        [call("price", "c1", 1, item="tea"), call("price", "c2", 2, item="moon"), call("price", "c3", 3)],
        [call("broken", "c4", 1), call("own", "c5", 2)],
        ["ok"],
    )
    store = MemoryLog()
    async with served(thinker(script, tools=[own, shop]), store) as serving:
        result = await think(serving).run_turn("go")
    calls = calls_of(result.message)
    assert calls["c1"]["output"] == "ann pays 5 for tea (c1)"
    assert calls["c2"]["errorText"] == "Nobody sells the moon."
    assert "item: is required" in calls["c3"]["errorText"]
    assert (calls["c4"]["errorText"], calls["c5"]["output"]) == ("The tool broken failed.", "ours")
    assert [stored.kind for stored in store._logs[AGENT].events].count("call.started") == 5
    offered = {each.name: each for each in script.infos[0].function_tools}
    assert (
        set(offered) == {"own", "price", "buy", "broken", "stored"}
        and offered["price"].description == "Return the price."
    )


async def test_the_text_that_a_toolsets_tool_raised_reaches_neither_model_nor_page(
    caplog: pytest.LogCaptureFixture,
) -> None:
    script = Script([call("broken", "c1", 1), call("stored", "c2", 2, kind="x"), call("stored", "c3", 3)], ["ok"])
    async with served(thinker(script, tools=[shop])) as serving:
        result = await think(serving).run_turn("go")
    logged = "failed. Its error was logged on the server."
    assert script.said(1)[-3:-1] == [f"The tool broken {logged}", f"The tool stored {logged}"]
    assert "kind: is required" in script.said(1)[-1], "what is wrong with the arguments is told"
    texts = [part["errorText"] for part in calls_of(result.message).values()]
    assert texts[:2] == ["The tool broken failed.", "The tool stored failed."]
    assert caplog.text.count("secret of the house") >= 2


async def test_a_toolsets_approval_is_asked_for_and_runs_the_call_once() -> None:
    script = Script([call("buy", item="tea")], ["enjoy"])
    async with served(thinker(script, tools=[shop])) as serving:
        result = await think(serving).run_turn("tea, please")
        assert calls_of(result.message)["c1"]["state"] == "approval-requested"
        await answer(serving, "c1", ApprovalAnswer(True))
        last = serving.agent.messages[-1]
    assert (calls_of(last)["c1"]["output"], last.text) == ("bought tea", "enjoy")


async def test_a_toolset_that_decides_call_by_call_is_asked_before_the_call() -> None:
    dear = shop.filtered(lambda ctx, definition: definition.name == "price").approval_required(
        lambda ctx, definition, arguments: arguments["item"] == "gold"
    )
    script = Script(
        [call("price", "c1", 1, item="tea"), call("price", "c2", 2, item="gold"), call("price", "c3", 3)], ["ok"]
    )
    async with served(thinker(script, tools=[dear])) as serving:
        result = await think(serving).run_turn("go")
        states = {name: part["state"] for name, part in calls_of(result.message).items()}
        assert states == {"c1": "output-available", "c2": "approval-requested", "c3": "output-error"}
        await answer(serving, "c2", ApprovalAnswer(True))
        assert calls_of(serving.agent.messages[-1])["c2"]["output"] == "ann pays 5 for gold (c2)"


async def test_an_approval_that_cannot_be_asked_for_is_an_error_and_never_an_effect() -> None:
    hidden = shop.approval_required(lambda ctx, definition, arguments: True).prefixed("my")
    async with served(thinker(Script([call("my_price", item="tea")], ["ok"]), tools=[hidden])) as serving:
        result = await think(serving).run_turn("go")
    assert calls_of(result.message)["c1"]["errorText"] == "The tool my_price failed."


async def test_an_external_tool_that_needs_approval_is_refused() -> None:
    """The page would run it at once, without an approval."""
    external: ExternalToolset[Think] = ExternalToolset([ToolDefinition(name="where", description="Where?")])
    async with served(thinker(Script([call("where")]), tools=[external.approval_required()])) as serving:
        result = await think(serving).run_turn("where am I?")
        assert result.status == "error"
        assert not await serving.agent.has_pending_interaction()


async def test_an_external_tool_is_left_to_the_page() -> None:
    external: ExternalToolset[Think] = ExternalToolset([ToolDefinition(name="where", description="Where?")])
    script = Script([call("where")], ["in Oslo"])
    async with served(thinker(script, tools=[external])) as serving:
        await think(serving).run_turn("where am I?")
        assert await serving.agent.has_pending_interaction()
        await answer(serving, "c1", OutputAnswer("Oslo"))
        assert serving.agent.messages[-1].text == "in Oslo"


class Opened(WrapperToolset[Think]):
    """Says when it is open."""

    log: list[str] = []  # noqa: RUF012

    async def __aenter__(self) -> Opened:
        self.log.append("opened")
        await super().__aenter__()
        return self

    async def __aexit__(self, *args: Any) -> bool | None:
        self.log.append("closed")
        return await super().__aexit__(*args)


async def test_a_toolset_is_open_while_a_turn_runs_and_closed_after_it_failed_too() -> None:
    Opened.log.clear()
    cls = thinker(Script(["fine"], [ValueError("x")]), tools=[Opened(shop)])
    async with served(cls) as serving:
        assert (await think(serving).run_turn("go")).status == "completed"
        assert (await think(serving).run_turn("go")).status == "error"
    assert Opened.log == ["opened", "closed"] * 2


async def test_two_tools_of_one_name_end_the_turn_with_a_sentence_for_the_developer() -> None:
    @tool(name="price")
    def mine() -> str:
        return ""

    async with served(thinker(Script(), tools=[mine, shop])) as serving:
        assert (await think(serving).run_turn("go")).status == "error"
