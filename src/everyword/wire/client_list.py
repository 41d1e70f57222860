"""What the server knows of a client's message list: whether it may be out of sync, and what the client has read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..ids import MessageId, RequestId, Seq, TurnId
from .connection_turns import ConnectionTurn

__all__ = ["IGNORED", "ClientList"]

IGNORED: Final = 4
"""After this many questions in a row without the list that it was sent, a client counts as one that sends only new
messages. Fewer are no proof: a request may have been delayed on its way."""

JsonObject = dict[str, Any]


@dataclass(slots=True)
class ClientList:
    """One client's message list, as far as the frames to and from the client tell."""

    changed_at: Seq
    """The seq at which the conversation last changed."""
    is_doubted: bool = False
    """True when the client's message list may be out of sync with the transcript."""
    has_been_shown: bool = False
    """True when a transcript was written to the socket and may not have reached the client yet."""
    transcripts: int = 0
    """Number of transcripts written to the socket."""
    proof: TurnId | None = None
    """A turn of this connection whose first chunk came after the last transcript. A client that knows the id of its
    answer has read the transcript."""
    proof_answer: MessageId | None = None
    is_proof_over: bool = False
    has_list: bool = False
    """True when the client was sent a whole conversation since its last question: its next list should include it."""
    ignored: int = 0
    """Number of questions in a row whose list did not include it."""
    asked: tuple[RequestId, Seq] | None = None
    """The question that is not accepted yet, and the head of the log that its list was compared with."""

    def asks(
        self, request: RequestId, messages: Sequence[JsonObject], *, head: Seq, is_stale: bool, is_new: bool
    ) -> None:
        """Process the message list of a question.

        If the list `is_stale` (it differs from the conversation stored at `head`), or the conversation changes before
        the question is accepted, the client is sent the transcript once no turn runs. This does not apply to a client
        whose lists are new throughout (`is_new`), IGNORED times in a row, although it was sent conversations: it sends
        only new messages, so its lists do not tell what it shows.
        """
        self.ignored = self.ignored + self.has_list if is_new else 0
        self.has_list = False
        is_brief = self.ignored >= IGNORED
        self.asked = None if is_brief else (request, head)
        self.doubt(if_=is_stale and not is_brief)
        if self.proof is None:
            return
        if is_brief:
            has_read = self.is_proof_over  # it asks again after the end of that turn
        else:
            has_read = any(each["id"] == self.proof_answer for each in reversed(messages))
        self.has_been_shown = self.has_been_shown and not has_read

    def has_arrived(self) -> None:
        """Note that enough time has passed for every written transcript to reach the client."""
        self.has_been_shown = False

    def accepted(self, request: RequestId, changed_at: Seq) -> None:
        """Process that a request was accepted, when the conversation had last changed at `changed_at`."""
        if self.asked is not None and self.asked[0] == request:
            self.doubt(if_=self.asked[1] < changed_at)
            self.asked = None

    def doubt(self, *, if_: bool = True) -> None:
        """Note that the client's list may be out of sync with the transcript."""
        self.is_doubted = self.is_doubted or if_

    def begins(self, known: ConnectionTurn) -> None:
        """Note the first chunk of a turn of this client. Call it no later: the id of the answer would come before the
        transcript."""
        self.proof, self.proof_answer, self.is_proof_over = known.turn, known.answer, False

    def ended(self, turn: TurnId) -> None:
        self.is_proof_over = self.is_proof_over or turn == self.proof

    def shown(self, *, is_whole: bool) -> None:
        """Note that a transcript is written; `is_whole` if it has messages and no turn is open."""
        self.has_been_shown, self.proof = True, None
        self.has_list = self.has_list or is_whole
        self.transcripts += 1

    def cleared(self) -> None:
        self.ignored, self.has_list = 0, False
        self.is_doubted = self.has_been_shown = True
