"""Examples that bring a page of their own, run as their readers run them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from playwright.async_api import Browser, Page

from tests.browser.serving import listening
from tests.cli.kit import ROOT
from tests.server.kit import PATIENCE

__all__ = ["Example", "visiting"]


class Example:
    """`examples/<name>` on a free port; `prefix` is how the names of its settings begin."""

    def __init__(self, name: str, prefix: str, folder: Path, *, pause: str) -> None:
        listener = listening()
        self.port = listener.getsockname()[1]
        listener.close()
        self._name, self._prefix, self._folder, self._pause = name, prefix, folder, pause
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, pause: str | None = None) -> None:
        """Start it, or start it again, and wait until it answers; `pause` is the time between two words."""
        command = [sys.executable, "-m", "uvicorn", f"examples.{self._name}.app:app", "--port", str(self.port)]
        store = str(self._folder / "example.db")
        settings = {f"{self._prefix}_STORE": store, f"{self._prefix}_PAUSE": pause or self._pause}
        environment = {**os.environ, **settings}
        self._process = subprocess.Popen([*command, "--log-level", "error"], cwd=ROOT, env=environment)
        with httpx.Client(transport=httpx.HTTPTransport(retries=8), trust_env=False) as client:
            assert client.get(self.url, timeout=PATIENCE).status_code == 200

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None


@asynccontextmanager
async def visiting(browser: Browser, url: str, *, script: str = "", **options: Any) -> AsyncIterator[Page]:
    """Open a page, with a script that runs before its own; nothing may go wrong in it or come from elsewhere."""
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
