"""The inbox across nodes: any node lists a call, live too, and takes answers to it; of two at once, one counts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx
import pytest

from everyword import Everyword
from everyword.server.node_settings import NodeSettings
from tests.server.kit import connect, serving
from tests.server.sockets import socket
from tests.server.test_lists import Till, by_header, live, own_names, said, user
from tests.timeouts import PATIENCE

pytestmark = pytest.mark.crash


@asynccontextmanager
async def two_nodes(store: str) -> AsyncIterator[tuple[Everyword, httpx.AsyncClient, httpx.AsyncClient]]:
    """Run two nodes in this process; yield the app of the first, which owns what is asked there, and their clients."""
    Till.paid = []
    async with asyncio.timeout(PATIENCE), AsyncExitStack() as stack:
        apps, clients = [], []
        for name in ("owner", "other"):
            node = NodeSettings(name=name, lease=600)
            app = Everyword([Till], store=store, node=node, authenticate=by_header, authorize=own_names)
            clients.append(await stack.enter_async_context(connect(await stack.enter_async_context(serving(app)))))
            await app.start()
            apps.append(app)
        yield apps[0], *clients


async def test_of_answers_at_two_nodes_one_counts(postgres_url: str) -> None:
    async with two_nodes(postgres_url) as (owner, here, there), live(there, "/approvals?scope=all", "boss") as inbox:
        assert (await anext(inbox))["approvals"] == []
        await said(owner, "ann-1", "pay", "ann", Till)
        (waits,) = (await anext(inbox))["approvals"]
        assert (waits["name"], waits["input"], waits["approvers"], waits["mayAnswer"]) == (
            *("ann-1", {"amount": 5}, ["boss"], True),
        )
        path = f"/approvals/{waits['id']}"
        for client in (here, there):
            refused = await client.post(path, headers=user("ann"), json={"approved": True})
            assert (refused.status_code, "only boss" in refused.text) == (403, True)
        answers = await asyncio.gather(
            *(client.post(path, headers=user("boss"), json={"approved": True}) for client in (here, there) * 3)
        )
        assert sorted(each.status_code for each in answers) == [200, *[409] * 5]
        assert (await anext(inbox))["approvals"] == []
        await owner.get(Till, "ann-1").wait_until_stable()
        assert Till.paid == [5]


async def test_a_socket_at_another_node_obeys_the_approvers(postgres_url: str) -> None:
    async with two_nodes(postgres_url) as (owner, _, there):
        await said(owner, "ann-1", "pay", "ann", Till)
        for who, paid in (("ann", []), ("boss", [5])):
            async with socket(str(there.base_url), f"?user={who}", "ann-1", kind="till") as page:
                await page.send(type="cf_agent_tool_approval", toolCallId="k1", approved=True, autoContinue=True)
                await page.settled()
                assert bool((await owner.approvals.list()).approvals) == (not paid)
                if paid:
                    await owner.get(Till, "ann-1").wait_until_stable()
                    await page.settled()
            assert Till.paid == paid
