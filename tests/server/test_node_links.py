"""A node checks its settings before it registers, and does not fill its log while another node is unreachable."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from everyword.agents import AIChatAgent
from everyword.errors import LogUnavailable, UsageError
from everyword.ids import agent_id
from everyword.server import Everyword, node_links
from everyword.server.node_settings import NodeSettings
from tests.nodes.test_nodes import look
from tests.timeouts import PATIENCE


class Chat(AIChatAgent):
    pass


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (NodeSettings(secrets=["short"]), "at least 16 bytes"),
        (NodeSettings(secrets=["long enough to be a secret", "short"]), "at least 16 bytes"),
        (NodeSettings(address="nowhere"), "address of a link"),
        (NodeSettings(listen="127.0.0.1"), "address of a link"),
        (NodeSettings(listen="0.0.0.0:0"), "EVERYWORD_NODE_ADDRESS"),
        (NodeSettings(tls_cert="missing.pem"), "are needed together"),
        (NodeSettings(lease=0.01), "lease"),
        (NodeSettings(lease=float("nan")), "lease"),
        (NodeSettings(lease=float("inf")), "lease"),
    ],
    ids=lambda given: repr(given)[:60] if isinstance(given, str) else "",
)
async def test_a_node_with_bad_settings_does_not_register(postgres_url: str, settings: NodeSettings, why: str) -> None:
    app = Everyword([Chat], store=postgres_url, node=settings)
    with pytest.raises(UsageError, match=why):
        await app.start()
    assert await look(postgres_url, "select to_regclass('everyword.node')") == [(None,)], "nothing was opened"


async def test_a_node_that_cannot_start_gives_its_lease_up(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def unreadable(self: object) -> bytes:
        raise LogUnavailable("unable to read the secret; the test says so")

    monkeypatch.setattr("everyword.log.postgres.membership.Membership.shared_secret", unreadable)
    app = Everyword([Chat], store=postgres_url, node=NodeSettings(lease=600))
    with pytest.raises(LogUnavailable, match="the test says so"):
        await app.start()
    assert await look(postgres_url, "select count(*) from everyword.node where state <> 'gone'") == [(0,)]
    monkeypatch.undo()
    async with app:
        assert app.node is not None, "another start succeeds"


async def test_many_clients_that_wait_for_an_unreachable_owner_make_one_line(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(node_links, "TRY_AGAIN", 0.001)
    caplog.set_level(logging.INFO, "everyword")
    owner = Everyword([Chat], store=postgres_url, node=NodeSettings(name="one", address="127.0.0.1:1"))
    edge = Everyword([Chat], store=postgres_url, node=NodeSettings(name="two"))
    agent = agent_id("chat", "a")
    async with owner, edge, AsyncExitStack() as stack:
        await stack.enter_async_context((await owner.service()).directory.attach(agent))
        links = (await edge.service()).node
        assert links is not None
        tries = _counted(monkeypatch, links._links, "get")
        waiting = [asyncio.create_task(links.owner(agent, takes=True)) for _ in range(3)]
        async with asyncio.timeout(PATIENCE):
            while len(tries) < 20:  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(0)
        for each in waiting:
            each.cancel()
        await asyncio.wait(waiting)
    lines = [each.getMessage() for each in caplog.records if "127.0.0.1:1" in each.getMessage()]
    assert len(lines) == 1 and "unable to link to node" in lines[0]


async def test_a_node_with_another_secret_makes_one_line_on_both_sides(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(node_links, "TRY_AGAIN", 0.001)
    caplog.set_level(logging.INFO, "everyword")
    owner = Everyword([Chat], store=postgres_url, node=NodeSettings(name="one", secrets=["a secret of one node"]))
    edge = Everyword([Chat], store=postgres_url, node=NodeSettings(name="two", secrets=["the secret of another"]))
    agent = agent_id("chat", "a")
    async with owner, edge, AsyncExitStack() as stack:
        await stack.enter_async_context((await owner.service()).directory.attach(agent))
        links = (await edge.service()).node
        assert links is not None
        tries = _counted(monkeypatch, links._links, "get")
        waiting = asyncio.create_task(links.owner(agent, takes=True))
        async with asyncio.timeout(PATIENCE):
            while len(tries) < 10:  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
    lines = [(each.name, each.levelname) for each in caplog.records if "its secret is another one" in each.getMessage()]
    assert sorted(lines) == [("everyword.cluster", "WARNING"), ("everyword.nodes", "INFO")]


def _counted(monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> list[Any]:
    """Count the calls of a method."""
    calls: list[Any] = []
    method: Callable[..., Any] = getattr(owner, name)

    def count(*args: Any) -> Any:
        calls.append(args)
        return method(*args)

    monkeypatch.setattr(owner, name, count)
    return calls
