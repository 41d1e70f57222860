"""The health check and the metrics of nodes: alone, and for the other nodes of a group."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import prometheus_client
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from everyword.agents import AIChatAgent, Turn, tool
from everyword.observe import Metrics, Tracing
from everyword.server import Everyword, Principal
from everyword.server.node_settings import NodeSettings
from tests.server.kit import PATIENCE, ask, question

LOCAL = "http://localhost"


class Chat(AIChatAgent):
    async def on_chat_message(self, turn: Turn) -> Any:
        yield await turn.call_tool("look")

    @tool
    async def look(self) -> str:
        return "clear"


class Node:
    """One app on the store, and a client of it."""

    def __init__(self, store: str, name: str, group: str, *tracing: Tracing, **options: Any) -> None:
        settings = NodeSettings(name=name, group=group, lease=2)
        self.app = Everyword([Chat], store=store, node=settings, observe=[Metrics(), *tracing], **options)
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url=LOCAL)

    async def health(self, **headers: str) -> tuple[int, dict[str, Any]]:
        answer = await self.client.get("/healthz", headers=headers)
        return answer.status_code, answer.json()

    async def metrics(self) -> list[str]:
        return (await self.client.get("/metrics")).text.splitlines()

    async def until(self, names: list[str]) -> list[dict[str, Any]]:
        """Wait until the health check lists these nodes, all of them up; return the list."""
        async with asyncio.timeout(PATIENCE):
            while True:
                _, told = await self.health()
                if [each["name"] for each in told["nodes"] if each["state"] == "up"] == names == _names(told):
                    return list(told["nodes"])
                self.app._directory.ownership.nodes._node.look_again()  # the next heartbeat, now
                await asyncio.sleep(0)


def _names(told: dict[str, Any]) -> list[str]:
    return [each["name"] for each in told["nodes"]]


@asynccontextmanager
async def running(
    store: str, *named: tuple[str, str], tracing: Tracing | None = None, **options: Any
) -> AsyncIterator[list[Node]]:
    nodes = [Node(store, name, group, *filter(None, [tracing]), **options) for name, group in named]
    try:
        for node in nodes:
            await node.app.start()
        yield nodes
    finally:
        for node in nodes:
            await node.app.aclose()
            await node.client.aclose()


async def test_a_node_alone_tells_its_name_its_state_and_what_is_left_of_its_lease(postgres_url: str) -> None:
    async with running(postgres_url, ("box-1", ""), ("box-2", "")) as (node, _):
        code, told = await node.health()
        assert (code, told["status"]) == (200, "ready")
        (only,) = told["nodes"]
        assert only["name"] == "box-1" and only["state"] == "up" and only["incarnation"] == node.app.node.id
        assert 0 < only["lease_left"] <= 2


async def test_strangers_read_the_status_of_a_node_and_nothing_else(postgres_url: str) -> None:
    async with running(postgres_url, ("box-1", ""), authorize=lambda connecting: Principal("ann")) as (node,):
        assert await node.health(host="example.org") == (200, {"status": "ready"})


async def test_a_node_that_drains_or_has_no_lease_fails_the_check(postgres_url: str) -> None:
    async with running(postgres_url, ("box-1", "")) as (node,):
        lease = node.app._directory.ownership.nodes._node
        lease._validity.end()
        code, told = await node.health()
        assert (code, told["status"], told["nodes"][0]["state"]) == (503, "failing", "no lease")
        assert told["nodes"][0]["lease_left"] == 0
        node.app._directory.begin_drain()
        code, told = await node.health()
        assert (code, told["status"], told["nodes"][0]["state"]) == (503, "stopping", "draining")


async def test_the_nodes_of_a_group_answer_for_each_other(postgres_url: str) -> None:
    named = ("box-1", "a"), ("box-2", "a"), ("box-10", "a"), ("box-3", "b"), ("other-4", "a")
    async with running(postgres_url, *named) as nodes:
        first, second, *_ = nodes
        for node in (first, second):
            listed = await node.until(["box-1", "box-2", "box-10"])
            assert len({each["incarnation"] for each in listed}) == 3
        chat = httpx.URL(f"{LOCAL}/agents/chat/ann/")
        async with httpx.AsyncClient(transport=httpx.ASGITransport(second.app), base_url=chat) as client:
            await ask(client, question())
        for node in (first, second):
            lines = await _until_counted(
                node, 'everyword_turns_total{kind="chat",node="box-2",outcome="completed"} 1.0'
            )
            samples = [line for line in lines if not line.startswith("#")]
            assert all('node="box-' in line for line in samples)
            assert {line for line in samples if line.startswith("everyword_loaded_agents")} == {
                'everyword_loaded_agents{node="box-1"} 0.0',
                'everyword_loaded_agents{node="box-2"} 1.0',
                'everyword_loaded_agents{node="box-10"} 0.0',
            }
            assert len([line for line in lines if line.startswith("# TYPE everyword_turns_total")]) == 1


async def _until_counted(node: Node, sample: str) -> list[str]:
    async with asyncio.timeout(PATIENCE):
        while True:
            lines = await node.metrics()
            if sample in lines:
                return lines


async def test_a_node_of_the_group_that_does_not_answer_is_named(postgres_url: str) -> None:
    async with running(postgres_url, ("box-1", "a"), ("box-2", "a")) as (first, second):
        await first.until(["box-1", "box-2"])
        service = await second.app.service()
        assert service.node is not None
        await service.node.aclose()
        code, told = await first.health()
        assert (code, told["status"]) == (200, "ready")
        assert [(each["name"], each["state"]) for each in told["nodes"]] == [("box-1", "up"), ("box-2", "unreachable")]
        assert any('node="box-1"' in line for line in await first.metrics())


async def test_spans_have_the_name_of_the_node(postgres_url: str) -> None:
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    async with running(postgres_url, ("box-1", ""), tracing=Tracing(provider)) as (node,):
        node.client.base_url = httpx.URL(f"{LOCAL}/agents/chat/ann/")
        await ask(node.client, question())
    found = spans.get_finished_spans()
    assert {span.name for span in found} == {"invoke_agent chat", "execute_tool look"}
    assert {span.attributes["everyword.node"] for span in found if span.attributes} == {"box-1"}


def test_samples_of_several_nodes_are_one_family_and_keep_their_own_labels() -> None:
    metrics = Metrics()
    prometheus_client.Gauge("rooms", "Rooms.", ["node"], registry=metrics.registry).labels("attic").set(math.inf)
    lines = metrics.render_nodes([("box-1", metrics.export()), ("box-2", metrics.export())]).decode().splitlines()
    assert [line for line in lines if "rooms" in line] == [
        "# HELP rooms Rooms.",
        "# TYPE rooms gauge",
        'rooms{exported_node="attic",node="box-1"} +Inf',
        'rooms{exported_node="attic",node="box-2"} +Inf',
    ]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (NodeSettings(), NodeSettings(name="host-2", group="g", listen="unix:/run/x/")),
        (NodeSettings(name="web"), NodeSettings(name="web-2", group="g", listen="unix:/run/x/")),
        (NodeSettings(listen="10.0.0.1:0"), NodeSettings(name="host-2", group="g", listen="10.0.0.1:0")),
        (NodeSettings(name="web", group="own"), NodeSettings(name="web", group="own")),
    ],
)
def test_settings_in_the_code_are_made_different_for_every_worker(given: NodeSettings, expected: NodeSettings) -> None:
    environment = {
        "EVERYWORD_NODE_GROUP": "g",
        "EVERYWORD_NODE_NAME": "host-2",
        "EVERYWORD_NODE_LISTEN": "unix:/run/x/",
    }
    assert given.for_worker(environment) == expected
    assert given.for_worker({}) == given
