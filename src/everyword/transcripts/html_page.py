"""A transcript as one HTML file: no scripts, no requests to anywhere, readable on a phone, in the dark and on paper."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Iterator
from importlib.resources import files
from typing import Final

from .document import TranscriptHead, TranscriptMessage
from .html_message import message_html
from .safe_text import shown_period, storable

__all__ = ["HTML_CLOSING", "STYLE", "STYLE_HASH", "facts_html", "html_opening", "next_message_html"]

STYLE: Final = (files(__package__) / "page.css").read_text(encoding="utf-8")
STYLE_HASH: Final = f"'sha256-{base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}'"
"""Allows the style, and nothing else, in a content security policy."""

POLICY: Final = f"default-src 'none'; img-src data:; style-src {STYLE_HASH}; base-uri 'none'; form-action 'none'"


HTML_CLOSING: Final = "</main>\n</html>\n"


def html_opening(head: TranscriptHead) -> str:
    """Return the beginning of the file."""
    title = html.escape(storable(head.title))
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        f'<meta http-equiv="content-security-policy" content="{html.escape(POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n<meta name="robots" content="noindex">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n"
        f'<h1 dir="auto">{title}</h1>\n<div class="facts">{facts_html(head)}</div>\n<main>\n'
    )


def next_message_html(message: TranscriptMessage, is_first: bool) -> Iterator[str]:
    """Yield the next message piece by piece."""
    return message_html(message)


def facts_html(head: TranscriptHead) -> str:
    """Return the owner, the participants and the times, as paragraphs."""
    lines = [shown_period(head.created_at, head.updated_at)]
    if head.kind is not None:
        lines.append(f"Conversation {head.kind}/{head.name}")
    if head.owner is not None:
        lines.append(f"Owner: {head.owner}")
    if head.participants:
        lines.append(f"Participants: {', '.join(who.label for who in head.participants)}")
    return "".join(f"<p><bdi>{html.escape(storable(line))}</bdi></p>" for line in lines)
