"""One turn as `decide` knows it, and how the turn's own events change it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, assert_never

import msgspec

from ..errors import FoldError
from ..events import (
    ABSENT,
    AttemptDelayed,
    AttemptInterrupted,
    AttemptStarted,
    CallAnswered,
    CallStarted,
    Chunk,
    Outcome,
    TurnAccepted,
    TurnEnded,
    TurnKind,
)
from ..ids import CallId, Millis, NodeId, RequestId, TurnId
from ..messages.fold import MessageFold
from ..messages.message import UIMessage
from ..messages.tool_calls import ApprovalAnswer, CallAnswer, ErrorAnswer, OutputAnswer
from .attempts import PROGRESS_CHUNKS, AttemptCounter
from .transitions import TurnStatus

__all__ = ["RECENT_TRANSIENTS", "TurnProgress", "TurnState", "answer_of"]

RECENT_TRANSIENTS: Final = 64
"""How many transient parts of an open turn are remembered, for clients that join it."""

_COUNTED: Final = frozenset({"start-step", "finish-step", "tool-output-available", "tool-output-error"})
"""Chunks that may be progress of an attempt."""

_decode = msgspec.json.Decoder[Any]().decode

TurnProgress = AttemptStarted | AttemptDelayed | AttemptInterrupted | CallStarted | CallAnswered
"""The events that, besides chunks, change an open turn itself. A turn is loaded from its row, its chunks and these."""


def answer_of(event: CallAnswered) -> CallAnswer:
    """Return the answer that an event recorded."""
    value = _decode(event.value)
    match event.kind:
        case "result":
            return OutputAnswer(value)
        case "error":
            return ErrorAnswer(str(value))
        case "approval":
            return ApprovalAnswer(bool(value.get("approved")), value.get("reason"))
        case _:
            assert_never(event.kind)


@dataclass(slots=True)
class TurnState:
    """The state of one turn. `accepted` is the event that created it, without the bodies of its messages."""

    accepted: TurnAccepted
    accepted_at: Millis
    status: TurnStatus = TurnStatus.ACCEPTED
    attempt: int = 0
    chunks: int = 0
    """How many chunks the turn has, which is the index of the next one."""
    fold: MessageFold | None = None
    transients: list[bytes] = field(default_factory=list)
    """The newest transient parts: replayed while the turn is open, never in its message (R-12)."""
    started_calls: dict[CallId, int] = field(default_factory=dict)
    """The calls of server tools that were started, with the attempt that started each of them last."""
    held_calls: set[CallId] = field(default_factory=set)
    """Calls that a client answered with `autoContinue: false` while the turn ran: the turn must not go on (R-3)."""
    progressed_at: Millis = Millis(0)
    """When the last chunk was written; before the first one, when the turn was accepted."""
    attempt_counter: AttemptCounter = field(default_factory=AttemptCounter)
    """The attempts that count against the limits. Reset when the turn ends."""
    recovers_with: int | None = None
    """The attempt that follows one that failed, until its first chunk (R-17)."""
    outcome: Outcome | None = None
    reason: str | None = None
    error: str | None = None
    detail: str | None = None
    finish_reason: str | None = None
    usage: bytes | None = None
    ended_at: Millis | None = None
    hook_due: bool = False

    def apply(self, event: TurnProgress, at: Millis, stored: bytes | None) -> None:
        """Apply an event of the open turn, apart from its status.

        `stored` is the stored message at the turn's node: a turn that extends it starts from there.
        """
        match event:
            case AttemptStarted():
                self.attempt_counter.begin(at, self.progressed_at, is_fresh=event.fresh)
                self.attempt, self.recovers_with = event.attempt, event.attempt if event.attempt > 1 else None
                if self.fold is None or event.fresh:
                    self.open_fold(stored)
            case AttemptDelayed():
                self.recovers_with = event.attempt
            case AttemptInterrupted():
                self.attempt_counter.interrupt(at)
            case CallStarted():
                self.started_calls[event.call] = event.attempt
            case CallAnswered():
                self._apply_answer(event)
            case _:
                assert_never(event)

    def apply_chunk(self, event: Chunk, at: Millis) -> str | None:
        """Apply one chunk; return its type if it changed the message."""
        self.chunks, self.progressed_at = event.index + 1, at
        if self.recovers_with == event.attempt:
            self.recovers_with = None
        if self.fold is None:
            return None
        if event.transient:
            self.transients.append(bytes(event.body))
            del self.transients[:-RECENT_TRANSIENTS]
            return None
        chunk = _decode(event.body)
        try:
            self.fold.apply(chunk)
        except FoldError:
            # Runners normalise chunks, so this one has another writer. The log keeps it, the message does not.
            return None
        kind: str = chunk["type"]
        if kind in _COUNTED or self.chunks - self.attempt_counter.chunks >= PROGRESS_CHUNKS:
            is_own_call = self.started_calls.get(chunk.get("toolCallId", "")) == event.attempt
            self.attempt_counter.count_chunk(chunk, self.chunks, is_own_call=is_own_call)
        return kind

    def _apply_answer(self, event: CallAnswered) -> None:
        if self.fold is None:
            return
        if not event.auto_continue:
            self.held_calls.add(event.call)
        # AI SDK 6 has no chunk for an approval, and a draft is read before the answer's chunk is folded.
        self.fold.answer(event.call, answer_of(event))

    def open_fold(self, stored: bytes | None) -> None:
        """Start the turn's message: empty, or the stored message if the turn extends it. A bare stream has none."""
        if not self.accepted.kind.is_bare:
            base = UIMessage.decode(stored) if stored is not None and self.extends else None
            self.fold = MessageFold(self.accepted.message_id, base=base)

    def end(self, event: TurnEnded, at: Millis) -> None:
        """Apply the turn's end: its outcome stays, what only an open turn needs is dropped."""
        self.outcome, self.reason, self.error, self.detail = event.outcome, event.reason, event.error, event.detail
        self.finish_reason, self.usage = event.finish_reason, bytes(event.usage) if event.usage is not ABSENT else None
        self.chunks, self.ended_at, self.hook_due, self.fold = event.chunks, at, event.hook_due, None
        self.progressed_at, self.recovers_with, self.attempt_counter = Millis(0), None, AttemptCounter()
        self.transients.clear()
        self.started_calls.clear()
        self.held_calls.clear()

    @property
    def id(self) -> TurnId:
        return self.accepted.turn

    @property
    def request(self) -> RequestId:
        return self.accepted.request

    @property
    def node(self) -> NodeId:
        return self.accepted.node

    @property
    def is_continuation(self) -> bool:
        return self.accepted.kind is TurnKind.CONTINUATION

    @property
    def extends(self) -> bool:
        return self.accepted.kind.extends
