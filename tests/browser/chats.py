"""One conversation of one test."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from playwright.async_api import BrowserContext

from tests.browser.loops import Loop
from tests.browser.proxying import Link
from tests.browser.servers import Server
from tests.browser.tabs import Tab, open_page

__all__ = ["Chat"]


@dataclass
class Chat:
    """One conversation of one test: its server, its tabs, its gates."""

    server: Server
    client: str
    name: str
    context: BrowserContext
    loop: Loop
    stack: ExitStack
    """Closes what the test opens."""
    kind: str = "chat"
    tabs: list[Tab] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What the report of a failed test says besides what was on the screens."""

    def tab(self, *, link: Link | None = None, is_ready: bool = True, **options: Any) -> Tab:
        """Open a tab on this conversation, through a link if one is given; waits until it has rendered."""
        given = {"agent": self.kind, "name": self.name, **options}
        port = link.port if link is not None else self.server.port
        tab = self.loop.run(open_page(self.context, self.loop, port, self.client, given))
        self.tabs.append(tab)
        if is_ready:
            tab.until("c")
            tab.until_connected()
        return tab

    def link(self) -> Link:
        return self.stack.enter_context(Link(self.loop, self.server.port))

    def open(self, gate: str) -> None:
        """Let the answer that stands at this gate go on."""
        self.server.open(f"{self.name}/{gate}")

    def until_reached(self, gate: str) -> None:
        self.server.until_reached(f"{self.name}/{gate}")

    def until_left(self, gate: str) -> None:
        """Wait until an answer that stood at this gate was told to stop."""
        self.server.until_left(f"{self.name}/{gate}")

    def until_result(self, number: int = 1) -> dict[str, Any]:
        """Wait until this many turns have ended; return how the last of them did, as `on_chat_response` was told."""
        return self.server.result(self.name, number)

    @property
    def stored(self) -> list[dict[str, Any]]:
        """What get-messages gives."""
        return self.server.messages(self.kind, self.name)

    @property
    def calls(self) -> list[dict[str, Any]]:
        """What the agent was asked, call by call."""
        found: list[dict[str, Any]] = self.server.book(self.name)["calls"]
        return found

    @property
    def results(self) -> list[dict[str, Any]]:
        """How turns ended, as `on_chat_response` was told."""
        found: list[dict[str, Any]] = self.server.book(self.name)["results"]
        return found
