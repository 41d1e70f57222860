"""The database fails and comes back: the node refuses in one sentence, loses nothing, and continues by itself."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import httpx
import pytest

from everyword.agents import AIChatAgent, Turn
from everyword.client import ChatClient
from everyword.client.backoff import Backoff
from everyword.errors import LogUnavailable
from everyword.log.postgres.store import PostgresLog
from everyword.server import Everyword
from everyword.server.node_settings import NodeSettings
from tests.nodes.test_health import until_healthy
from tests.postgres.server import OwnPostgres, StopMode
from tests.server.kit import connect, question, serving
from tests.timeouts import PATIENCE

WORDS = [f"word{number} " for number in range(20)]
LEASE = 1.5


class Chat(AIChatAgent):
    """Says its words; in the first attempt, it stops in the middle until it is told to go on."""

    max_attempts = 1000
    go_on: ClassVar[asyncio.Event]

    async def on_chat_message(self, turn: Turn) -> Any:
        said = self.messages[-1].text if self.messages[-1].role == "assistant" else ""
        for number, word in enumerate(WORDS):
            if len("".join(WORDS[:number])) < len(said):
                continue
            if number == len(WORDS) // 2:
                await self.go_on.wait()
            yield word


@dataclass
class Node:
    """A node of its own in the test's loop, and a client in the middle of an answer."""

    url: str
    http: httpx.AsyncClient
    client: ChatClient

    async def is_refused(self) -> str:
        """Ask until it is refused; return the sentence."""
        async with asyncio.timeout(PATIENCE):
            while True:
                answer = await self.http.post("/agents/chat/other/chat", json=question("u9"))
                if answer.status_code == 503:
                    return answer.text

    async def finishes(self, postgres: OwnPostgres) -> None:
        """The answer is completed in the same message, the turn ends once, and the next question works."""
        Chat.go_on.set()
        async with asyncio.timeout(PATIENCE):
            await self.client.connection.until(lambda: self.client.status == "ready" and len(self.client.messages) == 2)
            assert self.client.messages[1].text == "".join(WORDS)
            assert (await self.client.send("again")).text == "".join(WORDS)
        connection = await postgres.connect("everyword")
        try:
            turns = await connection.fetch("select kind, count(*) from event where kind like 'turn.%' group by 1")
            assert all(count % 2 == 0 for _, count in turns)
        finally:
            await connection.close()


@asynccontextmanager
async def in_an_answer(store: str) -> AsyncIterator[Node]:
    Chat.go_on = asyncio.Event()
    app = Everyword([Chat], store=store, node=NodeSettings(lease=LEASE))
    app.grace = 0.0
    async with serving(app) as url, connect(url) as http:
        async with ChatClient(url, "chat", "a", backoff=Backoff(first=0.05, most=0.5)) as client:
            client.send("hello")
            await client.connection.until(lambda: len(client.messages) == 2 and "word9" in client.messages[1].text)
            yield Node(url, http, client)


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_restart_interrupts_no_answer(own_postgres: OwnPostgres, mode: StopMode) -> None:
    async with in_an_answer(own_postgres.url) as node:
        await own_postgres.stop(mode)
        assert "unable to" in await node.is_refused()
        assert (await until_healthy(node.http, False)).json()["status"] == "failing"
        await own_postgres.start()
        await until_healthy(node.http, True)
        await node.finishes(own_postgres)


async def execute(postgres: OwnPostgres, statement: str) -> None:
    connection = await postgres.connect("everyword")
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def limited_role(postgres: OwnPostgres) -> str:
    """Make a role whose connections can be limited while it is used; return the URL of its store."""
    await execute(postgres, "create role app login; grant create on database everyword to app")
    return postgres.url.replace("everyword@", "app@")


async def test_a_database_without_free_connections_interrupts_no_answer(
    own_postgres: OwnPostgres, caplog: pytest.LogCaptureFixture
) -> None:
    async with in_an_answer(await limited_role(own_postgres)) as node:
        await execute(own_postgres, "alter role app connection limit 0")
        await execute(own_postgres, "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'app'")
        assert "unable to" in await node.is_refused()
        await until_healthy(node.http, False)
        warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        assert any("Raise max_connections: a node uses up to 9 connections" in each for each in warned)
        await execute(own_postgres, "alter role app connection limit -1")
        await until_healthy(node.http, True)
        await node.finishes(own_postgres)


async def test_a_node_that_finds_no_free_connection_starts_when_there_is_one(own_postgres: OwnPostgres) -> None:
    url = await limited_role(own_postgres)
    await execute(own_postgres, "alter role app connection limit 0")
    with pytest.raises(LogUnavailable, match=r"too many connections.*Raise max_connections"):
        await PostgresLog(url, patience=0).open()
    store = PostgresLog(url, patience=PATIENCE)
    opening = asyncio.create_task(store.open())
    await execute(own_postgres, "alter role app connection limit -1")
    await opening
    assert await store.agents() == []
    await store.aclose()


FULL_DISK = """
create function full_disk() returns trigger language plpgsql as $$
begin
  raise exception 'could not extend file "base/16384/16405": No space left on device' using errcode = '53100';
end $$;
create trigger full_disk before insert on event for each row execute function full_disk();
"""

NO_HEARTBEAT = "create trigger full_disk before update on node for each row execute function full_disk()"


@pytest.mark.parametrize("has_heartbeat", [True, False])
async def test_a_full_disk_interrupts_no_answer(
    own_postgres: OwnPostgres, has_heartbeat: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The database refuses as it does when its disk is full; a heartbeat changes a row in its place, and may work."""
    async with in_an_answer(own_postgres.url) as node:
        await execute(own_postgres, FULL_DISK)
        assert "unable to" in await node.is_refused()
        if not has_heartbeat:
            await execute(own_postgres, NO_HEARTBEAT)
            await until_healthy(node.http, False)
        said = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
        assert any("No space left on device" in each for each in said)
        Chat.go_on.set()
        await execute(own_postgres, "drop function full_disk cascade")
        await until_healthy(node.http, True)
        await node.finishes(own_postgres)
