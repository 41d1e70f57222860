"""The order of frames at the end of a turn, for one connection. This module is the only place that decides it.

`TurnEnd.frames` concatenates, in this order:

1. `_ending`: the terminal frame, with a transcript before or after it where the client needs one;
2. `chat_recovering: false`, if the turn was recovering;
3. a transcript, if the client's list may be out of sync and step 1 sent none, or the turn was skipped;
4. the answer to a client that waited for a turn to begin (`ResumeHandshake.released`).
"""

from __future__ import annotations

from ..events import Outcome, TurnEnded
from . import frames
from .client_list import ClientList
from .connection_turns import ConnectionTurn, ConnectionTurns
from .inactive_branches import InactiveBranches
from .resume_handshake import ResumeHandshake
from .transcript_frames import TranscriptFrames

__all__ = ["TurnEnd", "recovered_frames"]


class TurnEnd:
    """Makes the frames with which a turn ends. `last_ended` is the turn that ended last, if it was not skipped."""

    def __init__(
        self,
        turns: ConnectionTurns,
        handshake: ResumeHandshake,
        branches: InactiveBranches,
        client_list: ClientList,
        transcript: TranscriptFrames,
        last_ended: ConnectionTurn | None,
    ) -> None:
        self._turns, self._handshake, self._branches = turns, handshake, branches
        self._client_list, self._transcript = client_list, transcript
        self.last_ended = last_ended

    def frames(self, event: TurnEnded) -> list[bytes]:
        """Return the frames of a turn's end, in order; none for a turn that this connection does not know."""
        known = self._turns.pop(event.turn)
        if known is None:
            return []
        known.outcome = event.outcome
        client_list = self._client_list
        client_list.ended(event.turn)
        transcripts = client_list.transcripts
        ending = [*self._ending(event, known), *recovered_frames(known)]
        is_time = self._turns.are_quiet or (known.has_chunks and not known.is_hidden)
        if client_list.is_doubted and is_time and event.reason != "cleared":
            # Turns that overlap, end early or lie on an inactive branch leave the client's list in another order. Now
            # nothing streams; while something streams, a client keeps that message and puts it behind all others.
            client_list.is_doubted = len(self._turns) > 0
            if client_list.transcripts == transcripts or event.outcome is Outcome.SKIPPED:
                ending.append(self._transcript.whole())
        ending += self._handshake.released(event, known)
        if event.outcome is not Outcome.SKIPPED:
            self.last_ended = known
        return ending

    def _ending(self, event: TurnEnded, known: ConnectionTurn) -> list[bytes]:
        """Return the terminal frame, with a transcript before or after it where this client needs one."""
        terminal = frames.terminal(
            known.request,
            event.outcome,
            error=event.error,
            message_ids=known.message_ids,
            is_continuation=known.is_continuation,
        )
        if event.outcome is Outcome.SKIPPED:
            return self._skipped(event, known, terminal)
        if self._handshake.is_offered(event.turn):
            self._handshake.go_live()  # the client never acknowledged: it still gets the transcript and the end
            return [self._transcript.whole(), terminal] if known.is_saved else [terminal]
        if event.reason == "cleared" and not known.is_joined and not self._turns.is_mine(known.origin):
            # A client that only watches puts its half of the answer back when the turn is done, even if this client
            # cleared the chat; after an error frame it forgets the answer.
            return [frames.response(known.request, "", done=False, error=True), terminal]
        if self._branches.follows(known):
            return [terminal, self._transcript.whole()]  # before the end, a client keeps the answer that it reads
        if known.is_joined and known.is_saved:
            if known.is_continuation:
                # Before the end: at the end a client is ready, and must see its calls as they are stored.
                return [self._transcript.whole(), terminal]
            # After the end: before it, a client that resumed puts the answer back to where it first stood.
            return [terminal, self._transcript.whole()]
        if event.outcome is Outcome.ABORTED and known.is_saved:
            # A client that stopped has dropped the chunks that were under way: send the answer as it was stored.
            return [*self._transcript.updated(known.node), terminal]
        return [terminal]

    def _skipped(self, event: TurnEnded, known: ConnectionTurn, terminal: bytes) -> list[bytes]:
        """Return the end of a turn that never ran: only the connection that asked for it gets one."""
        if not self._turns.is_mine(known.origin):
            return []
        if known.is_continuation:
            return self._handshake.skipped()
        return [self._transcript.whole(), terminal] if event.reason == "dropped" else [terminal]


def recovered_frames(known: ConnectionTurn) -> list[bytes]:
    """Return the frame that ends the recovery of a turn; none if it was not recovering."""
    if known.recovers_with is None:
        return []
    known.recovers_with = None
    return [frames.recovering(known.request, is_recovering=False)]
