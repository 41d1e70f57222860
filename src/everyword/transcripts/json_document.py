"""A transcript as JSON: `{"format": "everyword-transcript", "version": 1, "conversation": …, "messages": […]}`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from .document import FORMAT, VERSION, TranscriptHead, TranscriptMessage

__all__ = ["JSON_CLOSING", "json_message", "json_opening"]


JSON_CLOSING: Final = "\n]}\n"


def json_opening(head: TranscriptHead) -> str:
    """Return the beginning of the file, with a line for the head."""
    return f'{{"format":"{FORMAT}","version":{VERSION},\n"conversation":{_json(head)},\n"messages":['


def json_message(message: TranscriptMessage, is_first: bool) -> Iterator[str]:
    """Yield the next message as one line."""
    yield f"{'' if is_first else ','}\n{_json(message)}"


def _json(value: TranscriptHead | TranscriptMessage) -> str:
    return msgspec.json.encode(value).decode()
