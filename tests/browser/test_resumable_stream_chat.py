"""The example with managed streams: its own page, without a library, tells the story to its end whatever happens."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from examples.resumable_stream_chat.app import STORY
from tests.browser.example_page import Example, visiting
from tests.browser.playground_tab import browsing
from tests.server.kit import PATIENCE

pytestmark = [pytest.mark.browser]

expect.set_options(timeout=PATIENCE * 1000)

QUESTION = "Tell me a story"

# Records every state of the answer that was visible.
WATCH = """
window.states = [];
new MutationObserver(() => {
  const text = [...document.querySelectorAll("#messages .assistant p")].map((p) => p.textContent).join("|");
  if (text !== window.states.at(-1)) window.states.push(text);
}).observe(document, { subtree: true, childList: true, characterData: true });
"""


@pytest.fixture
def example(tmp_path: Path) -> Iterator[Example]:
    served = Example("resumable_stream_chat", "STREAM", tmp_path, pause="0.03")
    yield served
    served.kill()


@asynccontextmanager
async def opened(browser: Browser, url: str, **options: Any) -> AsyncIterator[Page]:
    async with visiting(browser, url, script=WATCH, **options) as page:
        await expect(page.locator("#link")).to_have_text("connected")
        yield page


async def ask(page: Page, text: str = QUESTION) -> None:
    await page.get_by_role("textbox").fill(text)
    await page.get_by_role("button", name="Send").click()


async def expect_whole(*pages: Page) -> None:
    """Wait until every page shows the whole story; whatever they showed before was a beginning of it."""
    for page in pages:
        await expect(page.locator("#messages .assistant")).to_have_attribute("data-is", "whole")
        await expect(page.locator("#messages .assistant p")).to_have_text(STORY)
        states = await page.evaluate("window.states")
        assert [state for state in states if not f"{STORY} ".startswith(state)] == []


@pytest.mark.obligation("004-39", "004-33", "004-34")
async def test_the_story_is_told_in_every_tab_and_goes_on_after_a_reload(example: Example) -> None:
    example.start()
    async with browsing() as browser, opened(browser, example.url) as one:
        await one.get_by_role("button", name=QUESTION, exact=True).click()
        await expect(one.locator("#messages .assistant p")).to_contain_text("lighthouse keeper")
        async with opened(browser, example.url) as two:
            await expect(two.locator("#messages .assistant p")).to_contain_text("lighthouse keeper")
            await one.reload()
            await expect(one.locator("#messages .assistant p")).to_contain_text("lighthouse keeper")
            await expect_whole(one, two)
            await expect(two.locator("#messages li")).to_have_count(2)
        await one.reload()
        await expect_whole(one)


@pytest.mark.crash
@pytest.mark.obligation("004-39", "004-4")
async def test_a_kill_in_the_middle_loses_no_word_and_says_none_twice(example: Example) -> None:
    example.start("0.05")
    async with browsing() as browser, opened(browser, example.url) as one, opened(browser, example.url) as two:
        await ask(one)
        for words in ("into a book", "One night"):
            await expect(two.locator("#messages .assistant p")).to_contain_text(words)
            example.kill()
            await expect(one.locator("#link")).to_have_text("away; trying again …")
            await expect(one.locator("#messages .assistant p")).to_contain_text(words)
            example.start("0.05")
        await expect_whole(one, two)


@pytest.mark.crash
async def test_a_question_asked_while_the_server_is_away_is_kept_in_the_box(example: Example) -> None:
    example.start("0")
    async with browsing() as browser, opened(browser, example.url) as page:
        example.kill()
        await expect(page.locator("#link")).to_have_attribute("data-is", "away")
        await ask(page, "anybody there?")
        await expect(page.locator("#link")).to_have_text(re.compile("away"))
        await expect(page.get_by_role("textbox")).to_have_value("anybody there?")
        example.start("0")
        await expect(page.locator("#link")).to_have_text("connected")
        await page.get_by_role("button", name="Send").click()
        await expect(page.locator("#messages .assistant p")).to_have_text("You said: anybody there?")


async def test_a_failed_answer_looks_the_same_live_and_after_a_reload(example: Example) -> None:
    example.start("0.01")
    async with browsing() as browser, opened(browser, example.url) as page:
        await ask(page, "a story that goes dark")
        failed = page.locator('#messages [data-is="failed"]')
        for _ in range(2):
            await expect(failed.locator("p")).to_have_text("There was a lighthouse ")
            await expect(failed.locator("small")).to_have_text("The lamp went out. Ask again.")
            await expect(page.locator("#messages li")).to_have_count(2)
            await page.reload()
        await ask(page, "hello")
        await expect(page.locator("#messages .assistant p")).to_have_text("You said: hello")
        await expect(failed).to_have_count(0)


async def test_clearing_empties_every_tab_in_the_middle_of_a_story(example: Example) -> None:
    example.start("0.05")
    async with browsing() as browser, opened(browser, example.url) as one, opened(browser, example.url) as two:
        await ask(one)
        await expect(two.locator("#messages .assistant p")).to_contain_text("lighthouse")
        await two.get_by_role("button", name="Clear").click()
        for page in (one, two):
            await expect(page.locator("#messages li")).to_have_count(0)
            await expect(page.locator("#empty")).to_be_visible()
        await ask(one, "hello")
        for page in (one, two):
            await expect(page.locator("#messages .assistant p")).to_have_text("You said: hello")
            await expect(page.locator("#messages li")).to_have_count(2)


async def test_text_is_shown_as_text(example: Example) -> None:
    example.start("0")
    async with browsing() as browser, opened(browser, example.url) as page:
        await ask(page, "<img src=x onerror=alert(1)> & <b>bold</b>")
        await expect(page.locator("#messages .assistant p")).to_have_text(
            "You said: <img src=x onerror=alert(1)> & <b>bold</b>"
        )
        assert await page.locator("#messages img, #messages b").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1100])
async def test_the_page_fits_and_can_be_read(example: Example, scheme: Any, width: int, tmp_path: Path) -> None:
    example.start("0.03")
    folder = Path(os.environ.get("SCREENSHOTS", tmp_path))
    size = {"width": width, "height": 844}
    async with browsing() as browser, opened(browser, example.url, viewport=size, color_scheme=scheme) as page:
        await page.screenshot(path=folder / f"resumable-{scheme}-{width}-empty.png")
        await ask(page)
        await expect(page.locator("#messages .assistant p")).to_contain_text("the lamp went out")
        await page.screenshot(path=folder / f"resumable-{scheme}-{width}-streaming.png")
        await expect_whole(page)
        await ask(page, "a story that goes dark")
        await expect(page.locator('#messages [data-is="failed"]')).to_have_count(1)
        await page.screenshot(path=folder / f"resumable-{scheme}-{width}-failed.png")
        assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        light = "(c => c.match(/\\d+/g).slice(0, 3).reduce((sum, n) => sum + Number(n), 0))"
        ink, ground = [
            await page.evaluate(f"{light}(getComputedStyle(document.documentElement).{name})")
            for name in ("color", "backgroundColor")
        ]
        assert (ink < ground) == (scheme == "light")
