"""How far the client of a relayed socket is, as the edge knows it: enough for another owner to go on from there."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec
from starlette.types import Message

from .relay_records import Progress

__all__ = ["KeptSocket"]

MOST_BYTES: Final = 1024 * 1024
"""Bytes of undecided messages that are kept. A client that is further ahead is closed when its owner is lost."""

MOST_HELD: Final = 128 * 1024
"""Bytes of frames that are held until all of their place are here."""

REPEATABLE: Final = frozenset(
    {
        "cf_agent_use_chat_request",
        "cf_agent_chat_request_cancel",
        "cf_agent_stream_resume_request",
        "cf_agent_stream_resume_ack",
        "cf_agent_tool_result",
        "cf_agent_tool_approval",
    }
)
"""Types of frames that may be sent to two owners: a request, an answer or a cancellation counts once."""


class _Typed(msgspec.Struct):
    type: str = ""


_type_of: Final = msgspec.json.Decoder(_Typed).decode


class KeptSocket:
    """What is known of one socket."""

    def __init__(self) -> None:
        self.cursor = 0
        self.resume = b""
        """What the last owner left for the next; empty before it has left anything."""
        self._taken = self._sent = self._bytes = 0
        self._undecided: deque[Message] = deque()
        self._is_busy = False
        self.is_open = False
        """True while records come that lead to the next place: they are held until all of them are here."""
        self.is_partly_sent = False
        """True if some of them were too large to be held: nobody knows how many the client has."""
        self._held: list[bytes] = []
        self._held_bytes = 0

    def sent(self, message: Message) -> None:
        """Note a message that goes to the owner."""
        self._sent += 1
        self._bytes += len(message.get("text") or "")
        if self._bytes <= MOST_BYTES:
            self._undecided.append(message)

    def hold(self, record: bytes) -> bool:
        """Keep a record until the others of its place are here; False if it is too large for that."""
        if self.is_partly_sent or self._held_bytes + len(record) > MOST_HELD:
            self.is_partly_sent = True
            return False
        self._held.append(record)
        self._held_bytes += len(record)
        return True

    def released(self) -> list[bytes]:
        """Return the records that are held, and hold them no longer."""
        held, self._held, self._held_bytes = self._held, [], 0
        return held

    def moved(self) -> None:
        """Forget what the last owner had begun to send: the next one sends it again."""
        self.released()
        self.is_open = False

    def update(self, progress: Progress) -> None:
        """Note what the owner says."""
        self.is_open = progress.is_open
        if progress.is_open:
            return
        self._is_busy, self.is_partly_sent = progress.is_busy, False
        self.cursor = progress.cursor
        if progress.resume is not None:
            self.resume = progress.resume
        while self._taken < progress.taken and self._undecided:
            self._bytes -= len(self._undecided.popleft().get("text") or "")
            self._taken += 1

    @property
    def can_move(self) -> bool:
        """Whether another owner can go on: nothing is half sent, and what is undecided may be sent again."""
        is_known = bool(self.resume) and not self.is_partly_sent and not self._is_busy
        return is_known and self._bytes <= MOST_BYTES and all(map(_is_repeatable, self._undecided))

    def undecided(self) -> Sequence[Message]:
        """Return the messages that the next owner is to get first. It counts them from 1 again."""
        self._taken = 0
        return list(self._undecided)


def _is_repeatable(message: Message) -> bool:
    try:
        return _type_of(message.get("text") or "").type in REPEATABLE
    except msgspec.MsgspecError:
        return False
