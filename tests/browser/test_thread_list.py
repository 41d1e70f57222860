"""The example with two pages that list conversations: plain React, and assistant-ui with its own thread list."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from playwright.async_api import Browser, BrowserContext, Locator, Page, Route, expect

from examples.thread_list.server import STORY
from tests.architecture.tree import ROOT
from tests.browser.example_page import Example
from tests.browser.page_bundles import build_example
from tests.browser.playground_tab import browsing
from tests.server.kit import PATIENCE

pytestmark = [pytest.mark.browser]

expect.set_options(timeout=PATIENCE * 1000)

QUESTION = "Tell me a story"
ANOTHER = "Tell me another story"

# Records every title and every status that a row has shown.
WATCH = """
window.titles = new Set();
window.statuses = new Set();
addEventListener("DOMContentLoaded", () => new MutationObserver(() => {
  for (const row of document.querySelectorAll("nav .row")) {
    window.titles.add(row.querySelector(".title").textContent);
    window.statuses.add(row.querySelector(".dot").dataset.status);
  }
}).observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true }));
"""


@pytest.fixture(params=["sidebar", "assistant-ui"])
def page_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def example(tmp_path: Path) -> Iterator[Example]:
    build = build_example(ROOT / "examples" / "thread_list")
    served = Example("thread_list", "THREADS", tmp_path, pause="0.2", module="server", build=build)
    yield served
    served.kill()


class Tab:
    """A tab of a user."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.problems: list[str] = []
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.list = page.get_by_role("navigation", name="Conversations")
        self.messages = page.locator(".messages [data-role]")

    def row(self, title: str) -> Locator:
        return self.list.locator("[data-name]").filter(has=self.page.get_by_text(title, exact=True))

    def status(self, title: str) -> Locator:
        return self.row(title).locator(".dot")

    def unread(self, title: str) -> Locator:
        return self.row(title).locator(".unread")

    async def begin(self, question: str) -> None:
        await self.page.get_by_role("button", name="New conversation").click()
        await expect(self.messages).to_have_count(0)
        await self.ask(question)

    async def ask(self, question: str) -> None:
        box = self.page.get_by_role("textbox", name="Your message")
        await box.fill(question)
        await box.press("Enter")
        await expect(self.messages.filter(has_text=question).first).to_be_visible()

    async def open(self, title: str) -> None:
        await self.row(title).locator(".row").click()
        await expect(self.page.get_by_role("heading", level=1)).to_have_text(title)
        await expect(self.messages.first).to_be_visible()

    async def press(self, title: str, button: str) -> None:
        """Press a button of a row; it is shown when the row is pointed at."""
        await self.row(title).hover()
        await self.row(title).get_by_role("button", name=button, exact=True).click()

    async def stop(self) -> None:
        await self.page.get_by_role("button", name="Stop").click()

    async def expect_answer(self, text: str) -> None:
        await expect(self.messages.last).to_have_text(re.compile(rf"^\s*{re.escape(text)}\s*$"))

    @property
    def open_name(self) -> str:
        """The name of the open conversation, as it is in the URL."""
        return parse_qs(urlsplit(self.page.url).query)["c"][0]


@asynccontextmanager
async def user(browser: Browser, example: Example, name: str, page_name: str, **options: Any) -> AsyncIterator[Any]:
    """Log a user in; yields a function that opens tabs."""
    context: BrowserContext = await browser.new_context(**options)
    context.set_default_timeout(PATIENCE * 1000)
    await context.add_init_script(WATCH)
    tabs: list[Tab] = []

    async def opened() -> Tab:
        tab = Tab(await context.new_page())
        tabs.append(tab)
        await tab.page.goto(example.url)
        await tab.page.locator(f"input[value={page_name}]").check()
        await tab.page.get_by_role("button", name=f"Log in as {name.title()}").click()
        await expect(tab.list).not_to_contain_text("Loading")
        return tab

    yield opened
    assert [tab.problems for tab in tabs if tab.problems] == []
    await context.close()


async def test_a_new_conversation_is_listed_runs_and_is_read_in_every_tab(example: Example, page_name: str) -> None:
    example.start("0.5")
    async with browsing() as browser, user(browser, example, "ann", page_name) as opened:
        one, two = await opened(), await opened()
        await one.begin(QUESTION)
        for tab in (one, two):
            await expect(tab.status(QUESTION)).to_have_attribute("data-status", "running")
        await one.stop()
        for tab in (one, two):
            await expect(tab.status(QUESTION)).to_have_attribute("data-status", "idle")
            await expect(tab.unread(QUESTION)).to_have_count(0)  # it is open in the first tab
        await one.begin(ANOTHER)
        await expect(one.messages.last).to_contain_text("post office")
        name = await one.row(ANOTHER).get_attribute("data-name")
        await one.open(QUESTION)
        stopped = await one.page.request.post(f"{example.url}/agents/chat/{name}/chat/stop")  # while no tab shows it
        assert len((await stopped.json())["stopped"]) == 1
        for tab in (one, two):
            await expect(tab.status(ANOTHER)).to_have_attribute("data-status", "idle")
            await expect(tab.unread(ANOTHER)).to_have_text("1")
        await two.open(ANOTHER)
        await expect(two.messages.last).to_contain_text("post office")
        await expect(one.unread(ANOTHER)).to_have_count(0)
        await one.open(ANOTHER)
        await one.ask("hello")
        for tab in (one, two):
            await tab.expect_answer("You said: hello")  # it is open in both tabs, so it is read
            await expect(tab.unread(ANOTHER)).to_have_count(0)
            await expect(tab.messages).to_have_count(4)
            assert set(await tab.page.evaluate("[...window.titles]")) == {QUESTION, ANOTHER}


async def test_changes_are_seen_in_the_other_tab_and_by_no_other_user(example: Example, page_name: str) -> None:
    example.start()
    async with (
        browsing() as browser,
        user(browser, example, "ann", page_name) as ann,
        user(browser, example, "bob", page_name) as bob,
    ):
        one, two, other = await ann(), await ann(), await bob()
        await one.begin("hello")
        await one.expect_answer("You said: hello")
        await two.open("hello")
        await two.press("hello", "Rename")
        await two.page.get_by_role("textbox", name="Title").fill("Greeting")
        await two.page.get_by_role("textbox", name="Title").press("Enter")
        for tab in (one, two):
            await expect(tab.row("Greeting")).to_be_visible()
            await expect(tab.page.get_by_role("heading", level=1)).to_have_text("Greeting")
        await two.press("Greeting", "Archive")
        for tab in (one, two):
            await expect(tab.list.locator("summary")).to_have_text("Archived (1)")
            await tab.list.locator("summary").click()
        await one.press("Greeting", "Unarchive")
        for tab in (one, two):
            await expect(tab.list.locator("summary")).to_have_count(0)
            await expect(tab.row("Greeting")).to_be_visible()
        await two.open("Greeting")
        name = two.open_name
        await one.press("Greeting", "Delete")
        await one.page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
        await one.press("Greeting", "Delete")
        await one.page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        for tab in (one, two):
            await expect(tab.list).to_contain_text("No conversations yet")
            await expect(tab.messages).to_have_count(0)
            await expect(tab.page).to_have_url(re.compile(r"\.html$"))
        await one.begin("a secret")
        await expect(other.list).to_contain_text("No conversations yet")
        assert await other.page.evaluate("[...window.titles]") == []
        for path in (f"/conversations/chat/{one.open_name}", f"/agents/chat/{one.open_name}/get-messages"):
            assert (await other.page.request.get(f"{example.url}{path}")).status == 403
        assert (await one.page.request.get(f"{example.url}/conversations/chat/{name}")).status == 404


@pytest.mark.crash
async def test_a_kill_and_reloads_keep_the_list_and_the_running_answer(example: Example, page_name: str) -> None:
    example.start()
    async with browsing() as browser, user(browser, example, "ann", page_name) as opened:
        one, two = await opened(), await opened()
        await one.begin("hello")
        await one.expect_answer("You said: hello")
        await one.begin(QUESTION)
        await expect(one.messages.last).to_contain_text("post office")
        await two.open(QUESTION)
        await expect(two.messages.last).to_contain_text("post office")
        example.kill()
        for tab in (one, two):
            await expect(tab.page.get_by_role("status")).to_contain_text("The server is away")
        await one.press("hello", "Archive")
        await expect(one.page.get_by_role("alert").first).to_have_text("The server is away. Try again in a moment.")
        await expect(one.row("hello")).to_be_visible()
        example.start("0.02")
        for tab in (one, two):
            await expect(tab.page.get_by_role("status")).to_have_count(0)
            await expect(tab.page.get_by_role("alert")).to_have_count(0)
            await tab.expect_answer(STORY)
            await expect(tab.status(QUESTION)).to_have_attribute("data-status", "idle")
            await tab.page.reload()
            await tab.expect_answer(STORY)
            await expect(tab.messages).to_have_count(2)
            await expect(tab.row("hello")).to_be_visible()
            await expect(tab.row(QUESTION)).to_have_attribute("data-open", "true")


async def test_a_long_list_is_loaded_page_by_page(example: Example, page_name: str) -> None:
    example.start("0")
    async with browsing() as browser, user(browser, example, "ann", page_name) as opened:
        at: dict[str, Any] = {
            "base_url": example.url,
            "cookies": {"user": "ann"},
            "trust_env": False,
            "timeout": PATIENCE,
        }
        async with httpx.AsyncClient(**at) as client:
            for number in range(23):
                question = {"id": "q", "role": "user", "parts": [{"type": "text", "text": f"number {number}"}]}
                answer = await client.post(f"/agents/chat/ann.{number}/chat", json={"messages": [question]})
                answer.raise_for_status()
        tab = await opened()
        rows = tab.list.locator("[data-name]")
        await expect(rows).to_have_count(20)
        await tab.page.get_by_role("button", name="Load more").click()
        await expect(rows).to_have_count(23)
        await expect(tab.page.get_by_role("button", name="Load more")).to_have_count(0)
        await tab.open("number 0")
        await tab.ask("once more")
        await expect(rows.first).to_contain_text("number 0")
        await expect(rows).to_have_count(23)


async def test_what_is_opened_while_the_server_is_away_comes_with_it(example: Example, page_name: str) -> None:
    example.start("0.02")
    async with browsing() as browser, user(browser, example, "ann", page_name) as opened:
        tab = await opened()
        for question in ("one", "two"):
            await tab.begin(question)
            await tab.expect_answer(f"You said: {question}")
        await tab.page.reload()  # nothing of the other conversation is in this page
        await expect(tab.row("one")).to_be_visible()
        example.kill()
        await expect(tab.page.get_by_text("The server is away")).to_be_visible()
        await tab.row("one").locator(".row").click()
        await expect(tab.row("one")).to_have_attribute("data-open", "true")
        example.start("0.02")
        await tab.expect_answer("You said: one")
        await expect(tab.messages).to_have_count(2)


@pytest.mark.parametrize("page_name", ["assistant-ui"])  # the other page knows no rows before its live list
async def test_what_is_opened_before_the_list_is_live_comes_with_the_server(example: Example, page_name: str) -> None:
    example.start("0.02")
    async with browsing() as browser, user(browser, example, "ann", page_name) as opened:
        tab = await opened()
        for question in ("one", "two"):
            await tab.begin(question)
            await tab.expect_answer(f"You said: {question}")
        is_away = asyncio.Event()

        async def follow_late(route: Route) -> None:
            if route.request.resource_type == "eventsource":
                await is_away.wait()
            await route.continue_()

        await tab.page.route(re.compile(r"/conversations\?"), follow_late)
        await tab.page.reload()
        await expect(tab.row("one")).to_be_visible()
        example.kill()
        is_away.set()
        await expect(tab.page.get_by_text("The server is away")).to_be_visible()
        await tab.row("one").locator(".row").click()
        await expect(tab.row("one")).to_have_attribute("data-open", "true")
        example.start("0.02")
        await tab.expect_answer("You said: one")
        await expect(tab.messages).to_have_count(2)


async def test_a_question_that_is_asked_while_the_server_is_away_is_answered(example: Example, page_name: str) -> None:
    example.start("0.02")
    async with browsing() as browser, user(browser, example, "ann", page_name) as opened:
        tab = await opened()
        await tab.begin("one")
        await tab.expect_answer("You said: one")
        example.kill()
        await expect(tab.page.get_by_text("The server is away")).to_be_visible()
        await expect(tab.page.get_by_role("alert")).to_have_count(0)  # nothing went wrong that will not go away
        await tab.ask("two")
        if page_name == "assistant-ui":  # the other page opens a new conversation when the server is back
            await tab.begin("never mind")
            await tab.stop()
            await expect(tab.page.get_by_role("button", name="Send")).to_be_visible()
            await tab.begin("three")
        await expect(tab.page.get_by_role("alert")).to_have_count(0)
        example.start("0.02")
        if page_name == "assistant-ui":
            await tab.expect_answer("You said: three")
            await expect(tab.messages).to_have_count(2)
            await tab.open("one")
        await tab.expect_answer("You said: two")
        await expect(tab.messages).to_have_count(4)
        await tab.page.reload()
        await expect(tab.messages).to_have_count(4)


async def test_an_approval_that_is_given_while_the_server_is_away_counts(example: Example, page_name: str) -> None:
    example.start("0.02")
    async with browsing() as browser, user(browser, example, "ann", page_name) as opened:
        tab = await opened()
        await tab.begin("publish it")
        await expect(tab.page.get_by_role("button", name="Approve")).to_be_enabled()
        await expect(tab.status("publish it")).to_have_attribute("data-status", "waiting")
        example.kill()
        await expect(tab.page.get_by_text("The server is away")).to_be_visible()
        await tab.page.get_by_role("button", name="Approve").click()
        example.start("0.02")
        await expect(tab.messages.last).to_contain_text("It is published.")
        await expect(tab.messages).to_have_count(2)
        await expect(tab.status("publish it")).to_have_attribute("data-status", "idle")
        await expect(tab.page.get_by_role("alert")).to_have_count(0)


async def test_an_answer_that_went_on_after_a_kill_is_one_paragraph(example: Example, page_name: str) -> None:
    example.start("0.1")
    async with browsing() as browser, user(browser, example, "ann", page_name) as opened:
        tab = await opened()
        await tab.begin(QUESTION)
        await expect(tab.messages.last).to_contain_text("post office")
        example.kill()
        example.start("0.02")
        await expect(tab.status(QUESTION)).to_have_attribute("data-status", "idle")
        await tab.expect_answer(STORY)
        lines = "[...document.querySelectorAll('.messages [data-role=assistant]')].at(-1).innerText.trim().split('\\n')"
        assert len(await tab.page.evaluate(lines)) == 1


async def test_an_address_of_another_user_s_conversation_opens_none(example: Example, page_name: str) -> None:
    example.start("0.02")
    async with browsing() as browser, user(browser, example, "bob", page_name) as bobs:
        bob = await bobs()
        await bob.begin("mine")
        await bob.expect_answer("You said: mine")
        async with user(browser, example, "ann", page_name) as opened:
            ann = await opened()
            await ann.page.goto(bob.page.url)
            said = {"sidebar": "This conversation belongs to somebody else.", "assistant-ui": "New conversation"}
            await expect(ann.page.locator("section")).to_contain_text(said[page_name])
            await expect(ann.messages).to_have_count(0)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1100), ("dark", 390)])
async def test_the_page_fits_and_shows_what_waits_and_what_failed(
    example: Example, page_name: str, scheme: Any, width: int, tmp_path: Path
) -> None:
    example.start("0.02")
    folder = Path(os.environ.get("SCREENSHOTS", tmp_path))
    size = {"width": width, "height": 800}
    is_small = width < 700
    async with AsyncExitStack() as stack:
        browser = await stack.enter_async_context(browsing())
        options = {"viewport": size, "color_scheme": scheme, "has_touch": is_small, "is_mobile": is_small}
        tab = await (await stack.enter_async_context(user(browser, example, "ann", page_name, **options)))()

        async def seen(what: str) -> None:
            await tab.page.screenshot(path=folder / f"{page_name}-{scheme}-{what}.png")
            assert await tab.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")

        async def back() -> None:
            if is_small:
                await tab.page.get_by_role("button", name="Back to the list").click()
                await expect(tab.list).to_be_visible()

        await seen("empty")
        await tab.begin("publish it")
        await expect(tab.page.get_by_role("button", name="Approve")).to_be_enabled()
        await seen("waiting")
        await back()
        await expect(tab.status("publish it")).to_have_attribute("data-status", "waiting")
        await seen("waiting-list")
        await tab.open("publish it")
        await tab.page.get_by_role("button", name="Approve").click()
        await expect(tab.messages.last).to_contain_text("It is published.")
        await expect(tab.messages).to_have_count(2)
        await back()
        await expect(tab.status("publish it")).to_have_attribute("data-status", "idle")
        await tab.begin("fail, with a title that is much too long for one line of a list of conversations")
        await expect(tab.page.get_by_role("alert")).to_have_text("The ink ran out. Ask again.")
        await seen("failed")
        await tab.page.reload()
        await expect(tab.page.get_by_role("alert")).to_have_text(re.compile("^The (answer failed|ink ran out)"))
        await back()
        await expect(tab.list.locator('.dot[data-status="failed"]')).to_have_count(1)
        await seen("failed-list")
