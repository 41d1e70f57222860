"""Parts that are still streaming. Deltas are collected in a list and joined only when the part is read."""

from __future__ import annotations

from typing import Any

from .message import Chunk, Part
from .partial_json import UNREADABLE, parse_partial_json

__all__ = ["OpenInput", "OpenPart"]


class OpenPart:
    """A text or reasoning part that is still streaming. `join` writes the collected deltas to the part."""

    __slots__ = ("part", "pieces", "position")

    def __init__(self, part: Part, position: int) -> None:
        self.part = part
        self.position = position
        self.pieces: list[str] = []

    def join(self) -> None:
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]
        if self.pieces:
            self.part["text"] = self.pieces[0]


class OpenInput:
    """A tool call whose input is still streaming.

    `announced` is the chunk or the part that introduced the call. `part` is the part that the next delta goes to, or
    None if it must be looked up again. `pending` is True if deltas arrived since the part's input was last parsed.
    """

    __slots__ = ("announced", "encoding", "is_dynamic", "name", "part", "pending", "pieces")

    def __init__(self, name: str, announced: Chunk, *, is_dynamic: bool, text: str = "") -> None:
        self.name = name
        self.announced = announced
        self.is_dynamic = is_dynamic
        self.encoding: str | None = announced.get("inputEncoding")
        self.pieces = [text] if text else []
        self.part: Part | None = None
        self.pending = False

    def text(self) -> str:
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]
        return self.pieces[0] if self.pieces else ""

    def values(self) -> dict[str, Any]:
        text = self.text()
        values: dict[str, Any] = {"rawInput": text}
        if self.encoding is not None:
            values["inputEncoding"] = self.encoding
        value = text if self.encoding == "text" else parse_partial_json(text)
        if value is not UNREADABLE:
            values["input"] = value
        return values

    def settle(self) -> None:
        """Parse the deltas collected so far and write the input to the part."""
        if self.pending and self.part is not None:
            self.pending = False
            self.part.pop("input", None)
            self.part.update(self.values())
