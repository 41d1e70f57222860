"""How far the client of a relayed socket is, as the edge knows it: enough for another owner to go on from there."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec
from starlette.types import Message

from .relay_records import Progress
from .streams import RECORD_COST

__all__ = ["KeptSocket"]

MOST_BYTES: Final = 1024 * 1024
"""Bytes of undecided messages that are kept. With more, the socket is closed with 1012 if its owner is lost."""

MOST_BYTES_UNREPORTED: Final = 128 * 1024
"""The same before the owner has reported how far the client is. Owners of agents without a chat never report."""

MESSAGE_COST: Final = 512
"""Bytes that a message counts besides its content."""

MOST_HELD: Final = 128 * 1024
"""Bytes of frames that are held until all frames that lead to the next cursor are here."""

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
        self.decided = 0
        """How many messages of the client were decided, by all owners."""
        self._taken = self._sent = 0
        """How many messages the present owner has decided, and how many it was sent."""
        self._undecided: deque[Message] = deque()
        self._bytes = 0
        self._is_over_limit = False
        """True when undecided messages were dropped because of their size, until the owner has decided all."""
        self._is_busy = False
        self.is_open = False
        """True while records come that lead to the next cursor: they are held until all of them are here."""
        self.is_partly_sent = False
        """True if some of them were too large to be held: it is not known how many the client has."""
        self._held: list[bytes] = []
        self._held_bytes = 0

    def sent(self, message: Message) -> None:
        """Note a message that goes to the owner."""
        self._sent += 1
        if self._is_over_limit:
            return
        self._bytes += _cost(message)
        self._undecided.append(message)
        if self._bytes > (MOST_BYTES if self.resume else MOST_BYTES_UNREPORTED):
            self._is_over_limit, self._bytes = True, 0
            self._undecided.clear()

    def hold(self, record: bytes) -> bool:
        """Keep a record until the others of its cursor are here; False if it is too large for that."""
        cost = RECORD_COST + len(record)
        if self.is_partly_sent or self._held_bytes + cost > MOST_HELD:
            self.is_partly_sent = True
            return False
        self._held.append(record)
        self._held_bytes += cost
        return True

    def released(self) -> list[bytes]:
        """Return the records that are held, and hold them no longer."""
        held, self._held, self._held_bytes = self._held, [], 0
        return held

    def moved(self) -> None:
        """Prepare for the next owner: it sends again what the last one had begun to send, and counts from 1."""
        self.released()
        self.is_open = False
        self._taken, self._sent = 0, len(self._undecided)

    def update(self, progress: Progress) -> None:
        """Note what the owner says."""
        self.is_open = progress.is_open
        if progress.is_open:
            return
        self._is_busy, self.is_partly_sent = progress.is_busy, False
        self.cursor = progress.cursor
        if progress.resume is not None:
            self.resume = progress.resume
        if self._is_over_limit:
            self._is_over_limit = progress.taken < self._sent
            self._taken = progress.taken
            return
        while self._taken < progress.taken and self._undecided:
            self._bytes -= _cost(self._undecided.popleft())
            self._taken += 1
            self.decided += 1

    @property
    def can_move(self) -> bool:
        """Whether another owner can go on: nothing is half sent, and what is undecided may be sent again."""
        is_known = bool(self.resume) and not self.is_partly_sent and not self._is_busy
        return is_known and not self._is_over_limit and all(map(_is_repeatable, self._undecided))

    def undecided(self) -> Sequence[Message]:
        """Return the messages that the next owner is to get first."""
        return list(self._undecided)


def _cost(message: Message) -> int:
    """Return about how many bytes a message takes in memory."""
    text, data = message.get("text") or "", message.get("bytes") or b""
    return MESSAGE_COST + len(text) * (1 if text.isascii() else 4) + len(data)


def _is_repeatable(message: Message) -> bool:
    try:
        return _type_of(message.get("text") or "").type in REPEATABLE
    except msgspec.MsgspecError:
        return False
