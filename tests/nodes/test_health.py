"""The health check of a node: a load balancer learns that it has no lease, without a wait for the database."""

from __future__ import annotations

import asyncio

import httpx

from everyword.agents import AIChatAgent
from everyword.server import Everyword
from everyword.server.node_settings import NodeSettings
from tests.postgres.server import Postgres
from tests.server.kit import connect, serving
from tests.tcp_proxy import TcpProxy
from tests.timeouts import PATIENCE


class Chat(AIChatAgent):
    pass


async def until_healthy(client: httpx.AsyncClient, healthy: bool) -> httpx.Response:
    async with asyncio.timeout(PATIENCE):
        while ((answer := await client.get("/healthz")).status_code == 200) is not healthy:
            pass
    return answer


async def test_a_node_without_a_lease_is_not_healthy_and_says_so_at_once(
    postgres_server: Postgres, postgres_url: str
) -> None:
    schema = postgres_url.rpartition("schema=")[2]
    async with TcpProxy(postgres_server.address) as proxy:
        store = f"{proxy.url(postgres_server.tcp_url)}?schema={schema}"
        app = Everyword([Chat], store=store, node=NodeSettings(lease=1.0))
        async with serving(app) as url, connect(url) as client:
            assert (await client.get("/healthz")).json()["status"] == "ready"
            await proxy.swallow()
            assert (await until_healthy(client, False)).json()["status"] == "failing"
            asked_at = asyncio.get_running_loop().time()
            assert (await client.get("/healthz")).status_code == 503
            assert asyncio.get_running_loop().time() - asked_at < 1
            await proxy.restore()
            assert (await until_healthy(client, True)).json()["status"] == "ready"
