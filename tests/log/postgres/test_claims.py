"""Agents that are claimed and given back: each wake time has a node that knows it, also when an answer is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import asyncpg
import pytest

from everyword.errors import LogUnavailable
from everyword.ids import AgentId, Millis
from everyword.log.nodes import NodeMembership
from everyword.log.postgres.store import PostgresLog
from tests.log.building import A, Owner, fact
from tests.log.postgres.takeover import opened_node

FOREVER = Millis(2**60)
CHILD = AgentId(f"{A}/sub/kid/x")


def nodes_of(store: PostgresLog) -> NodeMembership:
    assert store.nodes is not None
    return store.nodes


async def leave_due(store: PostgresLog) -> None:
    """Leave an agent and one below it without an owner; both are to be woken."""
    for agent, wake in ((A, 5), (CHILD, 9)):
        await (await Owner.take(store, agent)).append(fact("first"), wake=Millis(wake))
    await nodes_of(store).release([A])


@contextmanager
def lost_answers(function: str) -> Iterator[list[str]]:
    """Let the connection end after calls of a function of the database have been committed."""
    lost: list[str] = []

    def losing(method: Any) -> Any:
        async def call(self: asyncpg.Connection, query: str, *values: Any, **options: Any) -> Any:
            result = await method(self, query, *values, **options)
            if function in query:
                lost.append(query)
                self.terminate()
                raise ConnectionResetError("the answer is lost")
            return result

        return call

    names = "fetch", "fetchrow", "execute"
    changed = {name: losing(getattr(asyncpg.Connection, name)) for name in names}
    with patch.multiple(asyncpg.Connection, **changed):
        yield lost
    assert len(lost) == 1


async def test_what_was_claimed_can_be_given_back(postgres_url: str) -> None:
    async with opened_node(postgres_url) as one, opened_node(postgres_url) as two:
        await leave_due(one)
        assert await nodes_of(one).claim(FOREVER) == [(A, 5), (CHILD, 9)]
        assert await nodes_of(two).claim(FOREVER) == []
        await nodes_of(one).release([A])
        assert await nodes_of(two).claim(FOREVER) == [(A, 5), (CHILD, 9)]


async def test_a_claim_whose_answer_was_lost_is_made_up_for(postgres_url: str) -> None:
    async with opened_node(postgres_url) as one:
        await leave_due(one)
        with lost_answers("claim_1"), pytest.raises(LogUnavailable):
            await nodes_of(one).claim(FOREVER)
        assert await nodes_of(one).claim(FOREVER) == [(A, 5), (CHILD, 9)]
        assert await nodes_of(one).claim(FOREVER) == []


async def test_an_activation_whose_answer_was_lost_still_brings_the_wake_times(postgres_url: str) -> None:
    async with opened_node(postgres_url) as one:
        await leave_due(one)
        with lost_answers("activate_1"), pytest.raises(LogUnavailable):
            await one.activate(A)
        assert sorted((await one.activate(A)).wakes) == [(A, 5), (CHILD, 9)]
        assert (await one.activate(CHILD)).wakes == []


async def test_agents_that_were_taken_without_an_answer_are_woken_all_the_same(
    postgres_url: str,
) -> None:
    async with opened_node(postgres_url) as one:
        await leave_due(one)
        with lost_answers("activate_1"), pytest.raises(LogUnavailable):
            await one.activate(A)
        assert await nodes_of(one).claim(FOREVER) == [(A, 5), (CHILD, 9)]
        assert await nodes_of(one).claim(FOREVER) == []


async def test_what_may_not_have_been_given_back_is_given_back_at_the_next_attempt(postgres_url: str) -> None:
    async with opened_node(postgres_url) as one, opened_node(postgres_url) as two:
        await leave_due(one)
        await one.activate(A)

        async def refuse(*_: Any) -> None:
            raise ConnectionResetError("the call did not get through")

        with patch.object(asyncpg.Connection, "execute", refuse), pytest.raises(LogUnavailable):
            await nodes_of(one).release([A])
        assert await nodes_of(two).claim(FOREVER) == []
        await nodes_of(one).release([A])
        assert await nodes_of(two).claim(FOREVER) == [(A, 5), (CHILD, 9)]
