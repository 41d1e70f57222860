"""Notifications of several nodes: clients of each node count as watching, and a killed owner's jobs are taken over."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.nodes.serving import NodeProcess, running_nodes
from tests.server.kit import question
from tests.server.receivers import Receiver
from tests.server.sockets import socket
from tests.timeouts import PATIENCE

pytestmark = pytest.mark.crash


async def ask(http: httpx.AsyncClient, node: NodeProcess, name: str, number: int) -> None:
    """Ask, and read the answer to its end."""
    posted = question(f"u{number}", "one two")
    answer = await http.post(f"{node.url}/agents/chat/{name}/chat?user=ann", json=posted)
    assert answer.status_code == 200, answer.text


async def until_alone(http: httpx.AsyncClient, node: NodeProcess, name: str) -> None:
    """Wait until no principal is connected."""
    who: list[object] = [""]
    while who:
        who = (await http.get(f"{node.url}/agents/chat/{name}/presence?user=ann")).json()["principals"]


async def test_a_client_of_another_node_counts_as_watching(postgres_url: str) -> None:
    async with (
        asyncio.timeout(PATIENCE),
        Receiver() as receiver,
        running_nodes(postgres_url, "one", "two", lease=600, webhook=receiver.url) as (one, two),
        httpx.AsyncClient(timeout=PATIENCE, verify=False) as http,
    ):
        await ask(http, one, "room", 1)  # now it is the owner
        (alone,) = await receiver.until(1)
        async with socket(two.url, "?user=bob", "room") as bob:
            await bob.greeted()
            await ask(http, one, "room", 2)
            await ask(http, one, "other", 3)
            await receiver.until(2)  # the look at the room came first
        await until_alone(http, two, "room")
        await ask(http, two, "room", 4)
        names = [each.said["data"]["name"] for each in await receiver.until(3)]
        assert names == ["room", "other", "room"]
        assert alone.is_signed_by()


async def test_another_node_tells_what_a_killed_owner_had_to_tell(postgres_url: str) -> None:
    receiver = Receiver()
    async with (
        asyncio.timeout(PATIENCE),
        running_nodes(postgres_url, "one", "two", webhook=receiver.url) as (one, two),
        httpx.AsyncClient(timeout=PATIENCE, verify=False) as http,
    ):
        await ask(http, one, "room", 1)
        await one.kill()
        async with receiver:  # it was down as long as the first owner lived
            (first, *_) = await receiver.until(1)
            await ask(http, two, "room", 2)
            told = await receiver.until(2)
            assert len({each.id for each in told}) == 2
            assert first.said["data"]["preview"]
            assert all(each.is_signed_by() for each in told)
