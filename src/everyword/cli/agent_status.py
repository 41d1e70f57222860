"""The status of an agent in one word, with a reason: what `ls` and `show` print."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from ..errors import BadMessage
from ..messages.message import UIMessage
from ..messages.tool_calls import open_calls, tool_name
from .log_reader import AgentSummary
from .text import age

__all__ = ["COLOURS", "STATUSES", "STUCK_AFTER", "AgentStatus", "Word", "status_of"]

Word = Literal["running", "stuck", "failed", "asking", "waiting", "idle"]
STATUSES: tuple[Word, ...] = get_args(Word)

COLOURS: dict[Word, str] = {
    "running": "green",
    "stuck": "yellow",
    "failed": "red",
    "asking": "magenta",
    "waiting": "cyan",
    "idle": "",
}

STUCK_AFTER = 300_000
"""Milliseconds without an event after which open work counts as stuck."""


@dataclass(frozen=True, slots=True)
class AgentStatus:
    """One of the status words, and the reason, which may be empty."""

    word: Word
    why: str = ""


def status_of(summary: AgentSummary, now: int, *, is_served: bool, stuck_after: int = STUCK_AFTER) -> AgentStatus:
    """Return the status of an agent. Without a server nothing runs: open turns continue after the next start."""
    if summary.open_turn is not None:
        return _open(summary, now, is_served=is_served, stuck_after=stuck_after)
    if summary.wake is not None and now - summary.wake > stuck_after and summary.wake > 0:
        return AgentStatus("stuck", f"work was due {age(summary.wake, now)}")
    if summary.last_status == "error":
        return AgentStatus("failed", summary.last_error or "")
    asked = _asked(summary.last_message)
    if asked:
        return AgentStatus("asking", f"{asked} waits for an answer")
    if summary.wake is not None and summary.wake > now:
        return AgentStatus("waiting", f"a job is due {age(summary.wake, now)}")
    return AgentStatus("idle")


def _open(summary: AgentSummary, now: int, *, is_served: bool, stuck_after: int) -> AgentStatus:
    has_begun = summary.open_status != "accepted"
    attempt = f"attempt {summary.open_attempt}" if (summary.open_attempt or 0) > 1 else ""
    if not has_begun and summary.wake is None:
        return AgentStatus("waiting", f"{_asked(summary.last_message) or 'a call'} waits for an answer")
    if not has_begun and summary.wake is not None and summary.wake > now:
        return AgentStatus("waiting", f"starts {age(summary.wake, now)}")
    if not is_served:
        return AgentStatus("stuck", "no server is running; continues after the next start")
    since = max(summary.active_at or 0, summary.wake or 0)
    if now - since > stuck_after:
        return AgentStatus("stuck", f"no event for {age(since, now).removesuffix(' ago')}")
    return AgentStatus("running", attempt if has_begun else "starting")


def _asked(body: bytes | None) -> str:
    """Return the tool whose call in the last message waits for an answer, or an empty text."""
    if body is None or (b'"approval-requested"' not in body and b'"input-available"' not in body):
        return ""
    try:
        calls = open_calls(UIMessage.decode(body))
    except BadMessage:
        return ""
    return tool_name(calls[-1]) if calls else ""
