"""What is known of the list of messages that a client shows: whether it may differ, and what the client has read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..ids import MessageId, RequestId, Seq, TurnId
from .connection_turns import ConnectionTurn

__all__ = ["IGNORED", "ClientList"]

IGNORED: Final = 4
"""So often a client may ask as if it had been shown nothing: a request may have lain somewhere for a while."""

JsonObject = dict[str, Any]


@dataclass(slots=True)
class ClientList:
    """One client's list, as far as it can be known from what it was sent and what it sends."""

    changed_at: Seq
    """Where the conversation last changed."""
    is_doubted: bool = False
    """Whether the client may show something else than the transcript, for all that it was told."""
    has_been_shown: bool = False
    """Whether a transcript was written that may still be on its way to the client."""
    transcripts: int = 0
    """How many transcripts were written."""
    proof: TurnId | None = None
    """A turn of this connection's own that began to speak after the last transcript: who knows its answer's id has read
    the transcript."""
    proof_answer: MessageId | None = None
    is_proof_over: bool = False
    has_list: bool = False
    """Whether the client was shown a conversation since it last asked, after an answer: it should send it along."""
    ignored: int = 0
    """How often it did not, one after the other."""
    asked: tuple[RequestId, Seq] | None = None
    """The question that is being asked, and the head of the log that its list was compared with."""

    def asks(
        self, request: RequestId, messages: Sequence[JsonObject], *, head: Seq, is_stale: bool, is_new: bool
    ) -> None:
        """Take in what the list of a question tells of the client that sends it.

        If it `is_stale`, another conversation than the one stored at `head`, the client is told the transcript once
        nothing runs; so it is if the conversation changes before the question is accepted. But it is not if the list
        `is_new`, all of it, again and again, whatever the client is shown: such a client sends what is new and
        nothing else, and what it shows is not known from it.
        """
        self.ignored = self.ignored + self.has_list if is_new else 0
        self.has_list = False
        is_brief = self.ignored >= IGNORED
        self.asked = None if is_brief else (request, head)
        self.doubt(if_=is_stale and not is_brief)
        if self.proof is None:
            return
        if is_brief:
            has_read = self.is_proof_over  # it waited for the end of its turn
        else:
            has_read = any(each["id"] == self.proof_answer for each in reversed(messages))
        self.has_been_shown = self.has_been_shown and not has_read

    def has_arrived(self) -> None:
        """Note that the client has had the time to take in every transcript that was written."""
        self.has_been_shown = False

    def accepted(self, request: RequestId, changed_at: Seq) -> None:
        """Take in that a request was accepted, when the conversation had last changed at `changed_at`."""
        if self.asked is not None and self.asked[0] == request:
            self.doubt(if_=self.asked[1] < changed_at)
            self.asked = None

    def doubt(self, *, if_: bool = True) -> None:
        """Note that the client may show something else than the transcript."""
        self.is_doubted = self.is_doubted or if_

    def begins(self, known: ConnectionTurn) -> None:
        """Note that a turn of the client's own says its first word: not later, or its id came before the transcript."""
        self.proof, self.proof_answer, self.is_proof_over = known.turn, known.answer, False

    def ended(self, turn: TurnId) -> None:
        self.is_proof_over = self.is_proof_over or turn == self.proof

    def shown(self, *, is_whole: bool) -> None:
        """Note that a transcript is written; `is_whole` if it has messages and nothing is open."""
        self.has_been_shown, self.proof = True, None
        self.has_list = self.has_list or is_whole
        self.transcripts += 1

    def cleared(self) -> None:
        self.ignored, self.has_list = 0, False
        self.is_doubted = self.has_been_shown = True
