"""Scripts, messages and comparisons that the browser tests share."""

from __future__ import annotations

from typing import Any, Final

from tests.browser.conversation import Conversation
from tests.browser.stock_page import Tab

__all__ = ["HALF", "TALK", "WHOLE", "assert_in_step", "shown", "user"]

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
