"""Formats messages for a terminal: text as it is, one line for every other part."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

import msgspec

from ..messages.message import Part, UIMessage
from ..messages.tool_calls import is_tool_part, tool_name
from .output import Output
from .text import clean, one_line, size_of

__all__ = ["brief", "call_line", "other_line", "render_message", "title_of"]

BRIEF = 160
"""Length to which a JSON value is cut."""

STATES = {
    "input-streaming": "is being called",
    "input-available": "was called",
    "approval-requested": "waits for approval",
    "approval-responded": "was approved",
    "output-available": "→",
    "output-error": "failed:",
    "output-denied": "was denied",
}


def render_message(output: Output, message: UIMessage, *, is_whole: bool = False) -> Iterator[str]:
    """Yield the lines of a message's parts; `is_whole` shows reasoning and values at full length."""
    width = min(output.width - 2, 110)
    for part in message.parts:
        kind = part["type"]
        if kind == "text":
            yield from _paragraphs(str(part.get("text") or ""), width)
        elif kind == "reasoning":
            text = str(part.get("text") or "")
            lines = _paragraphs(text if is_whole else brief(text), width)
            yield from (output.style(line, "dim") for line in lines)
        elif is_tool_part(part):
            yield f"  {call_line(output, part, is_whole=is_whole)}"
        elif kind != "step-start":
            yield f"  {output.style(other_line(part, is_whole=is_whole), 'blue')}"


def call_line(output: Output, part: Part, *, is_whole: bool = False) -> str:
    """Return a call and its state: `forecast({"place": "here"}) → {"sky": "clear"}`."""
    state = str(part.get("state"))
    said = STATES.get(state, state)
    result = part.get("output") if state == "output-available" else part.get("errorText") or ""
    if state == "approval-responded" and (part.get("approval") or {}).get("approved") is False:
        said = "was refused"
    colour = {"output-error": "red", "approval-requested": "magenta", "output-denied": "yellow"}.get(state, "cyan")
    call = f"{one_line(tool_name(part))}({_value(part.get('input'), is_whole)})"
    tail = f" {_value(result, is_whole)}" if result != "" else ""
    return f"{output.style('⚙ ' + call, 'cyan')} {output.style(said, colour)}{tail}"


def other_line(part: Part, *, is_whole: bool = False) -> str:
    """Return one line for a part that is neither text nor a call."""
    kind = one_line(str(part["type"]))
    if kind == "file":
        url = str(part.get("url", ""))
        held = size_of(len(url) * 3 / 4) if url.startswith("data:") else one_line(url)
        return f"▤ {one_line(str(part.get('filename') or 'file'))} {one_line(str(part.get('mediaType', '')))} {held}"
    if kind in ("source-url", "source-document"):
        return f"↗ {one_line(str(part.get('title') or ''))} {one_line(str(part.get('url') or ''))}".rstrip()
    if kind.startswith("data-"):
        return f"◆ {kind} {_value(part.get('data'), is_whole)}"
    return f"◆ {kind} {_value({k: v for k, v in part.items() if k != 'type'}, is_whole)}"


def title_of(message: UIMessage) -> str:
    """Return a message on one line."""
    if text := one_line(message.text):
        return text
    parts = [part for part in message.parts if part["type"] != "step-start"]
    return "".join(f"[{tool_name(part) if is_tool_part(part) else part['type']}]" for part in parts)


def brief(value: Any) -> str:
    """Return a value on one line, cut if it is long; text is not quoted."""
    return _value(value, is_whole=False)


def _value(value: Any, is_whole: bool) -> str:
    text = one_line(value if isinstance(value, str) else msgspec.json.encode(value).decode())
    return text if is_whole or len(text) <= BRIEF else f"{text[:BRIEF]}…"


def _paragraphs(text: str, width: int) -> Iterator[str]:
    for line in clean(text).rstrip().split("\n"):
        pieces = textwrap.wrap(line, max(width, 20), replace_whitespace=False, drop_whitespace=True) or [""]
        yield from (f"  {piece}".rstrip() for piece in pieces)
