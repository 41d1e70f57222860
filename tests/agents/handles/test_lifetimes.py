"""Handles while callers and agents come and go, agents that use each other, and the agents of an app."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from everyword import Agent, AIChatAgent, Every, Everyword, Handle, SubAgentAddress, Turn
from everyword.errors import (
    AgentGone,
    AgentStopped,
    BadMessage,
    LogUnavailable,
    UsageError,
)
from everyword.log.base import Batch
from everyword.log.memory import MemoryLog
from everyword.principals import Principal, acting_as
from everyword.testing import LocalServer, ManualClock
from tests.agents.shop import Chat, Other, Shop, own, read, until_state, user
from tests.loaded_agents import loaded_agent

# -- callers and agents that come and go ---------------------------------------------------------------------------


async def test_a_call_goes_on_when_its_caller_is_cancelled() -> None:
    async with LocalServer(Shop, Chat) as server:
        shop = server.get(Shop)
        waiting = asyncio.create_task(shop.waits())
        await shop.load()
        await own(server).entered.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        own(server).go_on.set()
        await until_state(shop, {"n": 99})


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


async def test_a_call_of_an_agent_that_is_destroyed_meanwhile_says_so() -> None:
    async with LocalServer(Shop, Chat) as server:
        shop = server.get(Shop)
        waiting, stream = asyncio.create_task(shop.waits()), shop.stream(Shop.count, 10**9)
        assert await anext(stream) == 0
        await own(server).entered.wait()
        await shop.destroy()
        with pytest.raises(AgentGone, match="destroyed"):
            await waiting
        with pytest.raises(AgentGone, match="destroyed"):
            await read(stream, [])
        assert await shop.get_state() == {"n": 0}, "the name is that of a new agent"


async def test_an_agent_may_destroy_itself_in_a_call_and_still_answer() -> None:
    async with LocalServer(Shop, Chat) as server:
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


PAY: Any = {"type": "tool-input-available", "toolCallId": "k", "toolName": "pay", "input": {}}


async def test_an_orderly_stop_lets_calls_finish_and_does_not_wait_for_waits() -> None:
    class Asking(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> AsyncIterator[Any]:
            yield PAY

    app = Everyword([Shop, Asking], store="memory:")
    app.grace = 3600.0
    async with asyncio.timeout(10), app:
        shop, chat = app.get(Shop, "a"), app.get(Asking, "b")
        call = asyncio.create_task(shop.waits())
        await (await loaded_agent(shop)).entered.wait()
        await chat.save_messages("hi")
        assert await chat.has_pending_interaction()
        stable = asyncio.create_task(chat.wait_until_stable())
        await chat.load()
        (await loaded_agent(shop)).go_on.set()
    assert await call == "done"
    with pytest.raises(AgentStopped):
        await stable


class Failing(MemoryLog):
    """A store that fails once, at the append that it is told."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.left = at

    async def append_one(self, batch: Batch) -> None:
        self.left -= 1
        if self.left == 0:
            raise LogUnavailable("unable to write; the disk is full")
        await super().append_one(batch)


@pytest.mark.parametrize("at", [1, 2])
async def test_a_question_is_answered_though_its_agent_is_lost_meanwhile(at: int) -> None:
    app, clock = Everyword([Chat], store=(store := Failing(at))), ManualClock()
    app.clock = clock
    async with asyncio.timeout(10), app:
        chat = app.get(Chat, "ann")
        asking = asyncio.create_task(chat.save_messages("hi"))
        while not asking.done():
            clock.advance(1)
            await asyncio.sleep(0)
        assert (await asking).status == "completed" and store.left <= 0
        assert [each.text for each in await chat.get_messages()] == ["hi", "re hi"]


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
        assert not await parent.sub_agents.exists(Child, "kid")
        assert await parent.use() == [3, "the boss", 3]
        assert await parent.sub_agents.exists(Child, "kid")
        child = await parent.sub_agent(Child, "kid")
        assert (child.name, child.kind, await child.get_state()) == ("kid", "child", 3)
        assert await server.get(Child).above() == "nobody"
        assert await parent.sub_agents.list() == [SubAgentAddress(Child, "kid")]
        await parent.sub_agents.abort(Child, "kid")
        assert await parent.sub_agents.delete(Child, "kid") and not await parent.sub_agents.delete(Child, "kid")
        assert not await parent.sub_agents.exists(Child, "kid")


async def test_a_call_has_the_principal_of_its_caller() -> None:
    class Clerk(Agent):
        async def who(self) -> str:
            return self.principal.id if self.principal is not None else "nobody"

    class Desk(Agent):
        async def ask(self) -> str:
            return str(await self.app.get(Clerk, "test").who())

    async with LocalServer(Clerk, Desk) as server:
        assert await server.get(Desk).ask() == "nobody"
        with acting_as(Principal("ann", claims={"team": 7}).identity):
            assert await server.get(Desk).ask() == "ann"


# -- what every handle has -----------------------------------------------------------------------------------------


async def test_an_agent_can_be_asked_and_read() -> None:
    async with LocalServer(Shop, Chat) as server:
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
        await chat.reset_turn_state()
        with pytest.raises(UsageError, match="functions do not travel"):
            await chat.save_messages(lambda messages: "hi")  # type: ignore[arg-type]
        with pytest.raises(BadMessage):
            await server.get(Chat).persist_messages([user("a"), {"id": "", "role": "user", "parts": []}])


async def test_jobs_are_queued_and_scheduled_through_a_handle() -> None:
    async with LocalServer(Shop, clock=(clock := ManualClock())) as server:
        shop = server.get(Shop)
        await shop.queue("note", 7)
        await until_state(shop, {"n": 7})
        at = datetime.fromtimestamp(clock.now() / 1000, UTC) + timedelta(days=1)
        added = [
            await shop.schedule(60, "note", 1),
            await shop.schedule(timedelta(minutes=2), "note", 2),
            await shop.schedule(Every(hours=1), "note", 3),
            await shop.schedule(at, "note", 4),
            await shop.schedule("0 0 1 1 *", "note", 5, zone="Europe/Berlin"),
        ]
        assert sorted(await shop.jobs.list(queued=False), key=lambda each: int(each.payload)) == added
        assert added[3].time == at.timestamp() and added[4].zone == "Europe/Berlin"
        assert await shop.jobs.cancel(added[0].id) and not await shop.jobs.cancel(added[0].id)
        assert await shop.jobs.get(added[1].id) == added[1] and await shop.jobs.get(added[0].id) is None
        assert await shop.jobs.list(queued=True) == [] and await shop.jobs.cancel_all() == 4
        with pytest.raises(UsageError, match="no public method"):
            await shop.queue("nope")


async def test_a_job_that_runs_again_asks_another_agent_once() -> None:
    asked, stay = asyncio.Event(), asyncio.Event()

    class Asker(Agent):
        async def ask(self, payload: Any) -> None:
            await self.app.get(Chat, "test").save_messages("from a job")
            asked.set()
            await stay.wait()
            await self.set_state("done")

    async with LocalServer(Asker, Chat) as server:
        asker = server.get(Asker)
        await asker.queue("ask", 1)
        await asked.wait()
        stay.set()
        await server.restart()
        await until_state(asker, "done")
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
    monkeypatch.setattr("everyword.agents.handles.app_handle.PAGE", 3)
    async with LocalServer(Parent, Child) as server:
        for number in range(10):
            await server.get(Parent, f"n{number}").use()
        await server.get(Parent, "n99").load()
        found = [each.name async for each in server.app.agents(Parent)]
        assert found == [*(f"n{number}" for number in range(10)), "n99"]
