"""Scripts, messages and comparisons that the browser tests share."""

from __future__ import annotations

from typing import Any, Final

from tests.browser.conversation import Conversation
from tests.browser.stock_page import NETWORK, Tab
from tests.browser.tcp_proxy import Link

__all__ = [
    "HALF",
    "TALK",
    "WHOLE",
    "assert_in_step",
    "cut_off_half_way",
    "effects_of",
    "half_answered",
    "metadata_of",
    "shown",
    "tool_calls_of",
    "until_hits",
    "until_tool_call",
    "user",
]

HALF: Final = "One two "
WHOLE: Final = "One two three four."
TALK: Final[list[Any]] = ["One ", "two ", {"gate": "mid"}, "three ", "four."]
"""An answer that waits at its middle."""


def user(id: str, text: str) -> dict[str, Any]:
    return {"id": id, "role": "user", "parts": [{"type": "text", "text": text}]}


def shown(messages: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return id, role and parts of every message, without the fields that only streaming sets."""
    return [(message["id"], message["role"], [_plain(part) for part in message["parts"]]) for message in messages]


def _plain(part: dict[str, Any]) -> dict[str, Any]:
    """Leave out the fields in which copies of a part differ: the state of text, and tool names."""
    noise = {"text": "state", "reasoning": "state"}.get(part["type"], "toolName")
    return {key: value for key, value in part.items() if value is not None and key != noise}


def half_answered(chat: Conversation, *, tabs: int = 1) -> list[Tab]:
    """Open tabs, ask in the first one, and return them when all show the first half of the answer."""
    opened = [chat.tab() for _ in range(tabs)]
    opened[0].ask(TALK)
    for tab in opened:
        tab.until_answer(HALF)
    return opened


def cut_off_half_way(chat: Conversation) -> tuple[Tab, Link]:
    """Return a tab whose network was cut in the middle of its answer, and the link to restore."""
    link = chat.link()
    tab = chat.tab(link=link)
    tab.expect_complaints(NETWORK)
    tab.ask(TALK)
    tab.until_answer(HALF)
    link.cut()
    tab.until("window.agent.readyState !== 1")
    return tab, link


def tool_calls_of(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the tool parts of messages."""
    return [part for message in messages for part in message["parts"] if part["type"].startswith("tool-")]


def until_tool_call(tab: Tab, state: str) -> None:
    """Wait until the tab shows a tool call in this state."""
    tab.until("c?.messages.some(m => m.parts.some(p => p.type.startsWith('tool-') && p.state === arg))", state)


def until_hits(tab: Tab, hits: int) -> None:
    """Wait until the tab shows a tool's output with so many hits."""
    tab.until("c?.messages.some(m => m.parts.some(p => p.output?.hits === arg))", hits)


def effects_of(chat: Conversation) -> list[str]:
    """Return what the agent's tools have done in this conversation."""
    return [noted["effect"] for noted in chat.server.book(f"{chat.name}/effects")["calls"]]


def assert_in_step(chat: Conversation, *tabs: Tab) -> None:
    """Wait until every tab draws nothing new, and check that it shows exactly what is stored."""
    for tab in tabs:
        tab.until_still()
    stored = shown(chat.stored)
    for tab in tabs:
        here = shown(tab.messages)
        assert here == stored, f"on the screen: {here}\nstored: {stored}"
        told = metadata_of(tab.messages, is_plain=tab.is_plain)
        assert told == metadata_of(chat.stored, is_plain=tab.is_plain)


def metadata_of(messages: list[dict[str, Any]], *, is_plain: bool = False) -> list[Any]:
    """Return the metadata of a transcript, with the server's fields (R-37); for a plain page, of the answers alone.

    Over plain HTTP a page learns its own question's metadata only when it is reloaded.
    """
    return [message.get("metadata") for message in messages if not (is_plain and message["role"] == "user")]
