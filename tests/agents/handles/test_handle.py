"""Agents used by other code: `app.get(Shop, "ann")` leads to the one agent that is loaded."""

from __future__ import annotations

import asyncio
import logging
from datetime import date
from typing import Any

import pytest

from everyword import Agent, CallResult, ChatError, Everyword, UIMessage
from everyword.errors import (
    BadInput,
    CallFailed,
    MessageRefused,
    SqlError,
    UsageError,
)
from everyword.testing import LocalServer, ManualClock
from tests.agents.shop import Chat, Item, Other, Place, Shop, item, own, read, two
from tests.timeouts import PATIENCE

# -- the one agent -------------------------------------------------------------------------------------------------


async def test_methods_run_in_the_loaded_agent_with_what_on_start_gave_it() -> None:
    async with LocalServer(Shop, Chat) as server:
        shop = server.get(Shop)
        assert [each.name for each in await shop.put(item("a"))] == ["a"]
        assert [each.name for each in await server.get(Shop).put(item("b"))] == ["a", "b"]
        assert own(server).starts == 1


async def test_a_handle_loads_nothing_by_itself() -> None:
    async with LocalServer(Shop, Chat) as server:
        shop = server.get(Shop)
        assert (shop.name, shop.kind) == ("test", "shop")
        assert len(server.app._directory) == 0
        await shop.load()
        assert own(server).starts == 1


async def test_handles_see_connections_reach_clients_and_close_them() -> None:
    class Tagged(Shop):
        def prepare_connection(self, connection: Any, request: Any) -> None:
            connection.state["page"], connection.state["socket"] = "/home", object()
            connection.tags = ["reader"]

    async with LocalServer(Tagged, clock=(clock := ManualClock())) as server:
        shop = server.get(Tagged)
        assert await shop.connections() == []
        async with server.client(Tagged).agent as client:
            await client.call("add", 0)
            heard = asyncio.create_task(two(client.messages()))
            await asyncio.sleep(0)
            (found,) = await shop.connections()
            assert (found.tags, found.state, found.read_only) == (["reader"], {"page": "/home"}, False)
            assert found.since == clock.now() / 1000
            assert await shop.connections("reader") == [found] and await shop.connections("none") == []
            await shop.broadcast({"hello": 1}, exclude=["somebody"])
            await shop.broadcast("not for you", exclude=[found.id])
            await shop.broadcast("text")
            assert await heard == [{"hello": 1}, "text"]
            assert await shop.close_connection("somebody") == 0
            assert await shop.close_connection(found.id, 4001, "enough") == 1
        assert await shop.connections() == []


async def test_fifty_concurrent_calls_of_handles_and_clients_lose_nothing() -> None:
    async with LocalServer(Shop, Chat) as server:
        async with server.client(Shop).agent as client:
            calls = [server.get(Shop).call(Shop.add, 1) for _ in range(25)]
            results = await asyncio.gather(*calls, *(client.call("add", 1) for _ in range(25)))
        assert sorted(results) == list(range(1, 51))
        assert await server.get(Shop).get_state() == {"n": 50}


async def test_a_result_is_given_out_when_its_states_are_committed() -> None:
    async with LocalServer(Shop, Chat) as server:
        shop = server.get(Shop)
        assert await shop.add_soon(1, 2, factor=2, three=3) == 12
        assert server.app._directory.loaded()[0].reconciler.view.state_value == b'{"n":12}'


# -- values --------------------------------------------------------------------------------------------------------


async def test_arguments_and_results_are_copies_of_their_types() -> None:
    async with LocalServer(Shop, Chat) as server:
        shop, given, place = server.get(Shop), item("a"), Place(1, date(2024, 5, 1))
        result = await shop.call(Shop.put, given, place=place)
        assert result == [given] and isinstance(result[0], Item)
        result[0].name = given.name = "changed"
        result.clear()
        assert [each.name for each in own(server).items] == ["a"]
        nested = {"list": [1]}
        answer = await shop.untyped(nested)
        assert answer == {"given": nested, "kind": "dict"} and answer["given"] is not nested
        message = UIMessage("m", "user", [{"type": "text", "text": "hi"}], {"a": 1}, {"more": 2})
        assert await shop.call(Shop.message, message) == message


async def test_states_are_copies_and_set_through_the_agent() -> None:
    class Modelled(Agent):
        state_model, initial_state = Item, item("first")

    async with LocalServer(Shop, Modelled) as server:
        shop = server.get(Shop)
        assert await shop.set_state({"n": 5}) == {"n": 5} == await shop.get_state()
        (await shop.get_state())["n"] = 6
        assert await shop.get_state() == {"n": 5}
        modelled = server.get(Modelled)
        assert await modelled.get_state() == item("first")
        assert await modelled.set_state(item("second")) == item("second") == await modelled.get_state()
        with pytest.raises(BadInput, match="size"):
            await modelled.set_state({"name": "x", "at": "2024-01-01T00:00:00Z", "size": "large"})


@pytest.mark.parametrize("given", [object(), lambda: None, b"\xff", {1, object()}])
async def test_an_argument_without_a_json_form_is_refused_at_once(given: Any) -> None:
    async with LocalServer(Shop, Chat) as server:
        with pytest.raises(UsageError, match=r"argument 1 of Shop.untyped"):
            server.get(Shop).untyped(given)


async def test_arguments_and_results_must_fit_the_hints() -> None:
    async with LocalServer(Shop, Chat) as server:
        shop = server.get(Shop)
        with pytest.raises(UsageError, match=r"unable to call Shop.add; .*missing.*It takes \(n: 'int'\)"):
            shop.add()
        with pytest.raises(BadInput, match=r"n of Shop.add; Input should be a valid integer"):
            await shop.add("many")
        with pytest.raises(BadInput, match=r"item of Shop.put; at: Field required"):
            await shop.put({"name": "a"})
        with pytest.raises(UsageError, match=r"the result of Shop.gives_object"):
            await shop.gives_object()
        with pytest.raises(BadInput, match=r"the result of Shop.lies"):
            await shop.lies()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("state", "await handle.get_state"),
        ("messages", "await handle.get_messages"),
        ("update_state", "functions do not travel"),
        ("on_start", "hook"),
        ("sql", "for the agent's own code"),
        ("_hidden", "no attribute"),
        ("_runtime", "no attribute"),
        ("items", "no method of that name"),
        ("initial_state", "for the agent's own code"),
        ("nope", "no method of that name"),
    ],
)
async def test_what_is_not_on_a_handle_is_told_at_once(name: str, told: str) -> None:
    async with LocalServer(Shop, Chat) as server:
        cls: Any = Chat if name == "messages" else Shop
        with pytest.raises(AttributeError, match=told):
            getattr(server.get(cls), name)


async def test_calls_by_function_take_methods_of_the_class_only() -> None:
    async with LocalServer(Shop, Chat) as server:

        class Kiosk(Shop):
            async def add(self, n: int) -> int:
                return -n

        shop: Any = server.get(Shop)
        for method in (Chat.on_chat_message, lambda shop: 1, "add", Shop.kind):
            with pytest.raises(UsageError, match="no method of Shop"):
                shop.call(method)
        with pytest.raises(UsageError, match=r"await handle.set_state"):
            shop.call(Shop.set_state, 1)
        with pytest.raises(UsageError, match="private"):
            shop.call(Shop._hidden)
        with pytest.raises(UsageError, match="stream"):
            shop.count(1)
        with pytest.raises(UsageError, match="no async generator"):
            shop.stream(Shop.add, 1)
        async with LocalServer(Kiosk) as other:
            assert await other.get(Kiosk).call(Shop.add, 1) == -1, "the agent's own class decides"


# -- errors --------------------------------------------------------------------------------------------------------


async def test_errors_of_ours_keep_class_and_text_and_others_stay_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with LocalServer(Shop, Chat) as server:
        shop = server.get(Shop)
        with pytest.raises(ChatError, match=r"^no such item$") as own_error:
            await shop.fails("own")
        assert type(own_error.value) is ChatError, "an application's class is not known in every process"
        with pytest.raises(MessageRefused, match=r"^not that$"):
            await shop.fails("rejected")
        with pytest.raises(UsageError, match=r"^not so$"):
            await shop.fails("usage")
        with pytest.raises(SqlError, match=r"^broken$") as sql_error:
            await shop.fails("sql")
        assert sql_error.value.is_constraint
        assert "secret" not in caplog.text
        with (
            caplog.at_level(logging.WARNING),
            pytest.raises(CallFailed, match=r"^The call of fails failed\.$") as failed,
        ):
            await shop.fails("value")
        assert failed.value.__cause__ is None and failed.value.__context__ is None
        assert "a secret text" in caplog.text


async def test_an_app_that_does_not_run_or_serve_the_class_says_so() -> None:
    app = Everyword([Chat], store="memory:")
    with pytest.raises(UsageError, match="does not serve"):
        app.get(Other, "ann")
    with pytest.raises(UsageError, match="leads to a sub-agent"):
        app.get(Chat, "ann/sub/chat/bob")
    chat = app.get(Chat, "ann")
    with pytest.raises(UsageError, match="not running"):
        await chat.get_messages()
    async with app:
        assert await chat.get_messages() == []
    with pytest.raises(UsageError, match="not running"):
        await chat.get_messages()


# -- streams -------------------------------------------------------------------------------------------------------


async def test_streams_give_values_of_their_type_committed_and_in_order() -> None:
    async with LocalServer(Shop, Chat) as server:
        shop, seen = server.get(Shop), []
        async for n in shop.stream(Shop.count, 3):
            seen.append(n)
            if isinstance(n, int):
                assert server.app._directory.loaded()[0].reconciler.view.state_value in (
                    b'{"n":%d}' % n,
                    b'{"n":%d}' % (n + 1),
                    b'{"n":2}',
                )
        assert seen == [0, 1, 2, CallResult({"total": 3})]


async def test_a_reader_that_leaves_closes_the_generator() -> None:
    async with LocalServer(Shop, Chat) as server:
        values = server.get(Shop).stream(Shop.count, 10**9)
        async for _ in values:
            break
        await values.aclose()
        await asyncio.wait_for(own(server).closed.wait(), PATIENCE)
        assert own(server).state["n"] < 5, "it is hardly ahead of its reader"


async def test_a_stream_that_fails_gives_what_came_before() -> None:
    async with LocalServer(Shop, Chat) as server:
        seen = []
        with pytest.raises(ChatError, match="no more"):
            await read(server.get(Shop).stream(Shop.breaks), seen)
        assert [each.name for each in seen] == ["one"]
