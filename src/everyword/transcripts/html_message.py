"""One message as HTML. Every text is escaped; nothing in a message becomes markup, a script or a foreign request."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Final

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
    TranscriptMessage,
    TranscriptPart,
)
from .safe_text import describe_approval, iso_time, said_by, shown_json, shown_time, storable
from .urls import SHOWN_TYPES, data_download, data_image, link_target, shared_file

__all__ = ["ending_html", "header_html", "message_html", "opening_html", "part_html", "text_html"]

_FENCE: Final = re.compile(r"^(`{3,}+|~{3,}+)[^`\n]*+$", re.MULTILINE)
"""It gives nothing back once it has taken it: a long line of tildes would take quadratic time."""


def message_html(message: TranscriptMessage) -> Iterator[str]:
    """Yield a message piece by piece, so that a long one is never in memory twice."""
    yield f"{opening_html(message)}\n{header_html(message)}\n"
    for part in message.parts:
        yield f'<div class="part">{part_html(part)}</div>\n'
    yield f"{ending_html(message)}</article>\n"


def opening_html(message: TranscriptMessage, id: str | None = None) -> str:
    """Return the tag that begins a message's element."""
    role = message.role if message.role in ("user", "assistant", "system") else "other"
    return f'<article class="message {role}"{f" id={id!r}" if id is not None else ""}>'


def header_html(message: TranscriptMessage) -> str:
    """Return whose message it is, and when."""
    return f"<header><b><bdi>{_escape(said_by(message))}</bdi></b> {time_html(message)}</header>"


def time_html(message: TranscriptMessage) -> str:
    return f'<time datetime="{iso_time(message.at)}">{shown_time(message.at)}</time>'


def ending_html(message: TranscriptMessage) -> str:
    """Return how the answer ended, unless it is complete."""
    match message.status:
        case "running":
            return '<p class="ending">This answer is still being written.</p>'
        case "stopped":
            return '<p class="ending">Stopped.</p>'
        case "failed":
            why = f" <bdi>{_escape(message.error)}</bdi>" if message.error else ""
            return f'<p class="ending failed">The answer failed.{why}</p>'
        case _:
            return ""


def part_html(part: TranscriptPart) -> str:
    """Return one part."""
    match part:
        case TextPart():
            return text_html(part.text)
        case SteeringPart():
            return f'<div class="steering"><small>Said meanwhile</small>{text_html(part.text)}</div>'
        case ReasoningPart():
            return f"<details><summary>Reasoning</summary>{text_html(part.text)}</details>"
        case ToolCallPart():
            return _tool_call(part)
        case DataPart():
            name = f"Data: <bdi>{_escape(part.name)}</bdi>"
            return f"<details><summary>{name}</summary>{_pre(shown_json(part.data))}</details>"
        case SourcePart():
            return f'<p class="source">Source: {_link(part.url, part.title)}</p>'
        case FilePart():
            return _file(part)
        case OtherPart():
            return f'<p class="quiet">A part of the kind <bdi>{_escape(part.kind)}</bdi></p>'


def text_html(text: str) -> str:
    """Return text as it is written, line breaks included; what is between ``` fences is set as code."""
    pieces: list[str] = []
    at = 0
    while (opened := _FENCE.search(text, at)) is not None:
        closing = re.compile(rf"^{re.escape(opened[1][0])}{{{len(opened[1])},}}[ \t]*$", re.MULTILINE)
        closed = closing.search(text, min(opened.end() + 1, len(text)))
        pieces.append(_paragraph(text[at : opened.start()].removesuffix("\n")))
        pieces.append(
            _pre(text[opened.end() + 1 : closed.start() if closed is not None else len(text)].removesuffix("\n"))
        )
        at = min(closed.end() + 1, len(text)) if closed is not None else len(text)
    pieces.append(_paragraph(text[at:]))
    return "".join(pieces)


def _paragraph(text: str) -> str:
    return f'<div class="text" dir="auto">{_escape(text)}</div>' if text.strip() else ""


_CALLS: Final = {
    "running": "not finished",
    "waiting": "waits for approval",
    "approved": "approved, not finished",
    "done": "done",
    "failed": "failed",
    "denied": "denied",
}


def _tool_call(part: ToolCallPart) -> str:
    name = f'<span class="tool"><bdi>{_escape(part.tool)}</bdi></span> <small>{_CALLS[part.status]}</small>'
    details = ""
    if part.approval is not None and part.approval.summary:
        details += f"<p><bdi>{_escape(part.approval.summary)}</bdi></p>"
    if part.input is not UNSET:
        details += f"<h3>Input</h3>{_pre(shown_json(part.input))}"
    if part.output is not UNSET:
        details += f"<h3>Output</h3>{_pre(shown_json(part.output))}"
    if part.error is not None:
        details += f"<h3>Error</h3>{_pre(part.error)}"
    approval = ""
    if part.approval is not None and part.approval.status != "waiting":  # else the status of the call says so
        approval = f'<p class="approval"><bdi>{_escape(describe_approval(part.approval))}</bdi></p>'
    if not details:
        return f'<p class="call">{name}</p>{approval}'
    return f'<details class="call"><summary>{name}</summary>{details}</details>{approval}'


def _file(part: FilePart) -> str:
    name = part.name or part.media_type
    if (image := data_image(part.url)) is not None:
        return f'<figure><img alt="{_escape(name)}" src="{image}"><figcaption>{_escape(name)}</figcaption></figure>'
    if shared_file(part.url) is not None:
        return _shared_file(part, name)
    link = _link(part.url, name)
    if (content := data_download(part.url)) is not None:
        link = f'<a download="{_escape(part.name or "file")}" href="{content}"><bdi>{_escape(name)}</bdi></a>'
    return _linked_file(part, link)


def _shared_file(part: FilePart, name: str) -> str:
    """Return a picture or a link to a file below a shared link; the server decides by its content what it may be."""
    url, shown = _escape(part.url or ""), _escape(name)
    if part.media_type in SHOWN_TYPES:
        image = f'<img loading="lazy" alt="{shown}" src="{url}">'
        return f'<figure><a href="{url}" target="_blank">{image}</a><figcaption>{shown}</figcaption></figure>'
    link = f'<a download="{_escape(part.name or "file")}" href="{url}"><bdi>{shown}</bdi></a>'
    return _linked_file(part, link)


def _linked_file(part: FilePart, link: str) -> str:
    """Return a file that is not drawn, with its type, unless this stands in the place of its name."""
    facts = [part.media_type] if part.name else []
    if part.left_out is not None:
        facts.append(f"not included: {part.left_out}")
    about = f" <small>{_escape('; '.join(facts))}</small>" if facts else ""
    return f'<p class="file">File: {link}{about}</p>'


def _link(url: str | None, text: str) -> str:
    shown = f"<bdi>{_escape(text)}</bdi>"
    target = link_target(url)
    return (
        f'<a href="{_escape(target)}" rel="noopener noreferrer nofollow">{shown}</a>' if target is not None else shown
    )


def _pre(text: str) -> str:
    return f'<pre dir="auto">{_escape(text)}</pre>'


def _escape(text: str) -> str:
    return html.escape(storable(text))
