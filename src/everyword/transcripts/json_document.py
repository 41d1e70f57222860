"""A transcript as JSON: `{"format": "everyword-transcript", "version": 1, "conversation": …, "messages": […]}`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from .document import FORMAT, VERSION, TranscriptHead, TranscriptMessage

__all__ = ["json_document"]


def json_document(head: TranscriptHead, messages: Iterable[TranscriptMessage]) -> Iterator[str]:
    """Yield the file piece by piece: a line for the head, and one for each message."""
    yield f'{{"format":"{FORMAT}","version":{VERSION},\n"conversation":{_json(head)},\n"messages":['
    between = "\n"
    for message in messages:
        yield f"{between}{_json(message)}"
        between = ",\n"
    yield "\n]}\n"


def _json(value: TranscriptHead | TranscriptMessage) -> str:
    return msgspec.json.encode(value).decode()
