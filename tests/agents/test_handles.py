"""Agents used by other code: `app.get(Shop, "ann")` leads to the one agent that is loaded, beside or without clients."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import BaseModel

from everyword import Agent, AIChatAgent, CallResult, ChatError, Every, Everyword, Handle, Turn, UIMessage
from everyword import callable_method as exposed
from everyword.errors import (
    AgentGone,
    AgentStopped,
    BadInput,
    CallFailed,
    MessageRefused,
    Rejected,
    SqlError,
    UsageError,
)
from everyword.testing import LocalServer, ManualClock


class Item(BaseModel):
    name: str
    at: datetime
    size: int = 1


@dataclass
class Place:
    x: int
    day: date


class Refused(ChatError):
    """An application's own error."""


class Shop(Agent):
    initial_state = {"n": 0}

    async def on_start(self) -> None:
        self.items: list[Item] = []
        self.entered, self.go_on, self.closed = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.starts = getattr(self, "starts", 0) + 1

    @exposed
    async def add(self, n: int) -> int:
        await self.set_state({"n": self.state["n"] + n})
        return int(self.state["n"])

    def add_soon(self, n: int, *more: int, factor: int = 1, **named: int) -> int:
        self.set_state({"n": self.state["n"] + (n + sum(more) + sum(named.values())) * factor})
        return int(self.state["n"])

    async def put(self, item: Item, place: Place | None = None) -> list[Item]:
        assert isinstance(item, Item) and (place is None or isinstance(place.day, date))
        self.items.append(item)
        return self.items

    async def untyped(self, value):  # type: ignore[no-untyped-def]
        return {"given": value, "kind": type(value).__name__}

    async def message(self, message: UIMessage) -> UIMessage:
        assert isinstance(message, UIMessage)
        return message

    async def fails(self, how: str) -> None:
        match how:
            case "value":
                raise ValueError("a secret text")
            case "own":
                raise Refused("no such item")
            case "sql":
                raise SqlError("broken", is_constraint=True)
            case "rejected":
                raise MessageRefused("not that")
            case _:
                raise UsageError("not so")

    async def gives_object(self) -> Any:
        return object()

    async def lies(self) -> int:
        return "no number"  # type: ignore[return-value]

    async def waits(self) -> str:
        self.entered.set()
        await self.go_on.wait()
        await self.set_state({"n": 99})
        return "done"

    async def count(self, to: int) -> AsyncIterator[int | CallResult]:
        try:
            for n in range(to):
                await self.set_state({"n": n})
                yield n
            yield CallResult({"total": to})
        finally:
            self.closed.set()

    async def breaks(self) -> AsyncIterator[Item]:
        yield Item(name="one", at=datetime(2024, 1, 1, tzinfo=timezone.utc))
        raise ChatError("no more")

    async def leave(self) -> str:
        await self.destroy()
        return "bye"

    async def note(self, payload: Any) -> None:
        await self.set_state({"n": payload})

    async def _hidden(self) -> None: ...


class Chat(AIChatAgent):
    async def on_chat_message(self, turn: Turn) -> AsyncIterator[str]:
        yield f"re {self.messages[-1].text}"


class Other(AIChatAgent):
    pass


def user(text: str) -> dict[str, object]:
    return {"id": text, "role": "user", "parts": [{"type": "text", "text": text}]}


def item(name: str) -> Item:
    return Item(name=name, at=datetime(2024, 1, 1, tzinfo=timezone.utc))


@pytest.fixture
async def server() -> AsyncIterator[LocalServer]:
    async with LocalServer(Shop, Chat) as server:
        yield server


def own(server: LocalServer, name: str = "test") -> Shop:
    """Return the agent's own object, which only it should have."""
    (found,) = [each.owner for each in server.app._directory.loaded() if each.actor.agent == f"shop/{name}"]
    assert isinstance(found, Shop)
    return found


# -- the one agent -------------------------------------------------------------------------------------------------


async def test_methods_run_in_the_loaded_agent_with_what_on_start_gave_it(server: LocalServer) -> None:
    shop = server.get(Shop)
    assert [each.name for each in await shop.put(item("a"))] == ["a"]
    assert [each.name for each in await server.get(Shop).put(item("b"))] == ["a", "b"]
    assert own(server).starts == 1


async def test_a_handle_loads_nothing_by_itself(server: LocalServer) -> None:
    shop = server.get(Shop)
    assert (shop.name, shop.kind) == ("test", "shop")
    assert len(server.app._directory) == 0
    await shop.load()
    assert own(server).starts == 1


async def test_handles_see_connections_reach_clients_and_close_them(server: LocalServer) -> None:
    class Tagged(Shop):
        def connection_tags(self, connection: Any, request: Any) -> list[str]:
            connection.state["page"], connection.state["socket"] = "/home", object()
            return ["reader"]

    async with LocalServer(Tagged, clock=(clock := ManualClock())) as server:
        shop = server.get(Tagged)
        heard: asyncio.Queue[Any] = asyncio.Queue()
        assert await shop.connections() == []
        async with server.client(Tagged) as client:
            client.on_message(heard.put_nowait)
            await client.call("add", [0])
            (found,) = await shop.connections()
            assert (found.tags, found.state, found.read_only) == (["reader"], {"page": "/home"}, False)
            assert found.since == clock.now() / 1000
            assert await shop.connections("reader") == [found] and await shop.connections("none") == []
            await shop.broadcast({"hello": 1}, exclude=["somebody"])
            assert await heard.get() == '{"hello":1}'
            await shop.broadcast("not for you", exclude=[found.id])
            await shop.broadcast("text")
            assert await heard.get() == "text"
            assert await shop.close_connection("somebody") == 0
            assert await shop.close_connection(found.id, 4001, "enough") == 1
        assert await shop.connections() == []


async def test_fifty_concurrent_calls_of_handles_and_clients_lose_nothing(server: LocalServer) -> None:
    async with server.client(Shop) as client:
        calls = [server.get(Shop).call(Shop.add, 1) for _ in range(25)]
        results = await asyncio.gather(*calls, *(client.call("add", [1]) for _ in range(25)))
    assert sorted(results) == list(range(1, 51))
    assert await server.get(Shop).get_state() == {"n": 50}


async def test_a_result_is_given_out_when_its_states_are_committed(server: LocalServer) -> None:
    shop = server.get(Shop)
    assert await shop.add_soon(1, 2, factor=2, three=3) == 12
    assert server.app._directory.loaded()[0].agency.value == b'{"n":12}'


# -- values --------------------------------------------------------------------------------------------------------


async def test_arguments_and_results_are_copies_of_their_types(server: LocalServer) -> None:
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


async def test_states_are_copies_and_set_through_the_agent(server: LocalServer) -> None:
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
async def test_an_argument_without_a_json_form_is_refused_at_once(given: Any, server: LocalServer) -> None:
    with pytest.raises(UsageError, match="argument 1 of Shop.untyped"):
        server.get(Shop).untyped(given)


async def test_arguments_and_results_must_fit_the_hints(server: LocalServer) -> None:
    shop = server.get(Shop)
    with pytest.raises(UsageError, match=r"unable to call Shop.add; .*missing.*It takes \(n: int\)"):
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
        ("_port", "no attribute"),
        ("items", "no method of that name"),
        ("initial_state", "for the agent's own code"),
        ("nope", "no method of that name"),
    ],
)
async def test_what_is_not_on_a_handle_is_told_at_once(name: str, told: str, server: LocalServer) -> None:
    cls: Any = Chat if name == "messages" else Shop
    with pytest.raises(AttributeError, match=told):
        getattr(server.get(cls), name)


async def test_calls_by_function_take_methods_of_the_class_only(server: LocalServer) -> None:
    class Sub(Shop):
        async def add(self, n: int) -> int:
            return -n

    shop: Any = server.get(Shop)
    for method in (Chat.on_chat_message, lambda shop: 1, "add", Shop.kind):
        with pytest.raises(UsageError, match="no method of Shop"):
            shop.call(method)
    with pytest.raises(UsageError, match="await handle.set_state"):
        shop.call(Shop.set_state, 1)
    with pytest.raises(UsageError, match="private"):
        shop.call(Shop._hidden)
    with pytest.raises(UsageError, match="stream"):
        shop.count(1)
    with pytest.raises(UsageError, match="no async generator"):
        shop.stream(Shop.add, 1)
    async with LocalServer(Sub) as other:
        assert await other.get(Sub).call(Shop.add, 1) == -1, "the agent's own class decides"


# -- errors --------------------------------------------------------------------------------------------------------


async def test_errors_of_ours_keep_class_and_text_and_others_stay_in_the_log(
    server: LocalServer, caplog: pytest.LogCaptureFixture
) -> None:
    shop = server.get(Shop)
    with pytest.raises(ChatError, match="^no such item$") as own_error:
        await shop.fails("own")
    assert type(own_error.value) is ChatError, "an application's class is not known in every process"
    with pytest.raises(MessageRefused, match="^not that$"):
        await shop.fails("rejected")
    with pytest.raises(UsageError, match="^not so$"):
        await shop.fails("usage")
    with pytest.raises(SqlError, match="^broken$") as sql_error:
        await shop.fails("sql")
    assert sql_error.value.is_constraint
    assert "secret" not in caplog.text
    with caplog.at_level(logging.WARNING), pytest.raises(CallFailed, match=r"^The call of fails failed\.$") as failed:
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


async def test_streams_give_values_of_their_type_committed_and_in_order(server: LocalServer) -> None:
    shop, seen = server.get(Shop), []
    async for n in shop.stream(Shop.count, 3):
        seen.append(n)
        if isinstance(n, int):
            assert server.app._directory.loaded()[0].agency.value in (b'{"n":%d}' % n, b'{"n":%d}' % (n + 1), b'{"n":2}')
    assert seen == [0, 1, 2, CallResult({"total": 3})]


async def test_a_reader_that_leaves_closes_the_generator(server: LocalServer) -> None:
    values = server.get(Shop).stream(Shop.count, 10**9)
    async for _ in values:
        break
    await values.aclose()  # type: ignore[attr-defined]
    await asyncio.wait_for(own(server).closed.wait(), 5)
    assert own(server).state["n"] < 5, "it is hardly ahead of its reader"


async def test_a_stream_that_fails_gives_what_came_before(server: LocalServer) -> None:
    seen = []
    with pytest.raises(ChatError, match="no more"):
        async for each in server.get(Shop).stream(Shop.breaks):
            seen.append(each.name)
    assert seen == ["one"]


# -- callers and agents that come and go ---------------------------------------------------------------------------


async def test_a_call_goes_on_when_its_caller_is_cancelled(server: LocalServer) -> None:
    shop = server.get(Shop)
    waiting = asyncio.create_task(shop.waits())
    await shop.load()
    await own(server).entered.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    own(server).go_on.set()
    while await shop.get_state() != {"n": 99}:
        await asyncio.sleep(0)


async def test_a_call_keeps_its_agent_loaded_and_a_later_one_loads_it_again() -> None:
    async with LocalServer(Shop, clock=(clock := ManualClock())) as server:
        shop, directory = server.get(Shop), server.app._directory
        waiting = asyncio.create_task(shop.waits())
        await shop.load()
        first = own(server)
        await first.entered.wait()
        clock.advance(3600)
        directory.unload_idle()
        assert len(directory) == 1
        first.go_on.set()
        assert await waiting == "done"
        clock.advance(3600)
        directory.unload_idle()
        assert len(directory) == 0
        assert await shop.get_state() == {"n": 99} and own(server) is not first


async def test_a_call_of_an_agent_that_is_destroyed_meanwhile_says_so(server: LocalServer) -> None:
    shop = server.get(Shop)
    waiting, stream = asyncio.create_task(shop.waits()), shop.stream(Shop.count, 10**9)
    assert await anext(stream) == 0
    await own(server).entered.wait()
    await shop.destroy()
    with pytest.raises(AgentGone, match="destroyed"):
        await waiting
    with pytest.raises(AgentGone, match="destroyed"):
        async for _ in stream:
            pass
    assert await shop.get_state() == {"n": 0}, "the name is that of a new agent"


async def test_an_agent_may_destroy_itself_in_a_call_and_still_answer(server: LocalServer) -> None:
    shop = server.get(Shop)
    await shop.add(1)
    assert await shop.leave() == "bye"
    assert not await server.app.exists(Shop, "test")


async def test_a_process_that_dies_in_a_call_tells_the_caller_and_leaves_nothing_behind() -> None:
    async with LocalServer(Shop) as server:
        shop = server.get(Shop)
        await shop.add(1)
        waiting = asyncio.create_task(shop.waits())
        await shop.load()
        dead = own(server)
        await dead.entered.wait()
        await server.kill()
        with pytest.raises(AgentStopped):
            await waiting
        await server.start()
        dead.go_on.set()
        assert await shop.add(1) == 2, "the same handle leads to the agent of the next process"
        assert own(server) is not dead and await shop.get_state() == {"n": 2}


async def test_an_orderly_stop_lets_calls_finish_and_does_not_wait_for_waits(tmp_path: Any) -> None:
    class Asked(Chat):
        async def on_chat_message(self, turn: Turn) -> AsyncIterator[str]:
            yield "never"

    app = Everyword([Shop, Asked], store="memory:")
    app.grace = 30.0
    async with app:
        shop, chat = app.get(Shop, "a"), app.get(Asked, "b")
        call = asyncio.create_task(shop.waits())
        await shop.load()
        (found,) = [each.owner for each in app._directory.loaded() if isinstance(each.owner, Shop)]
        await found.entered.wait()
        stable = asyncio.create_task(chat.wait_until_stable())
        assert await stable
        asyncio.get_running_loop().call_soon(found.go_on.set)
    assert await call == "done"


# -- agents among themselves ---------------------------------------------------------------------------------------


class Ping(AIChatAgent):
    async def on_start(self) -> None:
        pong = self.app.get(Pong, self.name)
        self.heard = await pong.greet(self.name) if self.name == "starts" else ""

    async def ball(self, n: int) -> int:
        return n if n == 0 else 1 + int(await self.app.get(Pong, self.name).ball(n - 1))

    async def itself(self) -> int:
        return int(await self.app.get(Ping, self.name).ball(4))

    async def name_of(self) -> str:
        return f"{self.name} {self.state}"

    async def ask(self) -> str:
        return (await self.save_messages("again")).status

    async def on_chat_message(self, turn: Turn) -> AsyncIterator[str]:
        try:
            yield str(await self.app.get(Pong, self.name).ask_back())
        except UsageError as exc:
            yield f"refused: {exc}"


class Pong(Agent):
    async def ball(self, n: int) -> int:
        return n if n == 0 else 1 + int(await self.app.get(Ping, self.name).ball(n - 1))

    async def greet(self, name: str) -> str:
        return f"hello {await self.app.get(Ping, name).name_of()}"

    async def ask_back(self) -> str:
        return str(await self.app.get(Ping, self.name).ask())


async def test_agents_that_call_each_other_and_themselves_do_not_wait_for_ever() -> None:
    async with LocalServer(Ping, Pong) as server, asyncio.timeout(10):
        ping = server.get(Ping)
        assert await ping.ball(10) == 10
        assert await ping.itself() == 4
        starts = server.get(Ping, "starts")
        await starts.load()
        (found,) = [each.owner for each in server.app._directory.loaded() if each.actor.agent == "ping/starts"]
        assert isinstance(found, Ping) and found.heard == "hello starts None"


async def test_a_turn_that_would_wait_for_itself_through_another_agent_is_refused() -> None:
    async with LocalServer(Ping, Pong) as server, asyncio.timeout(10):
        result = await server.get(Ping).save_messages("hi")
        assert result.message is not None
        assert result.message.text.startswith("refused: unable to start a turn inside a turn")


class Child(Agent):
    async def above(self) -> str:
        return str(await self.parent.title()) if self.parent is not None else "nobody"

    async def set(self, n: int) -> int:
        await self.set_state(n)
        return n


class Parent(AIChatAgent):
    async def title(self) -> str:
        return f"the {self.name}"

    async def use(self) -> list[Any]:
        child = await self.sub_agent(Child, "kid")
        assert isinstance(child, Handle)
        return [await child.call(Child.set, 3), await child.above(), await child.get_state()]


async def test_parents_and_sub_agents_have_handles_of_each_other() -> None:
    async with LocalServer(Parent, Child) as server:
        parent = server.get(Parent, "boss")
        assert not await parent.has_sub_agent(Child, "kid")
        assert await parent.use() == [3, "the boss", 3]
        assert await parent.has_sub_agent(Child, "kid")
        child = await parent.sub_agent(Child, "kid")
        assert (child.name, child.kind, await child.get_state()) == ("kid", "child", 3)
        assert await server.get(Child).above() == "nobody"
        await child.destroy()
        assert not await parent.has_sub_agent(Child, "kid")


# -- what every handle has -----------------------------------------------------------------------------------------


async def test_an_agent_can_be_asked_and_read(server: LocalServer) -> None:
    chat = server.get(Chat)
    result = await chat.save_messages([user("hi")])
    assert result.status == "completed" and result.message is not None and result.message.text == "re hi"
    assert (await chat.save_messages("you", request_id="r1")).message == (
        await chat.save_messages("me", request_id="r1")
    ).message
    assert [each.text for each in await chat.get_messages()] == ["hi", "re hi", "you", "re you"]
    assert await chat.wait_until_stable(5) and not await chat.has_pending_interaction()
    assert (await chat.continue_last_turn()).status == "completed"
    await chat.clear_history()
    await chat.persist_messages([user("kept")])
    assert [each.text for each in await chat.get_messages()] == ["kept"]
    assert (await chat.continue_last_turn()).status == "skipped"
    await chat.abort_request("r1")
    await chat.abort_all_requests()
    with pytest.raises(UsageError, match="functions do not travel"):
        await chat.save_messages(lambda messages: "hi")  # type: ignore[arg-type]
    with pytest.raises(Rejected):
        await server.get(Chat).persist_messages([user("a"), {"id": "", "role": "user", "parts": []}])


async def test_jobs_are_queued_and_scheduled_through_a_handle() -> None:
    async with LocalServer(Shop, clock=(clock := ManualClock())) as server:
        shop = server.get(Shop)
        await shop.queue("note", 7)
        while await shop.get_state() != {"n": 7}:
            await asyncio.sleep(0)
        at = datetime.fromtimestamp(clock.now() / 1000, timezone.utc) + timedelta(days=1)
        added = [
            await shop.schedule(60, "note", 1),
            await shop.schedule(timedelta(minutes=2), "note", 2),
            await shop.schedule(Every(hours=1), "note", 3),
            await shop.schedule(at, "note", 4),
            await shop.schedule("0 0 1 1 *", "note", 5, zone="Europe/Berlin"),
        ]
        assert sorted(await shop.get_schedules(), key=lambda each: int(each.payload)) == added
        assert added[3].time == at.timestamp() and added[4].zone == "Europe/Berlin"
        assert await shop.cancel_schedule(added[0].id) and not await shop.cancel_schedule(added[0].id)
        assert await shop.get_queue() == [] and not await shop.dequeue("nope")
        with pytest.raises(UsageError, match="no public method"):
            await shop.queue("nope")


async def test_a_job_of_another_agent_asks_once_though_it_runs_twice() -> None:
    class Asker(Agent):
        async def ask(self, payload: Any) -> None:
            await self.app.get(Chat, "test").save_messages("from a job")
            if not hasattr(self, "has_failed"):
                self.has_failed = True
                raise ValueError("once more")
            await self.set_state("done")

    async with LocalServer(Asker, Chat, clock=(clock := ManualClock())) as server:
        asker = server.get(Asker)
        await asker.queue("ask", 1)
        while await asker.get_state() != "done":
            clock.advance(1)
            await asyncio.sleep(0)
        assert [each.text for each in await server.get(Chat).get_messages()] == ["from a job", "re from a job"]


# -- all agents ----------------------------------------------------------------------------------------------------


async def test_agents_are_listed_found_and_destroyed() -> None:
    async with LocalServer(Shop, Chat, Parent, Child) as server:
        app = server.app
        names = [f"n{number:03}" for number in range(120)]
        await asyncio.gather(*(app.get(Shop, name).set_state({"n": 1}) for name in names))
        await app.get(Parent, "boss").use()
        await app.get(Chat, "only-loaded").load()
        assert [each.name async for each in app.agents(Shop)] == names
        assert [each.name async for each in app.agents("shop", prefix="n11")] == [f"n11{n}" for n in range(10)]
        assert [repr(each) async for each in app.agents(prefix="on")] == ["ChatHandle(Chat, 'only-loaded')"]
        assert [each.name async for each in app.agents(Parent)] == ["boss"], "sub-agents are not among them"
        async for shop in app.agents(Shop, prefix="n00"):
            assert await shop.call(Shop.add, 1) == 2
        assert await app.exists(Shop, "n001") and await app.exists("shop", "n001")
        assert not await app.exists(Shop, "nobody")
        await app.destroy(Shop, "n001")
        assert not await app.exists(Shop, "n001")
        await app.destroy("shop", "nobody")
        for use in (app.exists, app.destroy):
            with pytest.raises(UsageError, match="does not serve"):
                await use(Other, "x")


async def test_many_agents_are_listed_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("everyword.agents.app_handle.PAGE", 3)
    async with LocalServer(Parent, Child) as server:
        for number in range(10):
            await server.get(Parent, f"n{number}").use()
        await server.get(Parent, "n99").load()
        found = [each.name async for each in server.app.agents(Parent)]
        assert found == [*(f"n{number}" for number in range(10)), "n99"]
