"""The scripts of the demo: which words answer a question, and the steps between them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import ChatError
from ..messages.message import Chunk
from . import words as w

__all__ = ["DemoToolCall", "Pause", "Step", "Thought", "script_for"]


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait as long as this many words take."""

    words: float


@dataclass(frozen=True, slots=True)
class Thought:
    """A word of reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class DemoToolCall:
    """Call a tool, then play `then` or `failed`. Words may contain `{place}` of its output."""

    tool: str
    given: dict[str, Any] = field(default_factory=dict)
    then: Sequence[Step] = ()
    failed: Sequence[Step] = ()


Step = str | Thought | Chunk | DemoToolCall | Pause | ChatError
"""One step of a script: text, a chunk, a call, a pause or an error."""


def script_for(question: str) -> list[Step]:
    """Return the whole answer to a question; the same every time."""
    asked = question.lower()
    for pattern, script in _SCRIPTS:
        if re.search(rf"\b({pattern})\b", asked):
            return script
    return _words(w.HELLO)


def _words(text: str) -> list[Step]:
    return [*re.findall(r"\S+\s*", text)]


def _survey() -> list[Step]:
    steps = _words(w.SURVEY_BEFORE)
    for count, sounding in enumerate(w.SOUNDINGS, 1):
        notice = {"type": "data-notice", "data": f"sounding {sounding['point']}", "transient": True}
        done = {"done": count, "total": len(w.SOUNDINGS)}
        steps += [
            notice,
            Pause(12),
            {"type": "data-progress", "id": "survey", "data": done},
            {"type": "data-soundings", "id": "depths", "data": w.SOUNDINGS[:count]},
        ]
    return steps + _words(w.SURVEY_AFTER)


def _plan() -> list[Step]:
    thoughts: list[Step] = [Thought(each) for each in re.findall(r"\S+\s*", w.PLAN_THOUGHT)]
    return [*thoughts, *_words(w.PLAN), w.CHART, *_words(w.PLAN_SOURCES), *w.SOURCES]


_SCRIPTS: list[tuple[str, list[Step]]] = [
    (
        "tools?|weather|forecast",
        [*_words(w.TOOL_BEFORE), DemoToolCall("forecast", {"place": "the harbour"}, then=_words(w.TOOL_AFTER))],
    ),
    ("errors?|fail|failure", [*_words(w.ERROR_BEFORE), ChatError(w.ERROR_TEXT)]),
    ("plan|think|reason", _plan()),
    (
        "charter|pay|approval|approve",
        [
            *_words(w.CHARTER_BEFORE),
            DemoToolCall(
                "charter", {"boat": "Everyword", "price": 120}, then=_words(w.CHARTER_YES), failed=_words(w.CHARTER_NO)
            ),
        ],
    ),
    (
        "where",
        [
            *_words(w.WHERE_BEFORE),
            DemoToolCall("where", then=_words(w.WHERE_AFTER), failed=_words(w.WHERE_FAILED)),
        ],
    ),
    ("survey|data|progress", _survey()),
    ("crew|agents?|team", [*_words(w.CREW_BEFORE), DemoToolCall("ask_crew", then=_words(w.CREW_AFTER))]),
    ("long|story|slow", _words(w.LONG)),
]
