"""What the projections hold: rows that a store keeps beside the log, written in the append's transaction.

Rows are whole: writing one replaces the row with the same key. They are computed by `core.project` from
events alone, so dropping and rebuilding them changes nothing (I-9). Stores keep them without looking inside.
"""

from __future__ import annotations

import msgspec

from .events import TurnKind
from .ids import Generation, MessageId, Millis, NodeId, RequestId, TurnId

__all__ = ["AgentRow", "KeptRow", "MessageRow", "Row", "RowsCleared", "RowsRemoved", "TurnRow"]


class AgentRow(msgspec.Struct, frozen=True):
    """What the agent must remember besides turns and messages; one per agent."""

    generation: Generation
    leaf: NodeId | None
    last_turn: TurnId
    last_node: NodeId


class TurnRow(msgspec.Struct, frozen=True):
    """One turn; key: `turn`. Kept for ever, unlike its chunks (R-14)."""

    turn: TurnId
    request: RequestId
    kind: TurnKind
    generation: Generation
    node: NodeId
    message_id: MessageId
    status: str
    """accepted, running, cancelling, completed, error, aborted or skipped."""
    accepted: bytes
    """The `turn.accepted` event without its messages: what a restart needs of it."""
    accepted_at: Millis
    attempt: int = 0
    chunks: int = 0
    """How many chunks the turn had; exact once it has ended."""
    reason: str | None = None
    error: str | None = None
    detail: str | None = None
    finish_reason: str | None = None
    usage: bytes | None = None
    ended_at: Millis | None = None
    hook_due: bool = False

    @property
    def is_open(self) -> bool:
        return self.ended_at is None


class MessageRow(msgspec.Struct, frozen=True):
    """One place in the message tree; key: `node`.

    `body` is the message as last ended (absent for an answer that is not there yet), `draft` the message so
    far of a turn that is still open and asks somebody something (R-2). Readers show the draft first.
    """

    node: NodeId
    parent: NodeId | None
    id: MessageId
    role: str
    body: bytes | None
    draft: bytes | None
    at: Millis


class KeptRow(msgspec.Struct, frozen=True):
    """Something else that the agent must find again when it is loaded; key: `kind` and `key`. No body: it is gone."""

    kind: str
    key: str
    body: bytes | None


class RowsRemoved(msgspec.Struct, frozen=True):
    """Delete the message rows of these nodes."""

    nodes: list[NodeId]


class RowsCleared(msgspec.Struct, frozen=True):
    """Delete all message rows: the conversation was cleared. Turn rows stay."""

    generation: Generation


Row = AgentRow | TurnRow | MessageRow | KeptRow | RowsRemoved | RowsCleared
