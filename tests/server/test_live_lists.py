"""Live lists over HTTP: whom a deletion is told, by this node and by others."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from everyword import Everyword, Principal
from everyword.server.node_settings import NodeSettings
from tests.server.kit import PATIENCE, connect, serving
from tests.server.test_lists import Chat, by_header, live, said, user


def new_app(store: str, name: str = "one") -> Everyword:
    """As apps do whose conversations belong to their owner: anyone may begin one with a name that is free."""

    async def owners(principal: Principal, action: str, kind: str, name: str) -> bool:
        found = await app.conversations.get(kind, name)
        return found is None or found.owner == principal.id

    node = NodeSettings(name=name, lease=600) if store != "memory:" else None
    app = Everyword([Chat], store=store, authenticate=by_header, authorize=owners, node=node)
    return app


async def names_told(events: Any, last: str) -> list[str]:
    """Return the names that a live list tells from now on, up to that of the last change."""
    told = [await anext(events)]
    while told[-1].get("conversation", told[-1])["name"] != last:
        told.append(await anext(events))
    return [each.get("conversation", each)["name"] for each in told]


async def test_a_live_list_tells_only_its_principal_that_a_conversation_was_deleted() -> None:
    app = new_app("memory:")
    async with asyncio.timeout(PATIENCE), serving(app) as url, connect(url) as client:
        for name in ("older", "newer"):
            await said(app, name, "hello", "ann")
        async with (
            live(client, "/conversations", "bob") as bobs,
            live(client, "/conversations?limit=1", "ann") as anns,
        ):
            assert (await anext(bobs))["conversations"] == []
            assert [each["name"] for each in (await anext(anns))["conversations"]] == ["newer"]
            await client.delete("/conversations/chat/older", headers=user("ann"))
            assert await anext(anns) == {"type": "removed", "kind": "chat", "name": "older"}
            await said(app, "bobs", "hello", "bob")
            assert set(await names_told(bobs, "bobs")) == {"bobs"}


async def test_a_deletion_by_another_node_is_told_to_its_principal_alone(postgres_url: str) -> None:
    one, two = new_app(postgres_url), new_app(postgres_url, "two")
    async with asyncio.timeout(PATIENCE), serving(one) as url, connect(url) as client, two:
        for name in ("older", "newer"):
            await said(two, name, "hello", "ann")
        async with (
            live(client, "/conversations", "bob") as bobs,
            live(client, "/conversations?limit=1", "ann") as anns,
        ):
            assert (await anext(bobs))["conversations"] == []
            assert [each["name"] for each in (await anext(anns))["conversations"]] == ["newer"]
            await two.conversations.delete(Chat, "older")
            assert "older" in await names_told(anns, "older")
            await said(two, "bobs", "hello", "bob")
            assert set(await names_told(bobs, "bobs")) == {"bobs"}


@pytest.mark.parametrize("eraser", ["one", "two"])
async def test_an_erased_conversation_leaves_the_live_lists_of_all_nodes(postgres_url: str, eraser: str) -> None:
    apps = {name: new_app(postgres_url, name) for name in ("one", "two")}
    async with asyncio.timeout(PATIENCE), apps["one"], apps["two"]:
        await said(apps["two"], "anns", "hello", "ann")
        async with aclosing(apps["one"].conversations.watch()) as changes:
            assert [each.name for each in (await anext(changes)).page.conversations] == ["anns"]
            assert (await apps[eraser].principals.erase("ann")).is_complete
            async for change in changes:
                if change.type == "removed":
                    assert change.name == "anns"
                    return
