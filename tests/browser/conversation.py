"""The conversation of a test: its server, its tabs and its gates."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from playwright.async_api import BrowserContext

from tests.browser.loop_thread import Loop
from tests.browser.server_control import Server
from tests.browser.stock_page import Tab, open_page
from tests.browser.tcp_proxy import Link

__all__ = ["Conversation"]


@dataclass
class Conversation:
    """One conversation of one test, with the stock hook on every tab."""

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
    """Lines for the report of a failed test, in addition to what the tabs show."""

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
        """Open a gate; the answer that waits at it continues."""
        self.server.open(f"{self.name}/{gate}")

    def until_reached(self, gate: str) -> None:
        self.server.until_reached(f"{self.name}/{gate}")

    def until_left(self, gate: str) -> None:
        """Wait until an answer that waited at this gate was cancelled."""
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
