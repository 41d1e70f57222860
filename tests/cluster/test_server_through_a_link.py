"""The server's own tests, with every request and socket relayed over a link: what they assert must hold there, too.

These modules use all that the relay carries: sockets, requests, event streams, refusals, limits, slow and hostile
clients. `EVERYWORD_RELAYED=1 pytest tests/server` runs all of them this way.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType

import pytest

from tests.cluster.relayed import Edge
from tests.server import (
    test_agent_tool_feeds,
    test_connection_limits,
    test_garbage,
    test_http,
    test_late_calls,
    test_lost_store,
    test_odd_requests,
    test_page,
    test_parity,
    test_plain_agents,
    test_rate_limited_receive,
    test_reading,
    test_refused_clients,
    test_uvicorn_websocket,
    test_websocket,
)
from tests.server.kit import ask, chat, scripted, talking

MODULES = [
    test_agent_tool_feeds,
    test_connection_limits,
    test_garbage,
    test_http,
    test_late_calls,
    test_lost_store,
    test_odd_requests,
    test_page,
    test_parity,
    test_plain_agents,
    test_rate_limited_receive,
    test_reading,
    test_refused_clients,
    test_uvicorn_websocket,
    test_websocket,
]


def _tests_of(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Yield the tests of a module that start a server, under names that say where they are from.

    The fixtures of a module stay there, so a module with fixtures of its own cannot be listed.
    """
    topic = module.__name__.rpartition(".test_")[2]
    for name, member in vars(module).items():
        if name.startswith("test_") and inspect.iscoroutinefunction(member) and member.__module__ == module.__name__:
            yield f"test_{topic}_{name.removeprefix('test_')}", member


globals().update(found for module in MODULES for found in _tests_of(module))


@pytest.fixture(autouse=True)
def _relayed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVERYWORD_RELAYED", "1")


async def test_a_served_app_is_behind_a_link_here() -> None:
    before = Edge.relayed
    async with talking(chat(scripted(["hello"]))) as client:
        assert (await ask(client)).chunks
    assert Edge.relayed == before + 1
