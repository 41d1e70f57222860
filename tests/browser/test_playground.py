"""The playground in a real browser: it streams, and nothing that happens to it or to the server loses a word."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.async_api import expect

from everyword.demo import Demo
from everyword.demo.words import ERROR_BEFORE, ERROR_TEXT, HELLO, TOOL_AFTER, TOOL_BEFORE
from tests.browser.playground_tab import Tab, browsing, letters, open_tab, running_demo
from tests.server.kit import PATIENCE

pytestmark = [pytest.mark.browser]

expect.set_options(timeout=PATIENCE * 1000)

EARLY, LATE = "no model, no API key", "run into an error."


async def expect_said(tab: Tab, text: str) -> None:
    """Wait until nothing runs any more; the last answer is then this text, to the letter."""
    await expect(tab.link).to_have_text("live")
    await expect(tab.page.locator("#messages")).to_have_attribute("aria-busy", "false")
    assert await tab.text() == letters(text)


async def check_seen(tab: Tab, text: str, *, least: int = 4) -> None:
    """Whatever the first answer looked like at any moment was a beginning of the text: no word lost, none doubled."""
    states = await tab.states()
    assert len(states) >= least
    assert [state for state in states if not letters(text).startswith(state)] == []


async def test_the_page_shows_suggestions_sends_a_question_and_streams_the_answer(demo_url: str) -> None:
    async with browsing() as browser:
        tab = await open_tab(browser, demo_url)
        await expect(tab.page.locator("#suggestions button")).to_have_count(len(Demo.suggestions))
        await expect(tab.box).to_be_focused()
        await tab.ask("hello there")
        await expect(tab.questions.locator(".text")).to_have_text(["hello there"])
        await expect(tab.page.locator("#empty")).to_be_hidden()
        await expect(tab.answers).to_contain_text(EARLY)
        assert letters(LATE) not in await tab.text()
        await expect(tab.link).to_have_text("answering")
        await expect(tab.answers).to_contain_text(LATE)
        await expect_said(tab, HELLO)
        await check_seen(tab, HELLO)
        assert tab.problems == []


async def test_every_message_shows_its_time_quietly_and_the_same_after_a_reload(demo_url: str) -> None:
    async with browsing() as browser:
        tab = await open_tab(browser, demo_url)
        await tab.ask("hello there")
        await expect(tab.answers).to_contain_text(LATE)
        await expect_said(tab, HELLO)
        times = tab.page.locator("#messages li time")
        await expect(times).to_have_count(2)
        shown = await times.evaluate_all("all => all.map(each => [each.dateTime, each.textContent, each.title])")
        assert all(re.fullmatch(r"\d\d:\d\d( [AP]M)?", text) for _, text, _ in shown)
        asked, answered = (datetime.fromisoformat(iso) for iso, _, _ in shown)
        assert abs((datetime.now(UTC) - asked).total_seconds()) < 3600 and asked <= answered
        await tab.page.reload()
        await expect(times).to_have_count(2)
        again = await times.evaluate_all("all => all.map(each => [each.dateTime, each.textContent, each.title])")
        assert again == shown
        assert tab.problems == []


async def test_an_empty_page_in_a_low_window_shows_its_beginning(demo_url: str) -> None:
    async with browsing() as browser:
        tab = await open_tab(browser, demo_url, viewport={"width": 720, "height": 400})
        await expect(tab.page.locator("#suggestions button")).to_have_count(len(Demo.suggestions))
        await expect(tab.link).to_have_text("live")
        await expect(tab.page.get_by_role("heading", name="Ask something.")).to_be_in_viewport(ratio=1)
        await tab.ask("hello there")
        await expect(tab.answers).to_contain_text(LATE)
        await expect_said(tab, HELLO)
        await expect(tab.answers.get_by_text(LATE)).to_be_in_viewport()


async def test_a_reload_in_the_middle_of_an_answer_shows_the_whole_answer(demo_url: str) -> None:
    async with browsing() as browser:
        tab = await open_tab(browser, demo_url)
        await tab.ask("hello")
        await expect(tab.answers).to_contain_text(EARLY)
        await tab.page.reload()
        await expect(tab.answers).to_contain_text(EARLY)
        await expect(tab.answers).to_contain_text(LATE)
        await expect_said(tab, HELLO)
        await check_seen(tab, HELLO, least=1)
        await tab.page.reload()
        await expect_said(tab, HELLO)
        assert await tab.answers.count() == 1
        assert tab.problems == []


@pytest.mark.crash
async def test_a_killed_server_finishes_the_sentence_on_the_page_by_itself_when_it_is_back(tmp_path: Path) -> None:
    async with browsing() as browser:
        async with running_demo(tmp_path) as (server, url):
            tab = await open_tab(browser, url)
            await tab.ask("hello")
            await expect(tab.answers).to_contain_text(EARLY)
            server.process.kill()
            await server.ended()
            await expect(tab.away).to_be_visible()
            before = await tab.text()
            assert letters(HELLO).startswith(before) and letters(LATE) not in before
            await tab.ask("hello again")
            await expect(tab.page.locator("li.user.waiting")).to_have_text("hello again")
        async with running_demo(tmp_path, str(urlsplit(url).port)):
            await expect(tab.away).to_be_hidden()
            await expect(tab.answers.first).to_contain_text(LATE)
            assert await tab.text(0) == letters(HELLO)
            await expect(tab.answers).to_have_count(2)
            await expect(tab.answers.last).to_contain_text(LATE)
            await expect_said(tab, HELLO)
            await expect(tab.questions.locator(".text")).to_have_text(["hello", "hello again"])
            listed = tab.page.locator("#conversations a")
            await expect(listed).to_have_attribute("data-state", "idle")  # the list reconnects, too
            await expect(listed.locator(".title")).to_have_text("hello")
            await check_seen(tab, HELLO)
            await tab.page.reload()
            await expect(tab.questions.locator(".text")).to_have_text(["hello", "hello again"])
            assert [await tab.text(0), await tab.text(1)] == [letters(HELLO)] * 2
        assert tab.problems == []


async def test_two_tabs_see_the_same_conversation_while_it_happens(demo_url: str) -> None:
    async with browsing() as browser:
        one, two = await open_tab(browser, demo_url), await open_tab(browser, demo_url)
        await expect(two.link).to_have_text("live")
        await one.ask("hello")
        await expect(two.questions.locator(".text")).to_have_text(["hello"])
        await expect(two.answers).to_contain_text(EARLY)
        three = await open_tab(browser, demo_url)
        await expect(three.answers).to_contain_text(EARLY)
        for tab in (one, two, three):
            await expect(tab.answers).to_contain_text(LATE)
            await expect_said(tab, HELLO)
            await check_seen(tab, HELLO, least=1 if tab is three else 4)  # how much was left for it is not known
        await two.ask("use a tool")
        for tab in (one, two, three):
            await expect(tab.answers).to_have_count(2)
            await expect(tab.answers.last).to_contain_text("a good day to sail")
        for tab in (one, two, three):
            await expect_said(tab, TOOL_BEFORE + TOOL_AFTER)
            await expect(tab.page.locator(".tool")).to_have_attribute("data-state", "done")
            assert tab.problems == []


async def test_stop_stops_and_every_tab_says_so_also_after_a_reload(demo_url: str) -> None:
    async with browsing() as browser:
        one, two = await open_tab(browser, demo_url), await open_tab(browser, demo_url)
        await one.ask("a long story")
        await expect(two.answers).to_contain_text("lighthouse keeper")
        await two.page.get_by_role("button", name="Stop").click()
        for tab in (one, two):
            await expect(tab.page.locator(".ending.aborted")).to_have_text("Stopped.")
        assert await one.text() == await two.text()
        await one.page.reload()
        await expect(one.page.locator(".ending.aborted")).to_have_text("Stopped.")
        assert await one.text() == await two.text()
        await one.ask("another long story")
        await expect(one.answers).to_have_count(2)
        await expect(one.answers.last).to_contain_text("lighthouse keeper")
        await one.page.keyboard.press("Escape")
        await expect(one.page.locator(".ending.aborted")).to_have_text(["Stopped.", "Stopped."])


async def test_an_error_keeps_what_was_said_and_a_suggestion_asks_with_one_click(demo_url: str) -> None:
    async with browsing() as browser:
        tab = await open_tab(browser, demo_url)
        await tab.page.get_by_role("button", name="Run into an error").click()
        await expect(tab.page.locator("#messages .ending.error")).to_have_text(ERROR_TEXT)
        await expect_said(tab, ERROR_BEFORE)
        await tab.page.reload()
        await expect(tab.page.locator("#messages .ending.error")).to_have_text(ERROR_TEXT)
        await expect_said(tab, ERROR_BEFORE)


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_page_fits_a_phone_and_follows_the_colour_scheme(demo_url: str, scheme: str) -> None:
    async with browsing() as browser:
        size = {"width": 390, "height": 780}
        tab = await open_tab(browser, demo_url, viewport=size, color_scheme=scheme)
        await tab.ask("tool " + "x" * 300)
        await expect(tab.answers).to_contain_text("a good day to sail")
        widths = [await tab.page.locator(name).bounding_box() for name in ("body", "main", "#composer", "#messages")]
        assert all(box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 390 for box in widths)
        body = tab.page.locator("body")
        colour = {"light": "rgb(251, 250, 247)", "dark": "rgb(20, 24, 26)"}[scheme]
        await expect(body).to_have_css("background-color", colour)


async def test_a_page_that_is_refused_says_why(demo_url: str) -> None:
    async with browsing() as browser:
        tab = await open_tab(browser, f"{demo_url}&agent=nobody")
        await expect(tab.away).to_contain_text("unable to find an agent of kind 'nobody'")
        await expect(tab.link).to_have_text("refused")
