"""Words that the scenarios share."""

from __future__ import annotations

from typing import Any, Final

from tests.browser.chats import Chat
from tests.browser.tabs import Tab

__all__ = ["HALF", "TALK", "WHOLE", "assert_in_step", "shown", "user"]

HALF: Final = "One two "
WHOLE: Final = "One two three four."
TALK: Final[list[Any]] = ["One ", "two ", {"gate": "mid"}, "three ", "four."]
"""An answer that waits at its middle."""


def user(id: str, text: str) -> dict[str, Any]:
    return {"id": id, "role": "user", "parts": [{"type": "text", "text": text}]}


def shown(messages: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return what people can tell apart of a transcript: id, role and parts, without the marks of streaming."""
    return [(message["id"], message["role"], [_plain(part) for part in message["parts"]]) for message in messages]


def _plain(part: dict[str, Any]) -> dict[str, Any]:
    """Leave out what copies of a part differ in: whether text still grows, and a name that the type has anyway."""
    noise = {"text": "state", "reasoning": "state"}.get(part["type"], "toolName")
    return {key: value for key, value in part.items() if value is not None and key != noise}


def assert_in_step(chat: Chat, *tabs: Tab) -> None:
    """Expect that every tab, once it has come to rest, shows exactly what is stored."""
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

    Plain HTTP has no way to tell a page of its own question before it is loaded anew.
    """
    return [message.get("metadata") for message in messages if not (is_plain and message["role"] == "user")]
