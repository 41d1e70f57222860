"""The example with a team: its own page, without a library, shows all agents at work, also after reloads and kills."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from examples.research_team.app import LIBRARY
from tests.browser.example_page import Example, visiting
from tests.browser.playground_tab import browsing
from tests.server.kit import PATIENCE

pytestmark = [pytest.mark.browser]

expect.set_options(timeout=PATIENCE * 1000)

REPORT = "\n\n".join(f"{angle.capitalize()}: {' '.join(pages)}" for angle, pages in LIBRARY.items())


@pytest.fixture
def example(tmp_path: Path) -> Iterator[Example]:
    served = Example("research_team", "RESEARCH", tmp_path, pause="0.02")
    yield served
    served.kill()


@asynccontextmanager
async def opened(url: str, **options: Any) -> AsyncIterator[Page]:
    async with browsing() as browser, visiting(browser, url, **options) as page:
        yield page


async def ask(page: Page, text: str | None = None) -> None:
    await expect(page.locator("#link")).to_have_text("connected")
    if text is not None:
        await page.get_by_role("textbox").fill(text)
    await page.get_by_role("button", name="Ask").click()


async def test_three_researchers_are_at_work_at_once_and_their_words_become_the_report(example: Example) -> None:
    example.start()
    async with opened(example.url) as page:
        await ask(page)
        await expect(page.locator('.card[data-status="working"]')).to_have_count(3)
        await expect(page.locator(".report")).to_have_text(REPORT)
        await expect(page.locator('.card[data-status="completed"]')).to_have_count(3)
        await page.reload()
        await expect(page.locator('.card[data-status="completed"]')).to_have_count(3)
        await expect(page.locator(".card .text").first).to_have_text(" ".join(LIBRARY["history"]))
        await expect(page.locator(".report")).to_have_text(REPORT)


async def test_a_researcher_without_a_shelf_fails_alone(example: Example) -> None:
    example.start("0")
    async with opened(example.url) as page:
        await ask(page, "What does astrology say?")
        await expect(page.locator('.card[data-status="error"] .note')).to_have_text(
            "There is nothing about astrology here."
        )
        await expect(page.locator('.card[data-status="completed"]')).to_have_count(2)
        await expect(page.locator(".report")).to_contain_text("Astrology: There is nothing")


async def test_stop_stops_every_agent(example: Example) -> None:
    example.start("0.2")
    async with opened(example.url) as page:
        await ask(page)
        await expect(page.locator(".card .text").first).to_have_text(re.compile("^Sailors"))
        await page.get_by_role("button", name="Stop").click()
        await expect(page.locator('.card[data-status="aborted"]')).to_have_count(3)


@pytest.mark.crash
async def test_a_kill_in_the_middle_loses_nobodys_words(example: Example) -> None:
    example.start("0.05")
    async with opened(example.url) as page:
        await ask(page)
        await expect(page.locator(".card .text").last).to_have_text(re.compile("table"))
        example.kill()
        await expect(page.locator("#link")).to_have_text("away; trying again …")
        example.start("0")
        await expect(page.locator('.card[data-status="completed"]')).to_have_count(3)
        await expect(page.locator(".report")).to_have_text(REPORT)
        for place, pages in enumerate(LIBRARY.values()):
            await expect(page.locator(".card .text").nth(place)).to_have_text(" ".join(pages))


async def test_the_page_fits_and_can_be_read(example: Example, tmp_path: Path) -> None:
    example.start("0")
    folder = Path(os.environ.get("SCREENSHOTS", tmp_path))
    for is_first, (scheme, width) in zip(
        [True, False, False, False], product(["light", "dark"], [390, 1100]), strict=True
    ):
        async with opened(example.url, viewport={"width": width, "height": 844}, color_scheme=scheme) as page:
            if is_first:
                await ask(page)
            await expect(page.locator('.card[data-status="completed"]')).to_have_count(3)
            await expect(page.locator(".report")).to_have_text(REPORT)
            assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
            ink, ground = await page.evaluate(
                """(style => [style.color, style.backgroundColor].map(colour =>
                  colour.match(/\\d+/g).reduce((sum, part) => sum + Number(part), 0)
                ))(getComputedStyle(document.documentElement))"""
            )
            assert (ink < ground) == (scheme == "light")
            assert abs(ink - ground) > 450, "words stand out"
            await page.screenshot(path=folder / f"research-team-{scheme}-{width}.png", full_page=True)
