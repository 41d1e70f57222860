"""Agents that are loaded at the same time are loaded by few calls, and each has its own result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from everyword.errors import LogUnavailable, OwnedElsewhere
from everyword.ids import AgentId
from everyword.log.base import Activation
from everyword.log.postgres.store import PostgresLog
from everyword.log.postgres.writer import MOST_SHARED
from tests.log.building import Owner, fact
from tests.log.postgres.takeover import LEASE

AGENTS = [AgentId(f"chat/{number:02}") for number in range(40)]


class CountingLog(PostgresLog):
    """Notes how many agents each call loads."""

    def __init__(self, url: str) -> None:
        super().__init__(url, lease=LEASE)
        self.calls: list[int] = []

    async def _take(self, connection: Any, fence: Any, requests: Sequence[Any]) -> Any:
        self.calls.append(len(requests))
        return await super()._take(connection, fence, requests)


@asynccontextmanager
async def two_nodes(url: str) -> AsyncIterator[tuple[CountingLog, CountingLog]]:
    first, second = CountingLog(url), CountingLog(url)
    await first.open()
    await second.open()
    try:
        yield first, second
    finally:
        await first.aclose()
        await second.aclose()


async def taken(store: PostgresLog, agents: Sequence[AgentId]) -> list[Activation | BaseException]:
    return await asyncio.gather(*(store.activate(agent) for agent in agents), return_exceptions=True)


async def test_each_agent_of_a_call_has_its_own_result(postgres_url: str) -> None:
    async with two_nodes(postgres_url) as (first, second):
        for agent in AGENTS[:3]:
            owner = await Owner.take(first, agent)
            await owner.append(*(fact(f"{number}") for number in range(AGENTS.index(agent) + 1)))
        assert first.nodes is not None
        await first.nodes.release(AGENTS[:2])
        found = await taken(second, AGENTS[::-1])
        assert sum(second.calls) == len(AGENTS) and max(second.calls) == MOST_SHARED
        by_agent = dict(zip(AGENTS[::-1], found, strict=True))
        elsewhere = by_agent.pop(AGENTS[2])
        assert isinstance(elsewhere, OwnedElsewhere) and elsewhere.node == first.nodes.incarnation
        heads = {agent: each.head for agent, each in by_agent.items() if isinstance(each, Activation)}
        assert heads == {agent: 0 for agent in AGENTS if agent != AGENTS[2]} | {AGENTS[0]: 1, AGENTS[1]: 2}
        await Owner(second, AGENTS[1], by_agent[AGENTS[1]]).append(fact("next"))  # type: ignore[arg-type]


async def test_a_request_that_the_database_refuses_fails_alone(postgres_url: str) -> None:
    bad = AgentId("chat/\x00")
    async with two_nodes(postgres_url) as (first, _):
        found = await taken(first, [AGENTS[0], bad, AGENTS[1]])
        assert [type(each) for each in found] == [Activation, LogUnavailable, Activation]
        assert first.calls[-4:] == [3, 1, 1, 1] or first.calls == [1, 2, 1, 1]


async def test_two_nodes_that_take_the_same_agents_both_get_answers(postgres_url: str) -> None:
    async with two_nodes(postgres_url) as (first, second):
        found = await asyncio.gather(taken(first, AGENTS), taken(second, AGENTS[::-1]))
        results = [[type(each) for each in found[0]], [type(each) for each in found[1]][::-1]]
        for pair in zip(*results, strict=True):
            assert set(pair) == {Activation, OwnedElsewhere}


@pytest.mark.parametrize("count", [1, MOST_SHARED, MOST_SHARED + 1])
async def test_no_call_loads_more_than_its_most(postgres_url: str, count: int) -> None:
    async with two_nodes(postgres_url) as (first, _):
        await taken(first, AGENTS[:count])
        assert sum(first.calls) == count and max(first.calls) <= MOST_SHARED
