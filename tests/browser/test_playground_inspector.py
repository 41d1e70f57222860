"""The inspector, the list of conversations, and everything around the conversation, in a real browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.browser.playground_server import running_playground
from tests.browser.playground_tab import Tab
from tests.server.kit import PATIENCE

pytestmark = [pytest.mark.browser]

expect.set_options(timeout=PATIENCE * 1000)

NAMELESS = """
[...document.querySelectorAll("button, a, input, textarea, select, [role=tab]")].filter((element) => {
  const label = element.ariaLabel || element.innerText.trim() || element.labels?.[0]?.innerText.trim() || element.title;
  return element.checkVisibility() && !label;
}).map((element) => element.outerHTML)
"""


async def play(tab: Tab, *items: Any) -> None:
    await tab.ask(json.dumps(items))


async def show(page: Page, name: str) -> None:
    await page.get_by_role("tab", name=name).click()


async def test_a_turn_is_drawn_from_the_log_while_it_runs_and_when_it_has_ended(tmp_path: Path) -> None:
    async with running_playground(tmp_path) as playground:
        tab = await playground.open()
        usage = {"type": "finish", "finishReason": "stop", "messageMetadata": {"usage": {"inputTokens": 7}}}
        await play(tab, "words ", {"call": "add", "one": 1, "other": 2}, {"wait": "end"}, "more", usage)
        picture = tab.page.locator("svg.timeline")
        await expect(picture).to_have_attribute("aria-label", "Turn 1: 1 attempt, 7 chunks, 1 call, running")
        await expect(picture.locator(".lane")).to_have_text(["attempts", "chunks", "add", "marks"])
        playground.gates["end"].open()
        facts = tab.page.locator("#panel-turns .facts")
        await expect(facts).to_contain_text("outcomecompleted")
        await expect(facts).to_contain_text("finishstop")
        await expect(facts).to_contain_text("usageinput 7")
        await expect(picture.locator(".mark.end.completed")).to_have_count(1)
        await play(tab, "half", {"wait": "stop"})
        await expect(tab.answers.last).to_contain_text("half")
        await tab.page.keyboard.press("Escape")
        await expect(tab.page.locator("#panel-turns .turns button").first).to_contain_text("#2aborted")
        await expect(picture.locator("title", has_text="stop requested")).to_have_count(1)
        await tab.page.locator("#panel-turns .turns button").last.click()
        await expect(facts).to_contain_text("usageinput 7")
        assert tab.problems == []


async def test_the_log_and_the_frames_can_be_filtered_and_opened() -> None:
    async with running_playground() as playground:
        tab = await playground.open()
        await tab.ask("ahoy")
        await expect(tab.answers.last).to_contain_text("You said: ahoy")
        await show(tab.page, "Log")
        lines = tab.page.locator("#panel-log .line")
        search = tab.page.get_by_role("searchbox", name="Filter the events of the log")
        await search.fill("turn.ended")
        await expect(lines).to_contain_text(["turn.ended #1 completed"])
        await search.fill("turn.accepted")
        await expect(lines).to_have_count(1)
        await lines.locator("summary").click()
        await expect(lines.locator("pre")).to_contain_text('"text": "ahoy"')
        await show(tab.page, "Frames")
        frames = tab.page.locator("#panel-frames .line")
        await expect(frames.first).to_contain_text("end: completed")
        await tab.page.get_by_role("searchbox", name="Filter the frames").fill("use_chat_request")
        await expect(frames).to_have_count(1)
        await expect(frames).to_have_class("line out")
        await frames.locator("summary").click()
        await expect(frames.locator("pre")).to_contain_text('"trigger": "submit-message"')
        assert tab.problems == []


async def test_a_cut_connection_comes_back_by_itself_and_nothing_is_lost() -> None:
    async with running_playground() as playground:
        tab = await playground.open()
        await play(tab, "before, ", {"wait": "cut"}, "meanwhile, ", {"wait": "back"}, "after.")
        await expect(tab.answers.last).to_contain_text("before,")
        await tab.page.get_by_role("button", name="Cut the connection").click()
        await expect(tab.link).to_have_text("disconnected")
        await expect(tab.away).to_contain_text("You cut the connection")
        playground.gates["cut"].open()
        await playground.gates["back"].reached.wait()
        await expect(tab.answers.last).not_to_contain_text("meanwhile")
        await expect(tab.answers.last).to_contain_text("before, meanwhile,")
        await expect(tab.away).to_be_hidden()
        playground.gates["back"].open()
        await expect(tab.answers.last.locator(".text")).to_have_text("before, meanwhile, after.")
        await show(tab.page, "State")
        await expect(tab.page.locator("#panel-state")).to_contain_text("connected2 times")
        assert tab.problems == []


async def test_a_late_client_sees_the_same_in_the_middle_of_an_answer_and_after_it() -> None:
    async with running_playground() as playground:
        tab = await playground.open()
        await tab.ask("hello")
        await expect(tab.answers.last).to_contain_text("You said: hello")
        think = [{"type": f"reasoning-{moment}", "id": "r", "delta": "hm"} for moment in ("start", "delta", "end")]
        await play(tab, *think, "one ", "two ", {"call": "add", "one": 1, "other": 2}, {"wait": "late"}, "three")
        await expect(tab.page.locator(".tool")).to_have_attribute("data-state", "done")
        await tab.page.get_by_role("button", name="What would a late client see?").click()
        verdict = tab.page.locator("#verdict")
        await expect(verdict).to_have_attribute("data-state", "equal")
        await expect(verdict).to_contain_text("the same 4 messages, to the last letter, and the answer still grows")
        playground.gates["late"].open()
        await expect(tab.page.locator("#there")).to_contain_text("three")
        await expect(verdict).to_have_text("Equal: both show the same 4 messages, to the last letter.")
        assert await tab.page.locator("#here").inner_text() == await tab.page.locator("#there").inner_text()
        await tab.page.keyboard.press("Escape")
        await expect(tab.page.locator("#late")).to_be_hidden()
        await expect(tab.box).to_be_visible()
        assert tab.problems == []


async def test_the_state_is_shown_and_set_and_every_tab_has_it() -> None:
    async with running_playground() as playground:
        one, two = await playground.open(), await playground.open()
        for tab in (one, two):
            await show(tab.page, "State")
            await expect(tab.page.locator("#panel-state pre")).to_contain_text('"colour": "red"')
        await one.page.get_by_role("button", name="Change it").click()
        box = one.page.get_by_role("textbox", name="The new state, as JSON")
        await box.fill("{not json")
        await one.page.get_by_role("button", name="Set the state").click()
        await expect(one.page.locator("#panel-state .ending")).to_contain_text("That is not JSON")
        await box.fill('{"colour": "blue"}')
        await one.page.get_by_role("button", name="Set the state").click()
        for tab in (one, two):
            await expect(tab.page.locator("#panel-state pre")).to_contain_text('"colour": "blue"')
            assert tab.problems == []


async def test_conversations_are_listed_with_what_they_do_and_opened_with_a_click() -> None:
    async with running_playground() as playground:
        tab = await playground.open()
        items = tab.page.locator("#conversations a")
        await expect(items).to_have_text(["New conversationparrot / main"])
        await tab.ask("the first")
        await expect(items.first.locator(".title")).to_have_text("the first")
        await tab.page.get_by_role("button", name="New conversation").click()
        await expect(tab.page.locator("#messages li")).to_have_count(0)
        await expect(tab.box).to_be_focused()
        await play(tab, "second", {"wait": "there"})
        await expect(tab.answers).to_contain_text("second")
        await expect(items).to_have_count(2)
        await expect(items.first.locator(".under")).to_contain_text("answering")
        await items.last.click()
        await expect(tab.answers).to_contain_text("You said: the first")
        await expect(tab.link).to_have_text("live")
        await expect(items.last).to_have_attribute("aria-current", "page")
        playground.gates["there"].open()
        await expect(items.first.locator(".under")).not_to_contain_text("answering")
        await tab.page.go_back()
        await expect(tab.answers).to_contain_text("second")
        await tab.page.reload()
        await expect(tab.answers).to_contain_text("second")
        assert tab.problems == []


async def test_the_page_is_used_by_keyboard_alone() -> None:
    async with running_playground() as playground:
        tab = await playground.open()
        page = tab.page
        await expect(tab.box).to_be_focused()
        await page.keyboard.type("two")
        await page.keyboard.press("Shift+Enter")
        await page.keyboard.type("lines")
        await page.keyboard.press("Enter")
        await expect(tab.questions.locator(".text")).to_have_text("two\nlines")
        await expect(tab.answers.last).to_contain_text("You said: two")
        await page.get_by_role("tab", name="Turns").focus()
        await page.keyboard.press("ArrowRight")
        await expect(page.get_by_role("tab", name="Log")).to_be_focused()
        await expect(page.locator("#panel-log")).to_be_visible()
        await page.keyboard.press("/")
        await expect(tab.box).to_be_focused()
        await page.keyboard.type("/")
        await expect(tab.box).to_have_value("/")
        assert await page.evaluate(NAMELESS) == []
        await page.keyboard.press("Tab")
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        assert await page.evaluate(outline) == "solid"
        assert tab.problems == []


async def test_the_end_stays_in_view_unless_the_user_scrolled_up() -> None:
    async with running_playground() as playground:
        tab = await playground.open(viewport={"width": 1200, "height": 500})
        long = "A line of words that is long enough to be worth a line.\n\n" * 30
        await play(tab, long, {"wait": "up"}, long, {"wait": "down"}, long)
        main = tab.page.locator("main")
        at_end = "main => main.scrollHeight - main.scrollTop - main.clientHeight < 60"
        await expect(tab.answers.last).to_contain_text("worth a line.")
        await playground.gates["up"].reached.wait()
        await tab.page.wait_for_function(f"({at_end})(document.querySelector('main'))")
        await main.hover()
        await tab.page.mouse.wheel(0, -400)
        newest = tab.page.get_by_role("button", name="Newest")
        await expect(newest).to_be_visible()
        before = await main.evaluate("main => main.scrollTop")
        playground.gates["up"].open()
        await playground.gates["down"].reached.wait()
        await expect(tab.answers.last.locator(".md p")).to_have_count(60)
        assert await main.evaluate("main => main.scrollTop") == before
        await newest.click()
        await expect(newest).to_be_hidden()
        playground.gates["down"].open()
        await expect(tab.answers.last.locator(".md p")).to_have_count(90)
        await tab.page.wait_for_function(f"({at_end})(document.querySelector('main'))")
        assert tab.problems == []


async def test_on_a_phone_the_panels_are_drawers_and_the_theme_is_a_choice() -> None:
    async with running_playground() as playground:
        tab = await playground.open(viewport={"width": 390, "height": 780}, color_scheme="light")
        page = tab.page
        for panel in ("#sidebar", "#inspector"):
            await expect(page.locator(panel)).to_be_hidden()
        await page.get_by_role("button", name="Inspector").click()
        await expect(page.locator("#inspector")).to_be_visible()
        box = await page.locator("#inspector").bounding_box()
        assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 390
        await page.keyboard.press("Escape")
        await expect(page.locator("#inspector")).to_be_hidden()
        await page.get_by_role("button", name="Conversations").click()
        await page.get_by_role("button", name="Theme").click()
        await page.get_by_role("button", name="Theme").click()
        await expect(page.locator("#theme-name")).to_have_text("Theme: dark")
        await expect(page.locator("body")).to_have_css("background-color", "rgb(20, 24, 26)")
        await page.reload()
        await expect(page.locator("body")).to_have_css("background-color", "rgb(20, 24, 26)")
        await tab.ask("x" * 300)
        await expect(tab.answers.last).to_contain_text("You said")
        assert await page.evaluate("document.documentElement.scrollWidth") == 390
        assert tab.problems == []


async def test_an_agent_without_a_conversation_shows_its_state() -> None:
    async with running_playground() as playground:
        tab = await playground.open("?agent=lamp&name=desk")
        await expect(tab.page.locator("#wordless")).to_be_visible()
        await expect(tab.page.locator("#composer")).to_be_hidden()
        await show(tab.page, "State")
        await expect(tab.page.locator("#panel-state pre")).to_contain_text('"is_on": false')
        await tab.page.get_by_role("combobox", name="Agent").select_option("parrot")
        await expect(tab.box).to_be_visible()
        assert tab.problems == []


async def test_without_the_feed_the_page_is_a_chat_with_frames_and_state() -> None:
    async with running_playground(bare=True) as playground:
        tab = await playground.open()
        await tab.ask("ahoy")
        await expect(tab.answers.last).to_contain_text("You said: ahoy")
        for name in ("Turns", "Log"):
            await expect(tab.page.get_by_role("tab", name=name)).to_be_hidden()
        await expect(tab.page.locator("#panel-frames .line").first).to_contain_text("end: completed")
        await expect(tab.page.locator("#conversations a")).to_have_text(["mainparrot / main"])
        assert tab.problems == []
