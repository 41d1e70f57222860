"""Add the author's name to user messages, for models in conversations of several people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from .message import Part, UIMessage

__all__ = ["NAMED", "with_speakers"]

NAMED: Final = "Every message of the user begins with the name of the person who wrote it."
"""Instruction for the model that explains the names."""

LONGEST: Final = 80


def with_speakers(messages: Iterable[UIMessage]) -> list[UIMessage]:
    """Return the messages with the author's name at the beginning of each user message: `Ann: hello`.

    Messages without a known author are not changed. The name is text for the model and no proof of identity, because
    users can write any text: a tool that must know the user reads `context.principal`.
    """
    return [_named(message) if message.role == "user" else message for message in messages]


def _named(message: UIMessage) -> UIMessage:
    author = message.author
    if author is None:
        return message
    name = " ".join((author.name or author.id).split())[:LONGEST]
    return replace(message, parts=_beginning_with(f"{name}:", message.parts))


def _beginning_with(name: str, parts: list[Part]) -> list[Part]:
    for place, part in enumerate(parts):
        if part["type"] == "text":
            return [*parts[:place], {**part, "text": f"{name} {part.get('text', '')}"}, *parts[place + 1 :]]
    return [{"type": "text", "text": name}, *parts]
