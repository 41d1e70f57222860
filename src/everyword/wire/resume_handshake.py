"""Whether there is something to resume: the answers to a client's probes, and what it waits for (R-11, B2)."""

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
    """How a connection stands: it gets what happens, waits for a turn to begin, or was told that there is a stream."""

    LIVE = "live"
    PARKED = "parked"
    OFFERED = "offered"


@dataclass(frozen=True, slots=True)
class NeedsReplay:
    """The acknowledged turn has to be read from the committed state; then call `replayed`."""

    request: RequestId
    is_awaited: bool = False
    """The client has asked for something to resume, and starts its copy of the message again (P-41)."""


class ResumeHandshake:
    """One connection's side of the handshake."""

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
        """Whether the client has probed and waits for a stream that it will read as its own."""
        self.has_probed = has_probed
        """Whether the client asks for what there is to resume, instead of waiting to be told."""

    @property
    def is_live(self) -> bool:
        return self.mode is ResumeMode.LIVE

    @property
    def is_parked(self) -> bool:
        return self.mode is ResumeMode.PARKED

    def is_offered(self, turn: TurnId) -> bool:
        """Tell whether this connection was offered the turn and has not taken it: it is told nothing of it."""
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
        """Answer a probe: the first row of B2's first table that fits.

        `last` is the turn that ended last; `is_forgotten` tells of it whether it left nothing.
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
        """Return what has to be read, or None when the acknowledgement is of another turn than the running one."""
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
        """Return the offer of a turn that says its first word, if this connection waits for it.

        One that waits is offered the turn. One that answered a call and never probes may wait as well: nothing is held
        back from it, and if it acknowledges it drops by number what it has (P-64). The stock hook probes; told unasked,
        it would take what comes before its acknowledgement for another message.
        """
        if self.is_parked and not self._turns.is_owned_by_another(known):
            self.offer(known)
            return [frames.resuming(known.request)]
        if known.is_continuation and self._turns.is_mine(known.origin) and not self.has_probed:
            return [frames.resuming(known.request)]
        return []

    def skipped(self) -> list[bytes]:
        """Return what a connection is told that waits, without asking, for a continuation that does not come."""
        return [] if self.has_probed or self.is_parked else [frames.resume_none()]

    def released(self, event: TurnEnded, known: ConnectionTurn) -> list[bytes]:
        """Return what a connection is told that waited for a turn to begin, when the last one has ended instead.

        A superseded turn has a successor, accepted in the same breath: who is parked waits for that one. One that was
        cleared is released by `chat.cleared`, in the same breath.
        """
        if not self.is_parked or len(self._turns) or event.reason in ("superseded", "cleared"):
            return []
        is_awaiting = self.is_awaiting
        self.go_live()
        if event.outcome is Outcome.ERROR and not known.has_chunks:
            self.is_awaiting = is_awaiting
            return [frames.resuming(known.request)]  # a bare error frame is dropped by the client
        return [frames.resume_none()]

    def cleared(self) -> list[bytes]:
        """Return what a connection is told that waits, when the conversation is cleared."""
        released = [frames.resume_none()] if self.is_parked else []
        self.go_live()
        return released
