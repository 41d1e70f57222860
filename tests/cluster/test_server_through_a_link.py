"""The server's own tests, with every request and socket relayed over a link: what they assert must hold there, too.

These modules use all that the relay carries: sockets, requests, event streams, refusals, limits, slow and hostile
clients. `EVERYWORD_RELAYED=1 pytest tests/server` runs all of them this way.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import pytest

from everyword.agents import AIChatAgent, Connection
from tests.cluster.relayed import Edge
from tests.server.kit import ask, chat, scripted, serving, talking
from tests.server.sockets import socket

MODULES = (
    "agent_tool_feeds",
    "connection_limits",
    "garbage",
    "http",
    "late_calls",
    "lost_store",
    "odd_requests",
    "page",
    "parity",
    "plain_agents",
    "rate_limited_receive",
    "reading",
    "refused_clients",
    "uvicorn_websocket",
    "websocket",
)


def _tests_of(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Yield the tests of a module that start a server, under names that say where they are from.

    The fixtures of a module stay there, so a module with fixtures of its own cannot be listed.
    """
    topic = module.__name__.rpartition(".test_")[2]
    for name, member in vars(module).items():
        if name.startswith("test_") and inspect.iscoroutinefunction(member) and member.__module__ == module.__name__:
            yield f"test_{topic}_{name.removeprefix('test_')}", member


globals().update(found for name in MODULES for found in _tests_of(import_module(f"tests.server.test_{name}")))


@pytest.fixture(autouse=True)
def _relayed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVERYWORD_RELAYED", "1")


async def test_a_served_app_is_behind_a_link_here() -> None:
    before = Edge.relayed
    async with talking(chat(scripted(["hello"]))) as client:
        assert (await ask(client)).chunks
    assert Edge.relayed == before + 1


async def test_a_connection_with_a_large_state_is_served_though_it_cannot_move() -> None:
    def prepare_connection(self: AIChatAgent, connection: Connection, request: object) -> None:
        connection.state = {"large": "x" * 300_000}

    app = chat(scripted(["hello"], prepare_connection=prepare_connection))
    async with serving(app) as url, socket(url) as tab:
        await tab.ask("q")
        assert (await tab.ended("q"))["type"] == "cf_agent_use_chat_response"
