"""Rows of the projections: tables that a store keeps beside the log, written in the transaction of the append.

Writing a row replaces the row with the same key. `core.project` computes rows from events alone, so dropping and
rebuilding them changes nothing (I-9). Stores do not interpret them.
"""

from __future__ import annotations

import msgspec

from .events import TurnKind
from .ids import Generation, MessageId, Millis, NodeId, RequestId, TurnId

__all__ = ["AgentRow", "KeptRow", "MessageRow", "Row", "RowsCleared", "RowsRemoved", "TurnRow"]


class AgentRow(msgspec.Struct, frozen=True):
    """Facts about the agent besides turns and messages; one row per agent."""

    generation: Generation
    leaf: NodeId | None
    last_turn: TurnId
    last_node: NodeId


class TurnRow(msgspec.Struct, frozen=True):
    """One turn; key: `turn`. Kept forever, unlike its chunks (R-14)."""

    turn: TurnId
    request: RequestId
    kind: TurnKind
    generation: Generation
    node: NodeId
    message_id: MessageId
    status: str
    """accepted, running, cancelling, completed, error, aborted or skipped."""
    accepted: bytes
    """The `turn.accepted` event without its messages, for a restart."""
    accepted_at: Millis
    attempt: int = 0
    chunks: int = 0
    """The number of chunks of the turn; exact once it has ended."""
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
    """One node of the message tree; key: `node`.

    `body` is the complete message (None for an answer that has not ended), `draft` the message so far of an open turn
    that waits for an approval (R-2). Readers show the draft if there is one.
    """

    node: NodeId
    parent: NodeId | None
    id: MessageId
    role: str
    body: bytes | None
    draft: bytes | None
    at: Millis


class KeptRow(msgspec.Struct, frozen=True):
    """Any other record that the agent needs when it is loaded; key: `kind` and `key`. No body deletes the row."""

    kind: str
    key: str
    body: bytes | None


class RowsRemoved(msgspec.Struct, frozen=True):
    """Delete the message rows of these nodes."""

    nodes: list[NodeId]


class RowsCleared(msgspec.Struct, frozen=True):
    """Delete all message rows, because the conversation was cleared. Turn rows stay."""

    generation: Generation


Row = AgentRow | TurnRow | MessageRow | KeptRow | RowsRemoved | RowsCleared
