"""Live transcripts: the changes that a page has to make to show the present one. Pure.

A page has one element per message, with one element per part. Text that only grows is sent as what was added.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..ids import NodeId
from .document import TextPart, TranscriptMessage
from .html_message import ending_html, header_html, opening_html, part_html

__all__ = ["LiveHead", "LiveMessage", "changes", "head_changes", "live_html", "render"]

Change = dict[str, Any]


class LiveMessage(NamedTuple):
    """One message as HTML, in the pieces that may change."""

    id: str
    message: TranscriptMessage
    opening: str
    header: str
    parts: Sequence[str]
    ending: str


class LiveHead(NamedTuple):
    """The title, and the facts below it as HTML."""

    title: str
    facts: str


def head_changes(before: LiveHead | None, now: LiveHead) -> Iterator[Change]:
    """Yield what a page that shows the head `before` has to do to show `now`."""
    if before != now:
        yield {"type": "head", "title": now.title, "facts": now.facts}


def render(node: NodeId, message: TranscriptMessage, before: LiveMessage | None = None) -> LiveMessage:
    """Return a message as HTML; parts that are as `before` are not written again."""
    id = f"m{node}"
    known = list(zip(before.message.parts, before.parts, strict=True)) if before is not None else []
    parts = [
        known[place][1] if place < len(known) and known[place][0] == part else part_html(part)
        for place, part in enumerate(message.parts)
    ]
    return LiveMessage(id, message, opening_html(message, id), header_html(message), parts, ending_html(message))


def live_html(live: LiveMessage) -> str:
    """Return the element of a message."""
    parts = "".join(f'<div class="part">{part}</div>' for part in live.parts)
    return (
        f'{live.opening}{live.header}<div class="parts">{parts}</div><div class="end">{live.ending}</div></article>\n'
    )


def changes(before: Sequence[LiveMessage], now: Sequence[LiveMessage]) -> Iterator[Change]:
    """Yield what a page that shows `before` has to do, in order, to show `now`."""
    ids = [each.id for each in before]
    if ids != [each.id for each in now[: len(ids)]]:  # another branch, or messages were removed
        yield {"type": "clear"}
        before = ()
    for old, new in zip(before, now, strict=False):
        if old is not new:
            yield from _message_changes(old, new)
    for new in now[len(before) :]:
        yield {"type": "message", "html": live_html(new)}


def _message_changes(old: LiveMessage, new: LiveMessage) -> Iterator[Change]:
    if (old.opening, old.header) != (new.opening, new.header) or len(new.parts) < len(old.parts):
        yield {"type": "replace", "id": new.id, "html": live_html(new)}
        return
    for place, part in enumerate(new.parts):
        if place >= len(old.parts):
            yield {"type": "part", "id": new.id, "part": place, "html": part}
        elif old.parts[place] != part:
            added = _added(old.message.parts[place], new.message.parts[place])
            if added is not None:
                yield {"type": "text", "id": new.id, "part": place, "text": added}
            else:
                yield {"type": "part", "id": new.id, "part": place, "html": part}
    if old.ending != new.ending:
        yield {"type": "end", "id": new.id, "html": new.ending}


def _added(old: object, new: object) -> str | None:
    """Return the text that was added to a part; None if it changed otherwise, or has code, which is set apart."""
    if not isinstance(old, TextPart) or not isinstance(new, TextPart):
        return None
    if "```" in new.text or "~~~" in new.text or not old.text.strip() or not new.text.startswith(old.text):
        return None
    return new.text[len(old.text) :]
