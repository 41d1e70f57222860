"""The page of a shared link, and an exported file, in a real browser."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from everyword import Everyword
from everyword.server.shared_feed import GONE
from everyword.testing import Gate
from tests.browser.example_page import visiting
from tests.server.kit import PATIENCE, serving
from tests.server.test_shared_pages import Chat, ask_again, by_header, own_names, say

pytestmark = [pytest.mark.browser]

expect.set_options(timeout=PATIENCE * 1000)


@asynccontextmanager
async def sharing() -> AsyncIterator[tuple[Everyword, str]]:
    app = Everyword([Chat], store="memory:", authenticate=by_header, authorize=own_names)
    async with serving(app) as url:
        await app.start()
        await say(app, "hello")
        yield app, url


async def test_a_live_page_shows_what_a_new_page_shows_until_it_is_revoked(chromium: Browser) -> None:
    async with sharing() as (app, url):
        share = await app.shares.create(Chat, "ann-1", frozen=False, tools="all")
        async with visiting(chromium, f"{url}{share.path}") as page:
            await expect(page.locator("#state")).to_have_text("Live")
            await expect(page.locator("main")).to_contain_text("You said: hello <script>alert(1)</script>")
            Chat.gate = Gate()
            asking = asyncio.ensure_future(say(app, "wait"))
            await expect(page.locator("main")).to_contain_text("so far")
            await expect(page.locator(".ending")).to_have_text("This answer is still being written.")
            await page.locator("summary").first.click()
            Chat.gate.open()
            await expect(page.locator("main")).to_contain_text("so far and on")
            await asking
            await expect(page.locator(".ending")).to_have_count(0)
            assert await page.locator("details[open]").count() == 1, "what the reader opened stays open"
            await ask_again(app, "u", "cats")
            await ask_again(app, "u", "dogs")
            await expect(page.locator("main")).to_contain_text("You said: dogs")
            await expect(page.locator("main")).not_to_contain_text("cats")
            async with visiting(chromium, f"{url}{share.path}") as fresh:
                await fresh.locator("summary").first.click()
                assert await fresh.locator("main").inner_text() == await page.locator("main").inner_text()
            await app.shares.revoke(Chat, "ann-1", share.id)
            await expect(page.locator("[role=status]")).to_have_text(GONE)
            assert await page.locator("main").inner_text() == ""


async def test_an_exported_file_runs_no_script_and_asks_no_server(chromium: Browser, tmp_path: Path) -> None:
    async with sharing() as (app, _):
        await say(app, '<img src="http://127.0.0.1:1/x" onerror="alert(1)"><script>alert(1)</script>')
        export = await app.conversations.export(Chat, "ann-1", format="html")
    file = tmp_path / export.filename
    file.write_bytes(export.content)
    async with visiting(chromium, file.as_uri()) as page:
        assert await page.locator("img, script").count() == 0
        await expect(page.locator("main")).to_contain_text('<img src="http://127.0.0.1:1/x"')
        assert await page.evaluate("getComputedStyle(document.querySelector('.user')).borderRadius") == "12px"
