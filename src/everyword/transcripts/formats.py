"""The forms of a transcript: their media types, their file names, and how each is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal, NamedTuple

from ..core.record import ConversationRecord
from ..ids import Millis, NodeId
from ..rows import ConversationSummary
from .document import EVERYTHING, Shown, TranscriptHead, TranscriptMessage, describe_message, head_of
from .html_page import HTML_CLOSING, html_opening, next_message_html
from .json_document import JSON_CLOSING, json_message, json_opening
from .markdown import markdown_opening, message_markdown

__all__ = ["FORMATS", "Format", "Transcript", "TranscriptFormat", "filename_of", "transcript_of"]

TranscriptFormat = Literal["markdown", "html", "json"]


class Format(NamedTuple):
    """One form of a transcript."""

    media_type: str
    ending: str
    """How file names end."""
    opening: Callable[[TranscriptHead], str]
    message: Callable[[TranscriptMessage, bool], Iterator[str]]
    """Yields the next message piece by piece; with True, the first one."""
    closing: str
    embeds_files: bool
    """Whether readers can open files that are embedded."""

    def write(self, head: TranscriptHead, messages: Iterable[TranscriptMessage]) -> Iterator[str]:
        """Yield the file piece by piece: one message at a time is taken and written."""
        yield self.opening(head)
        is_first = True
        for message in messages:
            yield from self.message(message, is_first)
            is_first = False
        yield self.closing


class Transcript(NamedTuple):
    """A transcript that can be written, again and again."""

    form: Format
    head: TranscriptHead
    messages: Callable[[], Iterator[TranscriptMessage]]
    """Begins with the first message each time; a message is decoded when it is taken."""


FORMATS: Final[dict[str, Format]] = {
    "markdown": Format("text/markdown; charset=utf-8", "md", markdown_opening, message_markdown, "", False),
    "html": Format("text/html; charset=utf-8", "html", html_opening, next_message_html, HTML_CLOSING, True),
    "json": Format("application/json", "json", json_opening, json_message, JSON_CLOSING, True),
}

_UNUSUAL: Final = re.compile(r"[^A-Za-z0-9._-]+")


def filename_of(kind: str, name: str, chosen: Format) -> str:
    """Return the name of the file, which any file system and any header can hold."""
    stem = _UNUSUAL.sub("-", f"{kind}-{name}").strip("-.")[:80].rstrip("-.") or "conversation"
    return f"{stem}.{chosen.ending}"


def transcript_of(
    record: ConversationRecord,
    summary: ConversationSummary,
    form: Format,
    *,
    kind: str,
    name: str,
    now: Millis,
    shown: Shown = EVERYTHING,
    leaf: NodeId | None = None,
) -> Transcript:
    """Return the transcript of one branch."""

    def messages() -> Iterator[TranscriptMessage]:
        described = (describe_message(each, shown) for each in record.messages(leaf))
        return (each for each in described if each is not None)

    return Transcript(form, head_of(summary, kind, name, now, shown), messages)
