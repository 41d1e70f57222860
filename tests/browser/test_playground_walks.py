"""Random walks of two tabs of the playground over a bad network: in the end both show what is stored, no more."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import httpx
import pytest
from playwright.async_api import Locator, expect

from tests.browser.playground_server import PlaygroundServer, running_playground
from tests.browser.playground_tab import Tab
from tests.server.kit import PATIENCE

pytestmark = [pytest.mark.browser]

expect.set_options(timeout=PATIENCE * 1000)

STEPS = 14


class Walk:
    """Does something at random in one of the tabs; what cannot be done at the moment is left out."""

    def __init__(self, playground: PlaygroundServer, tabs: list[Tab], rng: Random) -> None:
        self._playground, self._tabs, self._rng = playground, tabs, rng
        self._asked = 0
        self.path: list[str] = []

    async def step(self) -> None:
        place = self._rng.randrange(len(self._tabs))
        word = self._rng.choice(
            ["ask", "ask", "ask", "slow", "slow", "open", "cut", "reload", "stop", "again", "clear"]
        )
        self.path.append(f"{place} {word}")
        tab = self._tabs[place]
        match word:
            case "ask":
                self._asked += 1
                await tab.ask(f"question {self._asked}")
            case "slow":
                self._asked += 1
                await tab.ask(f'["slow {self._asked}, ", {{"wait": "g{self._asked}"}}, "and on"]')
            case "open":
                self._open()
            case "cut":
                await self._click(tab, "Cut the connection")
            case "reload":
                await tab.page.reload()
                await tab.page.locator("#link[data-state=live], #link[data-state=busy]").wait_for()
            case "stop":
                await tab.page.keyboard.press("Escape")
            case "again":
                await self._click(tab, "Regenerate")
            case "clear":
                await self._click(tab, "Clear")
                await self._click(tab, "Clear", within="#confirm")

    def _open(self) -> None:
        for gate in list(self._playground.gates.values()):
            gate.open()

    @staticmethod
    async def _click(tab: Tab, name: str, within: str = "#stage, #inspector") -> None:
        button = tab.page.locator(within).get_by_role("button", name=name, exact=True).last
        if await button.count() and await button.is_enabled():
            # Between the look and the click it may go: then it is not clicked.
            await button.evaluate("button => button.disabled || button.click()")


async def stored(url: str) -> list[str]:
    async with httpx.AsyncClient(verify=False) as client:  # no TLS here
        messages: list[dict[str, Any]] = (await client.get(f"{url}/agents/parrot/main/get-messages")).json()
    return [text for message in messages if (text := "".join(part.get("text", "") for part in message["parts"]))]


async def at_rest(playground: PlaygroundServer, tabs: list[Tab]) -> None:
    """Wait until nothing is asked, sent or answered any more; then every tab comes to show what is stored."""
    for tab in tabs:
        await expect(tab.link).to_have_text("live")
        await expect(tab.page.locator("#messages")).to_have_attribute("aria-busy", "false")
    await playground.rest()
    wanted = await stored(playground.url)
    for tab in tabs:
        await expect(tab.page.locator("#messages .text")).to_have_text(wanted)


@pytest.mark.parametrize("seed", range(4))
async def test_after_any_walk_both_tabs_show_what_is_stored(seed: int) -> None:
    async with running_playground() as playground:
        tabs = [await playground.open(), await playground.open()]
        walk = Walk(playground, tabs, Random(f"walk {seed}"))
        for _ in range(STEPS):
            await walk.step()
        for number in range(1, STEPS + 1):
            playground.gates[f"g{number}"].open()
        await at_rest(playground, tabs)
        assert [tab.problems for tab in tabs] == [[], []], walk.path


def said(tab: Tab) -> Locator:
    """Return what stands on the page, from top to bottom, without what only says that something is to come."""
    return tab.page.locator("#messages .text").filter(has_text=re.compile(r"\S"))


async def test_waiting_questions_stand_behind_the_answer_that_is_being_written() -> None:
    """P-44."""
    first, second = '["one, ", {"wait": "a"}, "two"]', '["three, ", {"wait": "b"}, "four"]'
    async with running_playground() as playground:
        asker, watcher = await playground.open(), await playground.open()
        await asker.ask(first)
        for tab in (asker, watcher):
            await expect(said(tab)).to_have_text([first, "one,"])
        await watcher.ask(second)
        await expect(said(asker)).to_have_text([first, "one,", second])
        await asker.ask("third")
        late = await playground.open()
        tabs = [asker, watcher, late]
        for tab in tabs:
            await expect(said(tab)).to_have_text([first, "one,", second, "third"])
        playground.gates["a"].open()
        for tab in tabs:
            wanted = [first, "one, two", second, "three,", "third"]
            await expect(said(tab)).to_have_text(wanted)
        playground.gates["b"].open()
        await at_rest(playground, tabs)
        assert len(await stored(playground.url)) == 6
        assert [tab.problems for tab in tabs] == [[], [], []]
