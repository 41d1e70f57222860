"""A client of any agent, against a small server with the frames of agents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

from everyword.client import AgentClient, Backoff, CallFailed, ClientError, ConnectionLost, StateRefused, TurnedAway
from everyword.testing import ManualClock
from tests.client.fake import FakeAgent, fake_agent
from tests.client.kit import QUICK, patiently


def counter(agent: FakeAgent, **options: Any) -> AgentClient:
    return AgentClient(agent.url, agent="Counter", name="ann/b", **{"backoff": QUICK, **options})


async def back(me: AgentClient) -> None:
    """Wait until the client is connected and has received the state again."""
    await patiently(me.connection.until(lambda: me.is_connected and me.protocol.frames >= 2))


async def test_a_client_knows_the_agents_identity_and_state() -> None:
    async with fake_agent() as agent, counter(agent) as me:
        await back(me)
        assert me.identity is not None
        assert (me.identity["agent"], me.identity["name"]) == ("counter", "ann")
        assert me.state == {"count": 0}
        assert agent.requests[0].path.startswith("/agents/counter/ann%2Fb?_pk=")


async def test_every_client_has_the_state_once_set_state_returns() -> None:
    async with fake_agent() as agent, counter(agent) as me, counter(agent) as other:
        told: list[Any] = []
        forget = other.on_state_changed(told.append)
        await patiently(me.set_state({"count": 1}))
        assert me.state == agent.state == {"count": 1}
        await patiently(other.connection.until(lambda: other.state == {"count": 1}))
        assert told[-1] == {"count": 1}
        forget()
        await patiently(me.set_state(None))
        await patiently(other.connection.until(lambda: other.state is None))
        assert told[-1] == {"count": 1}


async def test_an_async_callback_is_run_with_the_new_state() -> None:
    told: asyncio.Queue[Any] = asyncio.Queue()
    async with fake_agent() as agent, counter(agent) as me:
        await back(me)
        me.on_state_changed(told.put)
        await agent.say({"type": "cf_agent_state", "state": 7})
        assert await patiently(told.get()) == 7


async def test_states_yields_the_newest_state_to_a_slow_reader() -> None:
    async with fake_agent() as agent, counter(agent) as me:
        async with aclosing(me.states()) as states:
            assert await patiently(anext(states)) == {"count": 0}
            for number in range(1, 4):
                await agent.say({"type": "cf_agent_state", "state": number})
            await patiently(me.connection.until(lambda: me.state == 3))
            assert await patiently(anext(states)) == 3


async def test_a_refused_state_raises_and_is_undone() -> None:
    async with fake_agent() as agent, counter(agent) as me:
        await back(me)
        with pytest.raises(StateRefused, match="State update rejected"):
            await patiently(me.set_state("bad"))
        assert me.state == agent.state == {"count": 0}


async def test_a_state_sent_on_a_lost_socket_is_sent_again_on_the_next() -> None:
    async with fake_agent() as agent, counter(agent) as me:
        await back(me)
        agent.is_deaf = True
        setting = asyncio.create_task(me.set_state({"count": 5}))
        await agent.until_heard(2)
        agent.is_deaf = False
        await agent.drop()
        await patiently(setting)
        assert agent.state == {"count": 5}


async def test_a_call_returns_its_result() -> None:
    async with fake_agent() as agent, counter(agent) as me:
        assert await patiently(me.call("add", 1, 2)) == 3
        assert await patiently(me.call("old_add", 3, 4)) == 7


async def test_a_failed_call_raises_the_agents_error_text() -> None:
    async with fake_agent() as agent, counter(agent) as me:
        with pytest.raises(CallFailed, match="Method nothing does not exist"):
            await patiently(me.call("nothing"))


async def test_a_call_that_takes_too_long_times_out() -> None:
    async with fake_agent() as agent, counter(agent) as me:
        with pytest.raises(TimeoutError):
            await patiently(me.call("hang", timeout=0.01))
        assert await patiently(me.call("add", 1)) == 1


@pytest.mark.parametrize(("last", "yielded"), [(None, [0, 1, 2]), ("sum", [0, 1, 2, "sum"])])
async def test_a_streaming_call_yields_what_it_sends(last: Any, yielded: list[Any]) -> None:
    async with fake_agent() as agent, counter(agent) as me:
        assert [each async for each in me.stream("count", 3, last)] == yielded


async def test_a_streaming_call_that_fails_raises_after_its_chunks() -> None:
    async with fake_agent() as agent, counter(agent) as me:
        async with aclosing(me.stream("break")) as stream:
            assert await patiently(anext(stream)) == 0
            with pytest.raises(CallFailed, match="it broke"):
                await patiently(anext(stream))


async def test_a_call_is_not_sent_again_after_its_connection_was_lost() -> None:
    async with fake_agent() as agent, counter(agent) as me:
        calling = asyncio.create_task(me.call("hang"))
        await agent.until_heard(1)
        await agent.drop()
        with pytest.raises(ConnectionLost, match="unable to get the result of hang"):
            await patiently(calling)
        await back(me)
        assert await patiently(me.call("add", 2)) == 2
        assert agent.calls == ["hang", "add"]


async def test_frames_and_calls_without_a_connection_wait_for_one() -> None:
    clock = ManualClock()
    async with fake_agent() as agent, counter(agent, clock=clock) as me:
        await agent.drop()
        await patiently(me.connection.until(lambda: not me.is_connected))
        calling = asyncio.create_task(me.call("add", 4, 5))
        await me.send({"type": "hello"})
        assert agent.frames == []
        clock.advance(60)
        assert await patiently(calling) == 9
        assert {frame["type"] for frame in agent.frames} == {"hello", "rpc"}


async def test_frames_of_the_application_reach_messages() -> None:
    async with fake_agent() as agent, counter(agent) as me:
        async with aclosing(me.messages()) as frames:
            first = asyncio.create_task(anext(frames))
            await back(me)
            await agent.say({"type": "news", "text": "hi"})
            await agent.say("plain text")
            assert await patiently(first) == {"type": "news", "text": "hi"}
            assert await patiently(anext(frames)) == "plain text"


async def test_reconnects_keep_the_clients_id_and_ask_for_fresh_fields() -> None:
    tokens = iter(["one", "two"])

    async def query() -> dict[str, str]:
        return {"token": next(tokens)}

    async with fake_agent() as agent, counter(agent, query=query, headers={"x-me": "ann"}) as me:
        await agent.drop()
        await patiently(me.connection.until(lambda: len(agent.requests) == 2 and me.is_connected))
        first, second = agent.queries()
        assert first["_pk"] == second["_pk"]
        assert (first["token"], second["token"]) == (["one"], ["two"])
        assert agent.requests[1].headers["x-me"] == "ann"


@pytest.mark.parametrize("status", [1008, 4001, 4403, 4999])
async def test_a_terminal_close_raises_the_servers_reason(status: int) -> None:
    async with fake_agent() as agent:
        agent.close_with = (status, "you may not")
        with pytest.raises(TurnedAway, match="you may not") as raised:
            async with counter(agent):
                raise AssertionError("it is not let in")
        assert raised.value.status == status
        assert len(agent.requests) == 1


async def test_a_later_terminal_close_raises_in_everything_that_waits() -> None:
    async with fake_agent() as agent, counter(agent) as me:
        calling = asyncio.create_task(me.call("hang"))
        await agent.until_heard(1)
        await agent.sockets[0].close(4001, "banned")
        with pytest.raises((TurnedAway, ConnectionLost)):
            await patiently(calling)
        with pytest.raises(TurnedAway, match="banned"):
            await patiently(me.call("add", 1))
        assert len(agent.requests) == 1


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_a_refused_upgrade_raises(status: int) -> None:
    async with fake_agent() as agent:
        agent.reject = status
        with pytest.raises(TurnedAway, match="not you") as raised:
            async with counter(agent):
                raise AssertionError("it is not let in")
        assert raised.value.status == status


@pytest.mark.parametrize("status", [1000, 1001, 1011, 1012, 1013])
async def test_every_other_close_is_followed_by_a_reconnect(status: int) -> None:
    async with fake_agent() as agent, counter(agent) as me:
        await back(me)
        await agent.sockets[0].close(status, "soon")
        await patiently(me.connection.until(lambda: len(agent.requests) == 2 and me.is_connected))
        assert await patiently(me.call("add", 1, 1)) == 2


async def test_reconnects_wait_longer_each_time_by_the_given_clock() -> None:
    clock = ManualClock()
    backoff = Backoff(first=1.0, factor=2.0, most=3.0)
    async with fake_agent() as agent, counter(agent, clock=clock, backoff=backoff, random=lambda: 1.0) as me:
        for number, delay in enumerate([1000, 2000, 3000, 3000], start=2):
            await agent.drop()
            await patiently(me.connection.until(lambda: not me.is_connected))
            await slept(clock)
            clock.advance((delay - 1) / 1000)
            await slept(clock)
            assert len(agent.requests) == number - 1
            clock.advance(0.001)
            await back(me)
            assert len(agent.requests) == number


async def slept(clock: ManualClock) -> None:
    """Wait until a task sleeps on the clock."""
    async with asyncio.timeout(20):
        while not clock._sleepers:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0)


async def test_a_closed_client_raises() -> None:
    async with fake_agent() as agent:
        async with counter(agent) as me:
            calling = asyncio.create_task(me.call("hang"))
            await agent.until_heard(1)
        with pytest.raises(ClientError):
            await patiently(calling)
        with pytest.raises(ClientError, match="the client is closed"):
            await patiently(me.call("add", 1))


class SlowToStop:
    """A socket that is lost while something is being sent; what sends takes its time to notice."""

    close_code, close_reason = 1006, ""

    def __init__(self) -> None:
        self.sending, self.lost, self.is_stopped = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.stopping = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[str]:
        yield '{"type": "cf_agent_identity", "name": "default", "agent": "fake"}'
        await self.lost.wait()

    async def send(self, frame: str) -> None:
        self.sending.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.stopping.set()
            await self.is_stopped.wait()

    async def close(self) -> None:
        pass


async def test_a_client_that_is_closed_while_its_socket_is_lost_stays_closed() -> None:
    sockets: list[SlowToStop] = []

    async def connect(url: str, headers: Any) -> SlowToStop:
        sockets.append(SlowToStop())
        return sockets[-1]

    client = AgentClient("http://nowhere", "fake", connect=connect, backoff=QUICK)
    await client.connection.open()
    calling = asyncio.create_task(client.call("anything"))
    await sockets[0].sending.wait()
    sockets[0].lost.set()
    await sockets[0].stopping.wait()
    closing = asyncio.create_task(client.aclose())
    await asyncio.sleep(0)
    sockets[0].is_stopped.set()
    async with asyncio.timeout(20):
        await closing
    assert len(sockets) == 1
    with pytest.raises(ClientError):
        await calling
