"""The forms of a transcript: their media types, their file names, and how each is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal, NamedTuple

from ..core.record import ConversationRecord
from ..ids import Millis, NodeId
from ..rows import ConversationSummary
from .document import EVERYTHING, Shown, TranscriptHead, TranscriptMessage, describe_message, head_of
from .html_page import html_page
from .json_document import json_document
from .markdown import markdown

__all__ = ["FORMATS", "Format", "TranscriptFormat", "filename_of", "write_record"]

TranscriptFormat = Literal["markdown", "html", "json"]


class Format(NamedTuple):
    """One form of a transcript."""

    media_type: str
    ending: str
    """How file names end."""
    write: Callable[[TranscriptHead, Iterable[TranscriptMessage]], Iterator[str]]


FORMATS: Final[dict[str, Format]] = {
    "markdown": Format("text/markdown; charset=utf-8", "md", markdown),
    "html": Format("text/html; charset=utf-8", "html", html_page),
    "json": Format("application/json", "json", json_document),
}

_UNUSUAL: Final = re.compile(r"[^A-Za-z0-9._-]+")


def filename_of(kind: str, name: str, chosen: Format) -> str:
    """Return the name of the file, which any file system and any header can hold."""
    stem = _UNUSUAL.sub("-", f"{kind}-{name}").strip("-.")[:80].rstrip("-.") or "conversation"
    return f"{stem}.{chosen.ending}"


def write_record(
    record: ConversationRecord,
    summary: ConversationSummary,
    form: Format,
    *,
    kind: str,
    name: str,
    now: Millis,
    shown: Shown = EVERYTHING,
    leaf: NodeId | None = None,
) -> Iterator[str]:
    """Yield a transcript of one branch, piece by piece: one message at a time is decoded and written."""
    described = (describe_message(each, shown) for each in record.messages(leaf))
    head = head_of(summary, kind, name, now, shown)
    return form.write(head, (each for each in described if each is not None))
