"""What a client has said and does not know to have been heard, sans-IO.

A server takes the frames of one client in order and commits each before it looks at the next (P-48). So a command is
confirmed by the answer to a call that is sent right behind it: any answer will do, also that there is no such method.
A question is confirmed by its ending. After a reconnect everything unconfirmed is said again, in the same order;
questions, cancels and answers to calls may be heard any number of times.
"""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["UnconfirmedFrames"]

MARK: Final = "everyword.mark"
"""The method of the calls that confirm: no agent has one of this name, and none needs it."""


class UnconfirmedFrames:
    """Frames in the order in which they were said, until they are confirmed."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._marks = 0
        self._said: dict[str, list[str]] = {}

    def question(self, request: str, frame: str) -> list[str]:
        """Note a frame that `confirm(request)` settles; return what is to be sent."""
        self._said[request] = [frame]
        return [frame]

    def command(self, frame: str) -> tuple[str, list[str]]:
        """Note a frame that the answer to a call settles; return that call's id, and what is to be sent."""
        self._marks += 1
        mark = f"{self._prefix}-{self._marks}"
        call = msgspec.json.encode({"type": "rpc", "id": mark, "method": MARK, "args": []}).decode()
        self._said[mark] = [frame, call]
        return mark, [frame, call]

    def confirm(self, key: str) -> bool:
        """Forget what was said under a request or a mark; False when nothing was."""
        return self._said.pop(key, None) is not None

    def is_confirmed(self, key: str) -> bool:
        return key not in self._said

    def frames(self) -> list[str]:
        """Return everything that has to be said again, in order."""
        return [frame for frames in self._said.values() for frame in frames]
