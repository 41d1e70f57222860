"""A transcript as Markdown. The texts of messages keep their own Markdown, inside a quote that they cannot leave."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from msgspec import UNSET

from .document import (
    DataPart,
    FilePart,
    OtherPart,
    ReasoningPart,
    SourcePart,
    SteeringPart,
    TextPart,
    ToolCallPart,
    TranscriptHead,
    TranscriptMessage,
    TranscriptPart,
)
from .safe_text import describe_approval, said_by, shown_json, shown_period, shown_time, storable
from .urls import data_image, link_target

__all__ = ["markdown_opening", "message_markdown"]

_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>|~&$])")
_ENTITY: Final = re.compile(r"&(?=#?\w+;)")
_SCRIPT: Final = re.compile(r"(?i)(javascript|vbscript|data)(?=\\?:)")
_OPENING: Final = re.compile(r"(`{3,})[^`]*|(~{3,}).*")
_INDENTED: Final = re.compile(r"[ \t]+(?:`{3}|~{3})")
_LINES: Final = re.compile(r"\r\n|\r|\n|\x0b|\x0c|\u2028|\u2029|\x85")


def markdown_opening(head: TranscriptHead) -> str:
    """Return the beginning of the file."""
    lines = [_literal(shown_period(head.created_at, head.updated_at))]
    if head.kind is not None:
        lines.append(f"Conversation: {_literal(f'{head.kind}/{head.name}')}")
    if head.owner is not None:
        lines.append(f"Owner: {_literal(head.owner)}")
    if head.participants:
        lines.append(f"Participants: {_literal(', '.join(who.label for who in head.participants))}")
    return f"# {_literal(head.title)}\n\n" + "".join(f"- {line}\n" for line in lines)


def message_markdown(message: TranscriptMessage, is_first: bool = True) -> Iterator[str]:
    """Yield a message piece by piece; the first one is written as all are."""
    yield f"\n## {_literal(said_by(message))} · {_literal(shown_time(message.at))}\n"
    for part in message.parts:
        yield f"\n{_part(part)}\n"
    match message.status:
        case "running":
            yield "\n*This answer is still being written.*\n"
        case "stopped":
            yield "\n*Stopped.*\n"
        case "failed":
            yield f"\n*The answer failed.* {_literal(message.error or '')}".rstrip() + "\n"
        case _:
            pass


def _part(part: TranscriptPart) -> str:
    match part:
        case TextPart():
            return _quoted(part.text)
        case SteeringPart():
            return f"*Said meanwhile*\n\n{_quoted(part.text)}"
        case ReasoningPart():
            return f"*Reasoning*\n\n{_quoted(part.text)}"
        case ToolCallPart():
            return _tool_call(part)
        case DataPart():
            return f"*Data: {_literal(part.name)}*\n\n{_value(part.data)}"
        case SourcePart():
            return f"*Source:* {_link(part.url, part.title)}"
        case FilePart():
            kept = " (its content is in the HTML and JSON forms)" if data_image(part.url) is not None else ""
            kind = f", {_literal(part.media_type)}" if part.name else ""
            return f"*File:* {_link(part.url, part.name or part.media_type)}{kind}{kept}"
        case OtherPart():
            return f"*A part of the kind {_literal(part.kind)}*"


def _tool_call(part: ToolCallPart) -> str:
    pieces = [f"*Tool call:* {_literal(part.tool)}, {part.status}"]
    if part.approval is not None:
        if part.approval.summary:
            pieces.append(f"*Summary:* {_literal(part.approval.summary)}")
        pieces.append(f"*Approval:* {_literal(describe_approval(part.approval))}")
    if part.input is not UNSET:
        pieces.append(f"Input:\n\n{_value(part.input)}")
    if part.output is not UNSET:
        pieces.append(f"Output:\n\n{_value(part.output)}")
    if part.error is not None:
        pieces.append(f"Error:\n\n{_fenced(part.error, '')}")
    return "\n\n".join(pieces)


def _quoted(text: str) -> str:
    """Return text as a quote. Its Markdown stays, but no HTML and no script: not every viewer is careful."""
    lines: list[str] = []
    fence = ""
    is_sure = True  # whether every viewer has the same fences so far
    for line in _LINES.split(storable(text)):
        shown = line
        if fence:
            marks = line.strip(" \t")
            if set(marks) == {fence[0]} and len(marks) >= len(fence):
                fence, is_sure = "", is_sure and re.match(r" {0,3}[`~]", line) is not None
        else:
            # Only a fence that no list or quote of the text contains: what follows another one could be outside of it.
            if (opening := _OPENING.fullmatch(line)) is not None:
                fence = opening[1] or opening[2]
                if not is_sure:
                    lines.append("")  # the end of the quote ends what may be open in it
                    is_sure = True
            else:
                is_sure = is_sure and _INDENTED.match(line) is None
            shown = _without_html(line)
        lines.append(f"> {shown}".rstrip())
    return "\n".join(lines)


def _without_html(line: str) -> str:
    return _SCRIPT.sub("\\1\u200b", _ENTITY.sub("&amp;", line).replace("<", "&lt;"))


def _value(value: Any) -> str:
    return _fenced(shown_json(value), "" if isinstance(value, str) else "json")


def _fenced(text: str, language: str) -> str:
    """Return text as a block of code, between fences that are longer than any in it."""
    text = storable(text)
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _link(url: str | None, text: str) -> str:
    target = link_target(url)
    if target is None:
        return _literal(text)
    return f"[{_literal(text)}](<{_target(target)}>)"


def _target(url: str) -> str:
    return "".join(f"%{ord(letter):02X}" if letter in "\\<>`" else letter for letter in url).replace("&", "&amp;")


def _literal(text: str) -> str:
    """Return one line of text that no Markdown is read in."""
    return _SPECIAL.sub(r"\\\1", " ".join(_LINES.sub(" ", storable(text)).split()))
