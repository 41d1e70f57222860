"""A tab that shows the product's own page (the demo and the playground), in the worker's chromium."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page

from tests.cli.kit import Running, running
from tests.server.kit import PATIENCE

# Records every text that the first answer shows.
WATCH = """
window.states = [];
new MutationObserver(() => {
  const parts = document.querySelector("#messages li.assistant")?.querySelectorAll(".text") ?? [];
  const text = [...parts].map((part) => part.textContent).join("");
  if (text !== window.states.at(-1)) window.states.push(text);
}).observe(document, { subtree: true, childList: true, characterData: true });
"""


def letters(text: str) -> str:
    """Return a text without Markdown marks and line breaks."""
    return re.sub(r"[\s`*_#]+", "", text)


LENT: list[Browser] = []
"""The worker's browser, while an `async` test runs in the browser's loop."""


@asynccontextmanager
async def browsing() -> AsyncIterator[Browser]:
    """Use the worker's browser; contexts that are opened in it are closed afterwards."""
    (browser,) = LENT
    others = set(browser.contexts)
    try:
        yield browser
    finally:
        await asyncio.gather(*(context.close() for context in browser.contexts if context not in others))


class Tab:
    """One open page of the product, and its errors."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.problems: list[str] = []
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", lambda message: self._heard(message.type, message.text))
        page.set_default_timeout(PATIENCE * 1000)
        self.answers = page.locator("#messages li.assistant")
        self.questions = page.locator("#messages li.user")
        self.link = page.locator("#link")
        self.away = page.locator("#away")
        self.box = page.get_by_role("textbox", name="Your message")

    def _heard(self, kind: str, text: str) -> None:
        # That a request failed while the server is away is no fault of the page.
        if kind in ("error", "warning") and "net::ERR_" not in text:
            self.problems.append(text)

    async def ask(self, text: str) -> None:
        await self.box.fill(text)
        await self.box.press("Enter")

    async def clear(self) -> None:
        """Clear the conversation, and say that it is meant."""
        await self.page.get_by_role("button", name="Clear").click()
        await self.page.locator("#confirm").get_by_role("button", name="Clear").click()

    async def states(self) -> list[str]:
        """Return every state that the first answer was seen in since the page was loaded."""
        states: list[str] = await self.page.evaluate("window.states")
        return [letters(state) for state in states]

    async def text(self, number: int = -1) -> str:
        """Return the letters of what an answer says, the last one by default."""
        answer = self.answers.last if number < 0 else self.answers.nth(number)
        said: list[str] = await answer.locator(".text").evaluate_all("parts => parts.map(part => part.textContent)")
        return letters("".join(said))


async def open_tab(browser: Browser, url: str, **options: Any) -> Tab:
    """Open the page in a profile of its own, and wait until it is connected or refused: no key is heard before."""
    context = await browser.new_context(**options)
    await context.add_init_script(WATCH)
    tab = Tab(await context.new_page())
    await tab.page.goto(url)
    await tab.page.locator("#link:not([data-state=connecting])").wait_for(state="attached")
    return tab


@asynccontextmanager
async def running_demo(folder: Path, port: str = "0") -> AsyncIterator[tuple[Running, str]]:
    """Run `everyword dev` on a file in the folder; yield the process and its URL."""
    async with running("dev", "--port", port, "--db", "log.db", folder=folder) as server:
        yield server, await server.url()


@contextmanager
def demo_process(folder: Path) -> Iterator[str]:
    """Run `everyword dev` on a file in the folder, outside of any loop; yield its URL."""
    command = (sys.executable, "-m", "everyword", "dev", "--port", "0", "--db", "log.db")
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, cwd=folder, **options) as process:  # type: ignore[call-overload]
        # A server whose output is not read stops at a full pipe.
        reading = threading.Thread(target=process.stdout.read, name="demo output")
        try:
            said = ""
            while (found := re.search(r"http://\S+:\d+", said)) is None:
                line = process.stdout.readline()
                assert line, f"the demo did not start: {said}"
                said += line
            reading.start()
            yield found.group()
        finally:
            process.kill()
            if reading.is_alive():
                reading.join()
