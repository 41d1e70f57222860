"""The playground in front of an agent that plays scripts, in this process, so that tests hold its gates."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Browser
from starlette.applications import Starlette
from starlette.routing import Mount

from everyword.agents import Agent, AIChatAgent, ChatHandle, Turn, tool
from everyword.cli.playground import playground, playground_beside
from everyword.errors import ChatError
from everyword.server import Everyword
from everyword.testing import Gate
from everyword.web import Page
from tests.browser.playground_tab import Tab, browsing, open_tab
from tests.server.kit import PATIENCE, serving

__all__ = ["Parrot", "PlaygroundServer", "running_playground"]


class Parrot(AIChatAgent):
    """Plays its question: a JSON list of words and chunks, and of what else there is to do."""

    gates: dict[str, Gate]
    initial_state = {"colour": "red"}  # noqa: RUF012 - as agents are written

    async def on_chat_message(self, turn: Turn) -> Any:
        asked = next(message for message in reversed(self.messages) if message.role == "user")
        try:
            script = json.loads(asked.text)
        except ValueError:
            script = [f"You said: {asked.text}"]
        said = self.messages[-1].text if turn.continuation else ""
        for item in script:
            match item:
                case {"wait": gate}:
                    await self.gates[gate].wait()
                case {"tell": frame}:
                    self.broadcast(frame)
                case {"fail": text}:
                    raise ChatError(text)
                case {"break": text}:
                    raise ValueError(text)
                case {"call": name, **given}:
                    await turn.call_tool(name, **given)
                case str() if said.startswith(item):
                    said = said.removeprefix(item)
                case _:
                    yield item

    @tool
    async def add(self, one: int, other: int) -> int:
        """Add."""
        return one + other

    @tool(
        needs_approval=True,
        approval_summary=lambda amount, note="": f"Pay {amount} from the till{note and f' for {note}'}.",
        approval_risk="high",
        approval_timeout=3600,
    )
    async def pay(self, amount: int, note: str = "") -> str:
        """Pay."""
        return f"paid {amount}"

    @tool
    async def stumble(self) -> str:
        """Fail."""
        raise ChatError("the tool stumbled")

    @tool(client=True)
    async def pick(self) -> Any:
        """Let the page pick."""


class Lamp(Agent):
    """Has a state, and nothing to say."""

    initial_state = {"is_on": False}  # noqa: RUF012 - as agents are written


class PlaygroundServer:
    """A server, a browser, and the gates in what the agent says."""

    def __init__(
        self, url: str, browser: Browser, app: Everyword, parrot: type[Parrot], gates: dict[str, Gate]
    ) -> None:
        self.url, self._browser, self.app, self._parrot, self.gates = url, browser, app, parrot, gates

    def agent(self, name: str) -> ChatHandle[Parrot]:
        return self.app.get(self._parrot, name)

    async def open(self, path: str = "", **options: Any) -> Tab:
        """Open a page of its own, wide enough for everything, and wait until it is live."""
        size = {"viewport": {"width": 1440, "height": 900}}
        tab = await open_tab(self._browser, f"{self.url}/{path}", **{**size, **options})
        await tab.page.locator("#link[data-state=live], #link[data-state=busy]").wait_for()
        return tab

    async def rest(self) -> None:
        """Wait until no turn of the conversation runs or waits."""
        assert await self.agent("main").wait_until_stable(PATIENCE)


@asynccontextmanager
async def running_playground(
    folder: Path | None = None,
    *,
    bare: bool = False,
    base_path: str = "/agents",
    mounted: bool = False,
    lists: str | None = None,
    **options: Any,
) -> AsyncIterator[PlaygroundServer]:
    """Serve the playground with a Parrot, on a file in the folder or in memory, and start a browser.

    With `bare`, only the page, as anybody may mount it, with the lists at `lists`; `mounted`, beside another
    application that has the Parrot. `options` are those of the app.
    """
    gates: dict[str, Gate] = defaultdict(Gate)
    parrot: type[Parrot] = type("Parrot", (Parrot,), {"gates": gates})
    store = str(folder / "log.db") if folder is not None else "memory:"
    app = Everyword([parrot, Lamp], store=store, base_path=base_path, **options)
    app.grace = 0.0
    shown = Page(["parrot"], behind=app, lists=lists) if bare else playground(app)
    if mounted:
        outer = Starlette(routes=[Mount("/api", app)], lifespan=app.lifespan)
        shown = playground_beside(outer, app, f"/api{app.base_path}")
    async with serving(shown) as url, browsing() as browser:
        try:
            yield PlaygroundServer(f"{url}/playground" if mounted else url, browser, app, parrot, gates)
        finally:
            for gate in gates.values():
                gate.open()
