"""Turns that end with an object: returned, corrected, refused, and the same for every client."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from everyword.agents import Think, TurnContext
from everyword.agents.think.output import MARK, REJECTED_TEXT, ExpectedOutput
from everyword.agents.tools import tool
from everyword.errors import CallPending, ChatError, ModelError, UsageError
from everyword.log.memory import MemoryLog
from tests.agents.kit import AGENT, served
from tests.agents.think.kit import Item, Script, call, calls_of, think, thinker
from tests.server.kit import chat, serving
from tests.server.sockets import socket


class Order(BaseModel):
    """An order as the shop knows it."""

    number: int
    placed: datetime.date


GOOD = call("final_result", number=7, placed="2026-01-02")
ORDER = Order(number=7, placed=datetime.date(2026, 1, 2))


def bad(call_id: str) -> dict[int, Any]:
    return call("final_result", call_id, number="seven", placed="2026-01-02")


async def test_a_turn_returns_the_object_that_was_asked_for() -> None:
    script = Script(["Here it is.", GOOD])
    async with served(thinker(script)) as serving:
        assert await think(serving).run_turn("order?", output_type=Order) == ORDER
    (info,) = script.infos
    assert [each.name for each in info.output_tools] == ["final_result"] and not info.allow_text_output
    assert info.output_tools[0].description == "An order as the shop knows it."
    assert info.function_tools == []


@pytest.mark.parametrize(
    ("output_type", "given", "value"),
    [(list[int], [1, 2], [1, 2]), (int, 3, 3), (Order | None, None, None), (dict[str, int], {"a": 1}, {"a": 1})],
)
async def test_an_answer_need_not_be_an_object(output_type: Any, given: Any, value: Any) -> None:
    arguments = given if isinstance(given, dict) else {"response": given}
    script = Script([call("final_result", **arguments)])
    async with served(thinker(script)) as serving:
        assert await think(serving).run_turn("go", output_type=output_type) == value
    assert script.infos[0].output_tools[0].description == "Give the final answer. Calling this ends the turn."


async def test_tools_are_run_before_the_object_is_given() -> None:
    @tool
    def find(number: int) -> str:
        return "placed on 2 January"

    script = Script([call("find", "c0", number=7)], [GOOD])
    async with served(thinker(script, tools=[find])) as serving:
        assert await think(serving).run_turn("order?", output_type=Order) == ORDER
        assert list(calls_of(serving.agent.messages[-1])) == ["c0", "c1"]
    assert script.said(1)[-1] == "placed on 2 January"


async def test_a_misfit_is_told_to_the_model_which_may_correct_it() -> None:
    script = Script([bad("c0")], [GOOD])
    async with served(thinker(script)) as serving:
        assert await think(serving).run_turn("order?", output_type=Order) == ORDER
    assert script.said(1)[-1].startswith("The result does not fit Order. number: Input should be a valid integer")


async def test_words_instead_of_the_object_are_asked_for_again() -> None:
    script = Script(["It is order seven."], [GOOD])
    async with served(thinker(script)) as serving:
        assert await think(serving).run_turn("order?", output_type=Order) == ORDER
        assert [message.role for message in serving.agent.messages] == ["user", "assistant"]
    assert script.said(1)[-1] == "Give the final answer by calling final_result."


@pytest.mark.obligation("000-6.3")
@pytest.mark.parametrize("reply", [lambda n: bad(f"c{n}"), lambda n: f"words {n}"], ids=["misfits", "words"])
async def test_an_object_that_is_never_right_ends_the_turn_as_an_error(reply: Callable[[int], Item]) -> None:
    script = Script(*[[reply(n)] for n in range(9)])
    async with served(thinker(script)) as serving:
        with pytest.raises(ChatError, match=REJECTED_TEXT):
            await think(serving).run_turn("order?", output_type=Order, idempotency_key="r1")
        again = await think(serving).submissions.get("r1")
    assert again is not None and (again.status, again.error) == ("error", REJECTED_TEXT)
    assert len(script.asked) == 3, "the first try, and two corrections"


class Strict(Think):
    """Asks for an order in every turn, also of clients."""

    output_retries = 0

    def before_turn(self, ctx: TurnContext) -> None:
        ctx.output_type = Order


@pytest.mark.obligation("000-6.3")
async def test_clients_are_not_told_that_it_is_done_before_the_object_was_checked() -> None:
    cls = thinker(Script([bad("c1")], [GOOD]), Strict)
    async with serving(chat(cls)) as url, socket(url) as client:
        await client.greeted()
        await client.ask("r1", "order?")
        end = await client.ended("r1")
        assert (end["done"], end["error"], end["body"]) == (True, True, REJECTED_TEXT)
        await client.ask("r2", "once more")
        assert (await client.ended("r2"))["outcome"] == "completed"


async def test_a_question_to_a_person_comes_before_the_object() -> None:
    @tool(needs_approval=True)
    def pay() -> str:
        return "paid"

    async with served(thinker(Script([call("pay")]), tools=[pay])) as serving:
        with pytest.raises(CallPending, match="unable to return Order"):
            await think(serving).run_turn("order?", output_type=Order)


async def test_the_object_of_a_turn_that_an_earlier_process_began_is_checked_by_its_declared_type() -> None:
    store, body = MemoryLog(), {MARK: "Order"}
    async with served(thinker(Script([GOOD]), output_types=[Order]), store) as serving:
        result = await think(serving).run_turn("order?", body=body)
        assert ExpectedOutput(Order).is_given(result.message)
    async with served(thinker(Script([GOOD])), store) as serving:
        assert (await think(serving).run_turn("order?", body=body)).status == "error"


async def test_an_object_that_was_taken_before_a_crash_is_not_asked_for_again() -> None:
    store = MemoryLog()

    class Dies(Think):
        output_types = (Order,)

        def on_step_finish(self, ctx: Any) -> Any:
            if ctx.turn.attempt == 1:
                raise ModelError("the provider went away", retryable=True)

    script = Script([GOOD])
    async with served(thinker(script, Dies), store) as serving:
        task = asyncio.create_task(think(serving).run_turn("order?", output_type=Order))
        while not task.done():
            serving.clock.advance(60)
            await asyncio.sleep(0)
        assert task.result() == ORDER
    kinds = [stored.kind for stored in store._logs[AGENT].events]
    assert kinds.count("attempt.started") == 2 and len(script.asked) == 1


async def test_a_tool_under_the_name_of_the_object_is_reported() -> None:
    @tool(name="final_result")
    def mine() -> str:
        return ""

    async with served(thinker(Script(), tools=[mine])) as serving:
        with pytest.raises(ChatError):
            await think(serving).run_turn("go", output_type=Order)


def test_types_are_told_apart_by_their_whole_name() -> None:
    assert [ExpectedOutput(each).name for each in (Order, list[int], int)] == ["Order", "list[int]", "int"]


def test_a_type_without_a_schema_is_reported() -> None:
    with pytest.raises(UsageError, match="unable to ask for object"):
        ExpectedOutput(type("object", (), {}))
