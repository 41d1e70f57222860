"""Shared links across nodes: any node shows a link, follows it and revokes it, whichever owns the conversation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from everyword import AttachmentOptions, Everyword, UIMessage
from everyword.server.node_settings import NodeSettings
from tests.server.kit import connect, serving
from tests.server.test_shared_files import HIDDEN, LATER, MADE, PHOTO, Album, ask, linked, named, status
from tests.server.test_shared_pages import Chat, by_header, following, own_names
from tests.timeouts import PATIENCE

pytestmark = pytest.mark.crash


@asynccontextmanager
async def two_nodes(
    store: str, **options: Any
) -> AsyncIterator[tuple[Everyword, Everyword, httpx.AsyncClient, httpx.AsyncClient]]:
    """Run two nodes in this process: the first owns the conversation `ann-1`."""
    async with asyncio.timeout(PATIENCE), AsyncExitStack() as stack:
        apps, clients = [], []
        for name in ("owner", "other"):
            settings = NodeSettings(name=name, lease=600)
            hooks: Any = {"authenticate": by_header, "authorize": own_names, **options}
            app = Everyword([Chat, Album], store=store, node=settings, **hooks)
            clients.append(await stack.enter_async_context(connect(await stack.enter_async_context(serving(app)))))
            await app.start()
            apps.append(app)
        await apps[0].get(Chat, "ann-1").save_messages("hello")
        yield apps[0], apps[1], clients[0], clients[1]


async def test_any_node_shows_a_link_and_creates_and_revokes_it(postgres_url: str) -> None:
    async with two_nodes(postgres_url) as (owner, other, at_owner, at_other):
        frozen = await other.shares.create(Chat, "ann-1")
        live = await owner.shares.create(Chat, "ann-1", frozen=False)
        for share in (frozen, live):
            for client in (at_owner, at_other):
                assert "You said: hello" in (await client.get(share.path or "")).text
            assert await other.shares.revoke(Chat, "ann-1", share.id)
            for client in (at_owner, at_other):
                assert (await client.get(share.path or "")).status_code == 404


async def test_a_page_of_another_node_follows_and_is_told_of_a_revocation(postgres_url: str) -> None:
    async with two_nodes(postgres_url) as (owner, other, at_owner, at_other):
        share = await other.shares.create(Chat, "ann-1", frozen=False)
        path = share.path or ""
        async with following(at_other, path) as far, following(at_owner, path) as near:
            await owner.get(Chat, "ann-1").save_messages("and now")
            for page in (far, near):
                await page.until("You said: and now")
                assert "SECRET" not in page.said
            assert await owner.shares.revoke(Chat, "ann-1", share.id)
            for page in (far, near):
                await page.rest()
                assert '"type": "over"' in page.said
        assert (await at_other.get(f"{path}/stream")).status_code == 404


async def test_a_frozen_page_of_another_node_is_told_of_a_revocation(postgres_url: str) -> None:
    async with two_nodes(postgres_url) as (owner, other, at_owner, at_other):
        share = await other.shares.create(Chat, "ann-1")
        path = share.path or ""
        async with following(at_other, path) as far, following(at_owner, path) as near:
            await owner.get(Chat, "ann-1").save_messages("and now")
            assert await owner.shares.revoke(Chat, "ann-1", share.id)
            for page in (far, near):
                await page.rest()
                assert '"type": "over"' in page.said and "and now" not in page.said


async def test_any_node_serves_the_photos_of_a_link_until_it_is_revoked(postgres_url: str, tmp_path: Path) -> None:
    attachments = AttachmentOptions(store=str(tmp_path / "attachments"))
    async with two_nodes(postgres_url, attachments=attachments) as (owner, other, at_owner, at_other):
        await ask(owner, "hello", PHOTO)
        frozen = await other.shares.create(Album, "ann-1")
        live = await other.shares.create(Album, "ann-1", frozen=False)
        for share in (frozen, live):
            for client in (at_owner, at_other):
                path = share.path or ""
                assert linked((await client.get(path)).text) == [named(PHOTO), named(MADE)]
                assert [await status(client, path, each) for each in (PHOTO, MADE, HIDDEN)] == [200, 200, 404]
        async with following(at_other, live.path or "") as page:
            await ask(owner, "later", LATER)
            await page.until(named(LATER))
            assert [await status(at_other, each.path or "", LATER) for each in (live, frozen)] == [200, 404]
        assert await owner.shares.revoke(Album, "ann-1", live.id)
        for client in (at_owner, at_other):
            assert [await status(client, each.path or "", PHOTO) for each in (live, frozen)] == [404, 200]


async def test_without_a_place_for_attachments_files_are_named_only(postgres_url: str) -> None:
    async with two_nodes(postgres_url) as (owner, other, _, at_other):
        url = f"/agents/chat/ann-1/attachments/{named(PHOTO)}"
        part = {"type": "file", "mediaType": "image/png", "filename": "old.png", "url": url}
        await owner.get(Chat, "ann-1").save_messages([UIMessage("u", "user", [part])])
        path = (await other.shares.create(Chat, "ann-1")).path or ""
        page = (await at_other.get(path)).text
        assert "old.png" in page and linked(page) == [] and "<img" not in page
        assert await status(at_other, path, PHOTO) == 404
