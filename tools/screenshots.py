"""Take the screenshots in docs/images: `make screenshots`. What they show really happens, in the demo and a browser.

All are taken of one server: a conversation in light and in dark, a late client beside a page, an approval on a phone,
the inbox of approvals, and the inspector after the server was killed in the middle of a tool call.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any, Literal

from playwright.async_api import Browser, Page, async_playwright, expect

from tools.demo import Running, running

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "images"
NAMES = ("light", "late", "dark", "phone", "approvals", "killed")
LARGEST = 200_000
"""Bytes of one picture."""

DESKTOP, PHONE, LOW = (1360, 850), (390, 760), (1360, 480)

expect.set_options(timeout=60_000)


async def _visit(
    browser: Browser,
    server: Running,
    name: str,
    size: tuple[int, int] = DESKTOP,
    scheme: Literal["light", "dark"] = "light",
    **options: Any,
) -> Page:
    page = await browser.new_page(
        viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, reduced_motion="reduce", **options
    )
    await page.goto(f"{server.url}?agent=demo&name={name}")
    return page


async def _ask(page: Page, question: str) -> None:
    box = page.get_by_role("textbox", name="Your message")
    await box.fill(question)
    await box.press("Enter")


async def _answered(page: Page) -> None:
    """Wait until the last answer is whole and the page is at rest."""
    await expect(page.locator("#messages li.assistant").last).to_be_visible()
    await expect(page.locator("#link")).to_have_text("live")
    await expect(page.locator("#conversations")).not_to_contain_text("answering")


async def _take(page: Page, name: str) -> None:
    await page.evaluate("document.activeElement.blur()")
    await page.mouse.move(0, 0)
    await page.screenshot(path=TARGET / f"{name}.png", animations="disabled")


async def _show_conversations(browser: Browser, server: Running) -> None:
    for name, question in [
        ("weather", "Use a tool for the weather"),
        ("error", "Run into an error"),
        ("hello", "Hello there"),
    ]:
        page = await _visit(browser, server, name)
        await _ask(page, question)
        await _answered(page)
        await page.close()


async def _show_light_and_late(browser: Browser, server: Running) -> None:
    page = await _visit(browser, server, "sailing")
    await _ask(page, "Plan a day on the water")
    await _answered(page)
    await page.get_by_role("button", name="Regenerate").click()
    await expect(page.get_by_text("2 of 2")).to_be_visible()
    await _answered(page)
    await expect(page.get_by_role("button", name="#2 completed")).to_be_visible()
    await page.locator("main").evaluate("main => main.scrollBy(0, -20)")  # or a line is cut in half at the top
    await _take(page, "light")
    await page.set_viewport_size({"width": DESKTOP[0], "height": 692})  # ends between two blocks of the answer
    await page.get_by_role("button", name="What would a late client see?").click()
    await expect(page.locator("#verdict")).to_contain_text("Equal")
    await _take(page, "late")
    await page.close()


async def _show_dark(browser: Browser, server: Running) -> None:
    page = await _visit(browser, server, "crew", scheme="dark")
    await _ask(page, "Ask the crew")
    for member in ("lookout", "navigator", "cook"):
        await expect(page.locator(".run", has_text=f"Speak, {member}.").locator(".text")).to_have_text(
            # Three words: enough to see that all of them speak, early enough to see them at it.
            re.compile(r"\w+ \w+ \w+")
        )
    await _take(page, "dark")
    await _answered(page)
    await page.close()


async def _show_phone(browser: Browser, server: Running) -> None:
    page = await _visit(browser, server, "boat", PHONE, device_scale_factor=2, is_mobile=True, has_touch=True)
    await _ask(page, "Charter a boat")
    await expect(page.get_by_role("button", name="Approve")).to_be_visible()
    await _answered(page)
    await _take(page, "phone")
    await page.close()


async def _show_approvals(browser: Browser, server: Running) -> None:
    """After the phone, whose approval waits, too."""
    page = await _visit(browser, server, "regatta")
    await _ask(page, "Charter a second boat for the regatta")
    await expect(page.locator("#inbox-count")).to_have_text("2 waiting")
    await _answered(page)
    await page.get_by_role("button", name="Approvals").click()
    await expect(page.locator("#inbox-list li")).to_have_count(2)
    await _take(page, "approvals")
    await page.close()


async def _show_killed(browser: Browser, server: Running, folder: Path) -> None:
    page = await _visit(browser, server, "killed", LOW)
    await _ask(page, "Use a tool for the weather")
    await expect(page.locator("#messages").get_by_text("running")).to_be_visible()
    await server.kill()
    async with running(folder, server.port):
        await expect(page.get_by_role("button", name="completed, 2 attempts")).to_be_visible()
        await _answered(page)
        inspector = page.locator("#inspector")
        await page.mouse.move(0, 0)
        await inspector.screenshot(path=TARGET / "killed.png", animations="disabled")
    await page.close()


async def take() -> None:
    """Take all of them, in the order in which the demo lives and dies."""
    path = os.environ.get("CHROMIUM", "/usr/bin/chromium")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        with tempfile.TemporaryDirectory() as folder:
            async with running(Path(folder)) as server:
                await _show_conversations(browser, server)
                await _show_light_and_late(browser, server)
                await _show_dark(browser, server)
                await _show_phone(browser, server)
                await _show_approvals(browser, server)
                await _show_killed(browser, server, Path(folder))
        await browser.close()


def main() -> int:
    asyncio.run(take())
    sizes = {name: (TARGET / f"{name}.png").stat().st_size for name in NAMES}
    for name, size in sizes.items():
        print(f"docs/images/{name}.png: {size // 1000} kB")
    return 0 if max(sizes.values()) <= LARGEST else 1


if __name__ == "__main__":
    sys.exit(main())
