"""Frames that the server may not have processed yet.

A server reads the frames of one client in order and commits each before it reads the next (P-48). So the answer to a
call that is sent directly after a command confirms the command; any answer does, also "no such method". A question is
confirmed by its ending. After a reconnect the client sends every unconfirmed frame again, in the same order: servers
ignore repeated questions, cancels and answers to tool calls.
"""

from __future__ import annotations

from typing import Final

import msgspec

__all__ = ["MARK", "UnconfirmedFrames"]

MARK: Final = "everyword.mark"
"""The method of the confirming calls. No agent has a method of this name, and none needs one."""


class UnconfirmedFrames:
    """Sent frames, in order, until they are confirmed."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._marks = 0
        self._sent: dict[str, list[str]] = {}

    def question(self, request_id: str, frame: str) -> list[str]:
        """Record a frame that `confirm(request_id)` confirms; return what to send."""
        self._sent[request_id] = [frame]
        return [frame]

    def command(self, frame: str) -> tuple[str, list[str]]:
        """Record a frame that the answer to a call confirms; return that call's id, and what to send."""
        self._marks += 1
        mark = f"{self._prefix}-{self._marks}"
        call = msgspec.json.encode({"type": "rpc", "id": mark, "method": MARK, "args": []}).decode()
        self._sent[mark] = [frame, call]
        return mark, [frame, call]

    def confirm(self, key: str) -> bool:
        """Forget the frames of a request or a mark; False if there are none."""
        return self._sent.pop(key, None) is not None

    def is_confirmed(self, key: str) -> bool:
        return key not in self._sent

    def frames(self) -> list[str]:
        """Return all unconfirmed frames in the order in which they were sent."""
        return [frame for frames in self._sent.values() for frame in frames]
