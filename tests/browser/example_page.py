"""Examples that have a page of their own, run as a reader runs them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from playwright.async_api import Browser, Page

from tests.browser.server_app import listening
from tests.forked_processes import ForkedProcess, fork_process
from tests.server.kit import PATIENCE

__all__ = ["Example", "main", "visiting"]


class Example:
    """`examples/<name>` on a free port; `prefix` begins the names of its environment variables.

    `build` is the folder with the bundles of its page, if it has any.
    """

    def __init__(
        self, name: str, prefix: str, folder: Path, *, pause: str, module: str = "app", build: Path | None = None
    ) -> None:
        listener = listening()
        self.port = listener.getsockname()[1]
        listener.close()
        self._application = f"examples.{name}.{module}:app"
        self._prefix, self._folder, self._pause, self._build = prefix, folder, pause, build
        self._process: ForkedProcess | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, pause: str | None = None) -> None:
        """Start or restart it, and wait until it responds; `pause` is the time between two words."""
        store = str(self._folder / "example.db")
        settings = {f"{self._prefix}_STORE": store, f"{self._prefix}_PAUSE": pause or self._pause}
        if self._build is not None:
            settings[f"{self._prefix}_BUILD"] = str(self._build)
        self._process = fork_process("tests.browser.example_page", self._application, str(self.port), **settings)
        with httpx.Client(transport=httpx.HTTPTransport(retries=8), trust_env=False) as client:
            assert client.get(self.url, timeout=PATIENCE, follow_redirects=True).status_code == 200

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None


@asynccontextmanager
async def visiting(browser: Browser, url: str, *, script: str = "", **options: Any) -> AsyncIterator[Page]:
    """Open a page, with a script that runs before its own; fails on page errors and requests to other origins."""
    context = await browser.new_context(**options)
    page = await context.new_page()
    problems: list[str] = []
    ours = (url, url.replace("http", "ws"), "data:")
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: problems.append(request.url) if not request.url.startswith(ours) else None)
    await page.add_init_script(script)
    await page.goto(url)
    yield page
    assert problems == []
    await context.close()


def main(application: str, port: str) -> None:
    """Serve an application as `uvicorn` does from the command line, until it is stopped."""
    uvicorn.run(application, port=int(port), log_level="error")
