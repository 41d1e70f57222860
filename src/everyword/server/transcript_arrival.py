"""Decides when a transcript that was written to a socket counts as read by its client."""

from __future__ import annotations

from typing import Final

from ..ids import Millis
from ..runtime.clock import Clock
from ..wire.client_list import ClientList

__all__ = ["ARRIVED_AFTER", "TranscriptArrival"]

ARRIVED_AFTER: Final = 10_000
"""Milliseconds after which a frame that was written has reached its client, or never will."""


class TranscriptArrival:
    """Notes when transcripts are written, and tells `ClientList` when the client has had the time to read them."""

    def __init__(self, client_list: ClientList, clock: Clock) -> None:
        self._client_list, self._clock = client_list, clock
        self._transcripts, self._at = 0, Millis(0)
        """How many transcripts were written, and when the last one was."""

    def note_written(self) -> None:
        """Note that every frame so far was handed to the socket."""
        if self._client_list.transcripts != self._transcripts:
            self._transcripts, self._at = self._client_list.transcripts, self._clock.now()

    def update(self) -> None:
        """Call before the list of a question is judged: marks transcripts as read once `ARRIVED_AFTER` is over."""
        is_written = self._client_list.transcripts == self._transcripts  # none waits for a socket that is full
        if is_written and self._clock.now() - self._at > ARRIVED_AFTER:
            self._client_list.has_arrived()
