"""The page of a shared link, and an exported file, in a real browser."""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, Route, expect

from everyword import Everyword, UIMessage
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
        share = await app.shares.create(Chat, "ann-1", frozen=False, tools="all", people=True)
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
            await app.conversations.rename(Chat, "ann-1", "About <b>cats</b>")
            await expect(page.locator("h1")).to_have_text("About <b>cats</b>")
            await expect(page).to_have_title("About <b>cats</b>")
            await expect(page.locator(".facts")).to_contain_text("Owner: ann")
            await app.shares.revoke(Chat, "ann-1", share.id)
            await expect(page.locator("[role=status]")).to_have_text(GONE)
            shown = await page.locator("html").inner_text() + await page.title()
            assert "About" not in shown and "ann" not in shown and "dogs" not in shown


def drawn(width: int, height: int) -> bytes:
    """Return a picture of this size as PNG."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    rows = zlib.compress((b"\0" + b"\x20\x80\xc0" * width) * height)
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


async def asked_with_photo(app: Everyword, id: str, content: bytes) -> None:
    photo = await (await app.attachments.of(Chat, "ann-1")).put(content, "image/png", filename=f"{id}.png")
    await app.get(Chat, "ann-1").save_messages([UIMessage(id, "user", [{"type": "text", "text": id}, photo])])


@pytest.mark.parametrize("frozen", [True, False])
async def test_photos_are_drawn_and_gone_once_the_link_is_revoked(chromium: Browser, frozen: bool) -> None:
    async with sharing() as (app, url):
        await asked_with_photo(app, "first", drawn(40, 30))
        share = await app.shares.create(Chat, "ann-1", frozen=frozen)
        async with visiting(chromium, f"{url}{share.path}") as page:
            await expect(page.locator("img").first).to_have_js_property("naturalWidth", 40)
            await asked_with_photo(app, "second", drawn(7, 9))
            if not frozen:
                await expect(page.locator("main")).to_contain_text("You said: second")
                await page.locator("img").last.scroll_into_view_if_needed()
                await expect(page.locator("img").last).to_have_js_property("naturalWidth", 7)
            source = await page.evaluate("document.images[0].currentSrc")
            assert "ann-1" not in await page.content()
            await app.shares.revoke(Chat, "ann-1", share.id)
            await expect(page.locator("[role=status]")).to_have_text(GONE)
            assert await page.locator("img").count() == 0
            assert "first" not in await page.locator("html").inner_text() + await page.title()
            assert await page.evaluate("(url) => fetch(url).then((response) => response.status)", source) == 404


@pytest.mark.parametrize("frozen", [True, False])
async def test_a_page_that_a_restarting_server_refused_is_told_of_the_revocation(
    chromium: Browser, frozen: bool
) -> None:
    async with sharing() as (app, url):
        share = await app.shares.create(Chat, "ann-1", frozen=frozen)
        asked = 0

        async def restarting(route: Route) -> None:
            nonlocal asked
            asked += 1
            await (route.fulfill(status=503) if asked < 3 else route.continue_())

        async with visiting(chromium, url) as page, asyncio.timeout(PATIENCE):
            await page.clock.install()
            await page.route("**/stream", restarting)
            await page.goto(f"{url}{share.path}")
            while asked < 3:
                await page.clock.run_for(1_000)
            await expect(page.locator("main")).to_contain_text("You said: hello")
            await app.shares.revoke(Chat, "ann-1", share.id)
            await expect(page.locator("[role=status]")).to_have_text(GONE)


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
