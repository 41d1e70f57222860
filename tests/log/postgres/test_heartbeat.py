"""The heartbeat of a node goes on, whatever hangs or fails: nothing else takes a new lease."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from everyword.log.postgres.node_lease import NodeLease
from everyword.log.postgres.store import PostgresLog
from tests.log.postgres.takeover import opened_node
from tests.postgres.server import Postgres
from tests.tcp_proxy import TcpProxy
from tests.timeouts import PATIENCE

LEASE = 1.0

DEAD_NODE = """
insert into node (name, url, version, state, until) values ('dead', '', 1, 'up', clock_timestamp()) returning id
"""


class Warnings(logging.Handler):
    """Waits for what the heartbeat says."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said, self._more = list[str](), asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())
        self._more.set()

    async def until(self, words: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while not any(words in each for each in self.said):
                self._more.clear()
                await self._more.wait()


@asynccontextmanager
async def warnings() -> AsyncIterator[Warnings]:
    handler, logger = Warnings(), logging.getLogger("everyword.nodes")
    logger.addHandler(handler)
    try:
        yield handler
    finally:
        logger.removeHandler(handler)


async def valid(store: PostgresLog) -> None:
    assert store.nodes is not None
    async with asyncio.timeout(PATIENCE):
        while not store.nodes.is_valid:
            await store.agents()


async def test_an_answer_that_never_comes_while_another_node_is_declared_gone(
    postgres_server: Postgres, postgres_url: str
) -> None:
    schema = postgres_url.rpartition("schema=")[2]
    async with TcpProxy(postgres_server.address) as proxy, warnings() as heard:
        async with opened_node(f"{proxy.url(postgres_server.tcp_url)}?schema={schema}", LEASE) as store:
            other, watcher = await postgres_server.connect(schema), await postgres_server.connect(schema)
            async with other.transaction():
                dead = await watcher.fetchval(DEAD_NODE)
                await watcher.execute("insert into fence (node, lane) values ($1, 0)", dead)
                await other.execute("select from fence where node = $1 for update", dead)
                await until_waiting(watcher)
                await proxy.swallow("to_client")
                heard.said.clear()
                await heard.until("unable to renew the lease of this node; trying again: the database did not answer")
            await proxy.restore()
            await valid(store)
            assert store.nodes is not None and store.nodes.live
            await other.close()
            await watcher.close()


async def until_waiting(watcher: Any) -> None:
    """Wait until a node waits for the writes of another one that it declares gone."""
    question = (
        "select count(*) from pg_stat_activity where query like '%declare_gone%' and wait_event_type = 'Lock' "
        "and query like $1"
    )
    schema = await watcher.fetchval("show search_path")
    async with asyncio.timeout(PATIENCE):
        while not await watcher.fetchval(question, f"%{schema}%"):
            pass


async def test_an_error_that_nothing_expects(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    renew = NodeLease._renew
    failures = [RuntimeError("a bug")]

    async def fail_once(self: NodeLease) -> float:
        if failures:
            raise failures.pop()
        return await renew(self)

    async with warnings() as heard, opened_node(postgres_url, LEASE) as store:
        monkeypatch.setattr(NodeLease, "_renew", fail_once)
        await heard.until("unable to renew the lease of this node; trying again: a bug")
        await valid(store)
    assert failures == []
