"""Several nodes, each a process, over one store: clients of any node see the same, whatever happens to a node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import asyncpg
import httpx
import pytest

from everyword.client import AgentClient, ChatClient
from everyword.log.postgres.address import DatabaseAddress
from tests.nodes.serving import NodeProcess, running_nodes
from tests.timeouts import PATIENCE

pytestmark = pytest.mark.crash

WORDS = " ".join(f"word{n}" for n in range(20))


async def until(fact: Callable[[], bool], client: ChatClient) -> None:
    async with asyncio.timeout(PATIENCE):
        await client.connection.until(fact)


async def look(store: str, question: str) -> list[Any]:
    """Query the database directly."""
    address = DatabaseAddress.parse(store)
    connection = await asyncpg.connect(address.dsn)
    try:
        return [tuple(row) for row in await connection.fetch(question.replace("everyword.", f'"{address.schema}".'))]
    finally:
        await connection.close()


def texts(client: ChatClient) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in client.messages]


def half_said(client: ChatClient) -> Callable[[], bool]:
    return lambda: bool(client.messages) and "word9" in client.messages[-1].text


async def process_of(node: NodeProcess, name: str = "a") -> int:
    """Ask an agent, through this node, in which process it lives."""
    async with AgentClient(node.url, "chat", name) as client:
        pid: int = await client.call("process")
        return pid


ANSWERED = [("user", WORDS), ("assistant", f"{WORDS} ")]


async def test_clients_of_two_nodes_see_the_same_turn(postgres_url: str) -> None:
    async with (
        running_nodes(postgres_url, "one", "two") as (one, two),
        ChatClient(one.url, "chat", "a") as owner,
        ChatClient(two.url, "chat", "a") as watcher,
    ):
        await owner.send(WORDS)
        await until(lambda: texts(watcher) == ANSWERED, watcher)
        reply = await watcher.send("one more")
        assert reply.text == "one more "
        await until(lambda: texts(owner) == texts(watcher), owner)
        assert await process_of(one) == await process_of(two) == one.pid


async def test_a_killed_nodes_turn_goes_on_and_watchers_elsewhere_see_its_end(postgres_url: str) -> None:
    async with running_nodes(postgres_url, "one", "two") as (one, two):
        async with ChatClient(one.url, "chat", "a") as asker, ChatClient(two.url, "chat", "a") as watcher:
            asker.send(WORDS, body={"hold": 1})
            await until(half_said(watcher), watcher)
            await one.kill()
            await until(lambda: texts(watcher) == ANSWERED, watcher)
        assert await process_of(two) == two.pid
        ends = await look(
            postgres_url, "select kind, count(*) from everyword.event where kind = 'turn.ended' group by 1"
        )
        assert ends == [("turn.ended", 1)]


async def test_a_node_that_is_told_to_stop_hands_its_agents_over(postgres_url: str) -> None:
    """The lease is long: what goes on soon was handed over."""
    async with running_nodes(postgres_url, "one", "two", lease=600) as (one, two), AsyncExitStack() as stack:
        asker = await stack.enter_async_context(ChatClient(one.url, "chat", "a"))
        watcher = await stack.enter_async_context(ChatClient(two.url, "chat", "a"))
        idle = await stack.enter_async_context(AgentClient(one.url, "chat", "idle"))
        assert (await idle.call("count"), await idle.call("process")) == (1, one.pid)
        asker.send(WORDS, body={"hold": 1})
        await until(half_said(watcher), watcher)
        await one.stop()
        await until(lambda: texts(watcher) == ANSWERED, watcher)
        async with AgentClient(two.url, "chat", "idle") as moved:
            assert (await moved.call("count"), await moved.call("process")) == (2, two.pid)


async def test_a_node_that_was_paused_writes_nothing_and_shows_nothing_old(postgres_url: str) -> None:
    async with running_nodes(postgres_url, "one", "two") as (one, two):
        async with ChatClient(one.url, "chat", "a") as asker, ChatClient(two.url, "chat", "a") as watcher:
            asker.send(WORDS, body={"hold": 1})
            await until(half_said(watcher), watcher)
            one.pause()
            await until(lambda: texts(watcher) == ANSWERED, watcher)
            before = await look(postgres_url, "select agent, seq, epoch, kind from everyword.event order by 1, 2")
            one.resume()
            await until(lambda: texts(asker) == ANSWERED, asker)
            assert await process_of(one) == two.pid, "it relays now"
            after = await look(postgres_url, "select agent, seq, epoch, kind from everyword.event order by 1, 2")
            assert after == before
        epochs = await look(postgres_url, "select epoch from everyword.event order by seq")
        assert epochs == sorted(epochs) and len(set(epochs)) == 2


async def test_state_calls_and_pages_work_through_any_node(postgres_url: str) -> None:
    async with (
        running_nodes(postgres_url, "one", "two") as (one, two),
        AgentClient(one.url, "chat", "a") as here,
        AgentClient(two.url, "chat", "a") as there,
        httpx.AsyncClient() as http,
    ):
        assert [await here.call("count"), await there.call("count"), await here.call("count")] == [1, 2, 3]
        await there.connection.until(lambda: there.state == {"count": 3})
        posted = {"id": "q", "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": WORDS}]}]}
        answer = await http.post(f"{two.url}/agents/chat/a/chat", json=posted)
        assert answer.status_code == 200 and "word19" in answer.text and "[DONE]" in answer.text
        pages = [(await http.get(f"{node.url}/agents/chat/a/get-messages")).json() for node in (one, two)]
        assert pages[0] == pages[1] and len(pages[0]) == 2


async def test_a_schedule_of_a_node_that_died_runs_once_elsewhere(postgres_url: str) -> None:
    async with running_nodes(postgres_url, "one", "two") as (one, two):
        async with AgentClient(one.url, "chat", "a") as client:
            await client.call("wake_in", 0.2)
        await one.kill()
        async with AgentClient(two.url, "chat", "a") as client, asyncio.timeout(PATIENCE):
            await client.connection.until(lambda: (client.state or {}).get("woken") == 1)
            assert client.state["by"] == "schedule"
        started = await look(postgres_url, "select count(*) from everyword.event where kind = 'job.started'")
        assert started == [(1,)]
