"""Tests of the server and of the Python client, with every request and socket relayed over a link.

What they assert must hold there, too. These modules use all that the relay carries: sockets, requests, event streams,
refusals, limits, slow and hostile clients. `EVERYWORD_RELAYED=1 pytest tests/server tests/client tests/parity` runs all
tests this way; `tests/parity/test_relayed.py` compares the frames, `tests/browser/test_two_nodes.py` runs real nodes.
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
    "tests.server.test_agent_tool_feeds",
    "tests.server.test_connection_limits",
    "tests.server.test_garbage",
    "tests.server.test_http",
    "tests.server.test_late_calls",
    "tests.server.test_lost_store",
    "tests.server.test_odd_requests",
    "tests.server.test_page",
    "tests.server.test_parity",
    "tests.server.test_plain_agents",
    "tests.server.test_presence",
    "tests.server.test_rate_limited_receive",
    "tests.server.test_reading",
    "tests.server.test_refused_clients",
    "tests.server.test_uvicorn_websocket",
    "tests.server.test_websocket",
    "tests.client.test_chat",
)


def _tests_of(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Yield the tests of a module that start a server, under names that say where they are from.

    The fixtures of a module stay there, so a module with fixtures of its own cannot be listed.
    """
    topic = module.__name__.rpartition(".test_")[2]
    for name, member in vars(module).items():
        if name.startswith("test_") and inspect.iscoroutinefunction(member) and member.__module__ == module.__name__:
            yield f"test_{topic}_{name.removeprefix('test_')}", member


globals().update(found for name in MODULES for found in _tests_of(import_module(name)))


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
