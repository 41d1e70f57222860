"""Who is connected to a conversation, across nodes: clients of each node are told of those of the others."""

from __future__ import annotations

import asyncio

import pytest

from tests.nodes.serving import running_nodes
from tests.server.sockets import Socket, socket
from tests.timeouts import PATIENCE

pytestmark = pytest.mark.crash


async def until_here(tab: Socket, *principals: str) -> bool:
    """Wait until a client is told that these are connected."""
    here = [{"id": each, "name": None} for each in principals]
    await tab.until(lambda frame: frame["type"] == "everyword_presence" and frame["principals"] == here)
    return True


async def test_clients_of_two_nodes_see_each_other(postgres_url: str) -> None:
    async with (
        asyncio.timeout(PATIENCE),
        running_nodes(postgres_url, "one", "two", lease=600) as (one, two),
        socket(one.url, "?user=ann&presence=1") as ann,
    ):
        assert await until_here(ann, "ann")
        async with socket(two.url, "?user=bob&presence=1") as bob:
            assert await until_here(bob, "ann", "bob")
            assert await until_here(ann, "ann", "bob")
        assert await until_here(ann, "ann")


async def test_after_the_owner_is_killed_those_are_here_that_still_are(postgres_url: str) -> None:
    async with (
        asyncio.timeout(PATIENCE),
        running_nodes(postgres_url, "one", "two") as (one, two),
        socket(one.url, "?user=ann&presence=1") as ann,
        socket(two.url, "?user=bob&presence=1") as bob,
    ):
        assert await until_here(ann, "ann")
        assert await until_here(bob, "ann", "bob")
        await one.kill()
        assert await until_here(bob, "bob")
        async with socket(two.url, "?user=ann&presence=1") as again:
            assert await until_here(again, "bob", "ann")
            assert await until_here(bob, "bob", "ann")
