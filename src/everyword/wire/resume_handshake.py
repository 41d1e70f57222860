"""The resume handshake: answers to a client's probes, and offers of streams to clients that wait (R-11, B2)."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from ..events import Outcome, TurnEnded
from ..ids import RequestId, TurnId
from . import frames
from .connection_turns import ConnectionTurn, ConnectionTurns
from .parse import ResumeAck, ResumeRequest

__all__ = ["NeedsReplay", "ResumeHandshake", "ResumeMode"]


class ResumeMode(enum.Enum):
    """State of a connection: it gets live frames, waits for a turn to begin (parked), or was offered a stream."""

    LIVE = "live"
    PARKED = "parked"
    OFFERED = "offered"


@dataclass(frozen=True, slots=True)
class NeedsReplay:
    """The caller has to read the acknowledged turn from the committed state, then call `replayed`."""

    request: RequestId
    is_awaited: bool = False
    """True if the client had probed for a stream: it starts its copy of the message again (P-41)."""


class ResumeHandshake:
    """The handshake of one connection."""

    def __init__(
        self,
        turns: ConnectionTurns,
        *,
        mode: ResumeMode = ResumeMode.LIVE,
        offered: TurnId | None = None,
        is_awaiting: bool = False,
        has_probed: bool = False,
    ) -> None:
        self._turns = turns
        self.mode, self.offered = mode, offered
        self.is_awaiting = is_awaiting
        """True when the client has probed and waits for a stream, which it will read as its own."""
        self.has_probed = has_probed
        """True once the client has probed. The other clients wait for an offer without asking."""

    @property
    def is_live(self) -> bool:
        return self.mode is ResumeMode.LIVE

    @property
    def is_parked(self) -> bool:
        return self.mode is ResumeMode.PARKED

    def is_offered(self, turn: TurnId) -> bool:
        """Tell whether this connection was offered the turn and has not acknowledged it: it gets none of its frames."""
        return self.mode is ResumeMode.OFFERED and self.offered == turn

    def offer(self, known: ConnectionTurn) -> None:
        self.mode, self.offered = ResumeMode.OFFERED, known.turn

    def park(self) -> None:
        self.mode = ResumeMode.PARKED

    def go_live(self) -> None:
        self.mode, self.offered, self.is_awaiting = ResumeMode.LIVE, None, False

    def probed(
        self, frame: ResumeRequest, last: ConnectionTurn | None, is_forgotten: Callable[[ConnectionTurn], bool]
    ) -> list[bytes]:
        """Answer a probe: with the first matching row of the first table of B2.

        `last` is the turn that ended last; `is_forgotten` tells whether that turn left no message.
        """
        streaming = self._turns.streaming
        self.is_awaiting = self.has_probed = True
        if streaming is not None and self._turns.is_owned_by_another(streaming):
            self.is_awaiting = False
            return [frames.resume_none("continuation-owned", frame.probe)]
        if streaming is not None:
            self.offer(streaming)
            return [frames.resuming(streaming.request, frame.probe)]
        for waiting in self._turns:
            if waiting.is_continuation and not self._turns.is_owned_by_another(waiting):
                self.park()
                return [frames.pending(waiting.request, frame.probe)]
        if not len(self._turns) and last is not None and (last.outcome is Outcome.ERROR or is_forgotten(last)):
            return [frames.resuming(last.request, frame.probe)]
        accepted = [known for known in self._turns if not known.is_continuation]
        if accepted:
            self.park()
            return [frames.pending(accepted[-1].request, frame.probe)]
        self.is_awaiting = False
        return [frames.resume_none("idle", frame.probe)]

    def acknowledged(self, frame: ResumeAck) -> NeedsReplay | None:
        """Return the turn that has to be read; None if another turn than the acknowledged one is running."""
        streaming = self._turns.streaming
        if streaming is not None and streaming.request != frame.id:
            return None
        is_awaited, self.is_awaiting = self.is_awaiting, False
        if (
            known := self._turns.of_request(frame.id)
        ) is not None:  # a client that acknowledges twice starts again twice
            is_awaited = known.is_awaited = known.is_awaited or is_awaited
        return NeedsReplay(frame.id, is_awaited)

    def begins(self, known: ConnectionTurn) -> list[bytes]:
        """Return the offer of a turn whose first chunk comes, if this connection waits for it.

        A parked connection is offered the turn. A connection that answered a tool call and never probes may wait as
        well: it gets all frames, and if it acknowledges, it drops the chunks that it has by their number (P-64). The
        stock hook probes; if it got an offer unasked, it would take the chunks before its acknowledgement for another
        message.
        """
        if self.is_parked and not self._turns.is_owned_by_another(known):
            self.offer(known)
            return [frames.resuming(known.request)]
        if known.is_continuation and self._turns.is_mine(known.origin) and not self.has_probed:
            return [frames.resuming(known.request)]
        return []

    def skipped(self) -> list[bytes]:
        """Return the frames for a connection that waits, without a probe, for a continuation that will not come."""
        return [] if self.has_probed or self.is_parked else [frames.resume_none()]

    def released(self, event: TurnEnded, known: ConnectionTurn) -> list[bytes]:
        """Return the frames for a parked connection when the last open turn has ended.

        A superseded turn has a successor, accepted in the same batch: a parked connection waits for that one. A turn
        that was cleared is followed by `chat.cleared` in the same batch, which releases the connection.
        """
        if not self.is_parked or len(self._turns) or event.reason in ("superseded", "cleared"):
            return []
        is_awaiting = self.is_awaiting
        self.go_live()
        if event.outcome is Outcome.ERROR and not known.has_chunks:
            self.is_awaiting = is_awaiting
            return [frames.resuming(known.request)]  # the client drops an error frame without an offer
        return [frames.resume_none()]

    def cleared(self) -> list[bytes]:
        """Return the frames for a parked connection when the conversation is cleared."""
        released = [frames.resume_none()] if self.is_parked else []
        self.go_live()
        return released
