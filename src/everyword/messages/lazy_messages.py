"""A list of stored messages that is decoded on first access: not every turn reads the whole conversation."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import overload

from .message import UIMessage
from .readable_parts import keep_readable_parts, unreadable_parts

__all__ = ["LazyMessages"]


class LazyMessages(Sequence[UIMessage]):
    """A read-only list of messages, decoded on first access. `partial`, if given, is the last message.

    Unreadable parts are left out and listed in `skipped`.
    """

    def __init__(self, bodies: Collection[bytes], partial: UIMessage | None = None) -> None:
        self._bodies, self._partial = bodies, partial
        self._read: list[UIMessage] | None = None
        self.skipped: list[str] = []
        """The parts that were left out. Empty until the messages are decoded."""

    @property
    def _messages(self) -> list[UIMessage]:
        if self._read is None:
            decoded = [UIMessage.decode(body) for body in self._bodies]
            if self._partial is not None:
                decoded.append(self._partial)
            self._read = [self._readable(message) for message in decoded]
        return self._read

    def _readable(self, message: UIMessage) -> UIMessage:
        kept = keep_readable_parts(message)
        if kept is not message:
            self.skipped += unreadable_parts(message)
        return kept

    @overload
    def __getitem__(self, index: int) -> UIMessage: ...

    @overload
    def __getitem__(self, index: slice) -> list[UIMessage]: ...

    def __getitem__(self, index: int | slice) -> UIMessage | list[UIMessage]:
        return self._messages[index]

    def __len__(self) -> int:
        return len(self._bodies) + (self._partial is not None)

    def __eq__(self, other: object) -> bool:
        return self._messages == (other._messages if isinstance(other, LazyMessages) else other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._messages)
