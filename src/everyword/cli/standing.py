"""How a conversation stands, in one word and a reason: what `ls` and `show` say of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from ..errors import BadMessage
from ..messages.message import UIMessage
from ..messages.tool_calls import open_calls, tool_name
from .readonly import Glance
from .screen import age

__all__ = ["COLOURS", "SILENT_AFTER", "WORDS", "Standing", "Word", "standing_of"]

Word = Literal["running", "stuck", "failed", "asking", "waiting", "idle"]
WORDS: tuple[Word, ...] = get_args(Word)

COLOURS: dict[Word, str] = {
    "running": "green",
    "stuck": "yellow",
    "failed": "red",
    "asking": "magenta",
    "waiting": "cyan",
    "idle": "",
}

SILENT_AFTER = 300_000
"""Milliseconds without an event after which work that should go on counts as stuck."""


@dataclass(frozen=True, slots=True)
class Standing:
    """One of the words, and why; the reason may be empty."""

    word: Word
    why: str = ""


def standing_of(glance: Glance, now: int, *, is_served: bool, silent_after: int = SILENT_AFTER) -> Standing:
    """Return how an agent stands. Without a server nothing runs: what is open goes on with the next start."""
    if glance.open_turn is not None:
        return _open(glance, now, is_served=is_served, silent_after=silent_after)
    if glance.wake is not None and now - glance.wake > silent_after and glance.wake > 0:
        return Standing("stuck", f"work was due {age(glance.wake, now)}")
    if glance.last_status == "error":
        return Standing("failed", glance.last_error or "")
    asked = _asked(glance.last_message)
    if asked:
        return Standing("asking", f"{asked} waits for an answer")
    if glance.wake is not None and glance.wake > now:
        return Standing("waiting", f"a job is due {age(glance.wake, now)}")
    return Standing("idle")


def _open(glance: Glance, now: int, *, is_served: bool, silent_after: int) -> Standing:
    has_begun = glance.open_status != "accepted"
    attempt = f"attempt {glance.open_attempt}" if (glance.open_attempt or 0) > 1 else ""
    if not has_begun and glance.wake is None:
        return Standing("waiting", f"{_asked(glance.last_message) or 'a call'} waits for an answer")
    if not has_begun and glance.wake is not None and glance.wake > now:
        return Standing("waiting", f"begins {age(glance.wake, now)}")
    if not is_served:
        return Standing("stuck", "no server runs; it goes on with the next start")
    since = max(glance.active_at or 0, glance.wake or 0)
    if now - since > silent_after:
        return Standing("stuck", f"nothing came since {age(since, now).removesuffix(' ago')}")
    return Standing("running", attempt if has_begun else "about to begin")


def _asked(body: bytes | None) -> str:
    """Return the tool whose call in the last message waits for somebody, or nothing."""
    if body is None or (b'"approval-requested"' not in body and b'"input-available"' not in body):
        return ""
    try:
        calls = open_calls(UIMessage.decode(body))
    except BadMessage:
        return ""
    return tool_name(calls[-1]) if calls else ""
