"""The product that type checkers read does what it says: `make types` checks it, this runs it."""

from __future__ import annotations

from everyword.agents import tools_of
from everyword.agents.tools import ToolContext, ToolResult
from everyword.client import AgentClient
from everyword.testing import LocalServer
from tests.typing.product.orders import Basket, Cart, Order, Plain, Support, look_up


def client(server: LocalServer, kind: str) -> AgentClient:
    return AgentClient("http://localhost", kind, "test", connect=server.network().connect)


async def test_the_product_runs() -> None:
    async with LocalServer(Basket, Plain) as server:
        async with client(server, "basket") as basket, client(server, "plain") as plain:
            assert [await basket.call("add", line) for line in ("tea", "milk")] == [1, 2]
            assert [await plain.call("more"), await plain.call("more")] == [1, 2]
        assert [job.callback for job in await server.get(Basket).jobs.list(queued=False)] == ["sweep"]
    assert Basket.state_model is Cart
    assert {*tools_of(Support)} == {"find_order", "refund", "charge", "look_up", "research"}


async def test_a_context_that_names_its_agent_is_given_to_the_tool_and_hidden_from_models() -> None:
    class Served:
        state = None

    assert list(look_up.parameters["properties"]) == ["number"]
    order = Order(number="7", price=39.0).model_dump()
    found = [each async for each in look_up.run({"number": "7"}, ToolContext(agent=Served()))]
    assert found == [ToolResult(order)]
