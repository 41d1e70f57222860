"""Rows of the projections: tables that a store keeps beside the log, written in the transaction of the append.

Writing a row replaces the row with the same key. `core.project` computes rows from events alone, so dropping and
rebuilding them changes nothing (I-9). Stores do not interpret them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final, Literal, TypeVar

import msgspec
from msgspec import Raw

from .events import ABSENT, ShareContent, TitleSource, TurnKind
from .ids import CallId, Generation, MessageId, Millis, NodeId, RequestId, ShareId, TurnId

__all__ = ["AgentRow", "KeptRow", "MessageRow", "Row", "RowsCleared", "RowsRemoved", "TurnRow"]
__all__ += ["SHARE", "ShareRecord"]
__all__ += ["CONVERSATION", "LISTED", "SETTLED", "WAITING", "ApprovalRecord", "ApprovalStatus", "ConversationStatus"]
__all__ += ["ConversationSummary", "Participant", "decode_listed", "encode_listed", "listed_columns", "listed_owner"]
__all__ += ["ALL_MESSAGES", "SEARCHABLE", "TEXT", "TITLE_KEY", "decode_text", "encode_text", "put_listed"]


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


# -- bodies of kept rows that are listed over all agents ------------------------------------------------------------

CONVERSATION: Final = "conversation"
"""The kind of the kept row with an agent's `ConversationSummary`; its key is empty."""

WAITING: Final = "waiting"
"""The kind of the kept rows with calls that wait for an approval, an `ApprovalRecord` each, by call."""

SETTLED: Final = "settled"
"""The kind of the rows with approvals that were given or refused, by call."""

SHARE: Final = "share"
"""The kind of the kept rows with shared links, a `ShareRecord` each, by the digest of the token; stores index it."""

SEARCHABLE: Final = "searchable"
"""The kind of the kept row, without a key, of an agent whose texts are indexed."""

TEXT: Final = "text"
"""The kind of the rows with what a search finds: texts of messages by node, the title at `TITLE_KEY`. No body: none."""

TITLE_KEY: Final = "0"
ALL_MESSAGES: Final = "*"
"""Key of a row of kind `text` without a body: the texts of all messages go. The title stays."""

ESCAPE: Final = "\ufffd"
"""The prefix of an escaped character of an owner; two digits follow."""

LISTED: Final = frozenset({SETTLED, TEXT})
"""Kinds that a store keeps for lists only: an agent is loaded without them, and `kept` does not return them."""

ConversationStatus = Literal["running", "waiting", "failed", "idle"]
ApprovalStatus = Literal["announced", "waiting", "approved", "denied", "expired"]


class Participant(msgspec.Struct, frozen=True, omit_defaults=True):
    """A principal that takes part in a conversation."""

    id: str
    name: str | None = None


class ConversationSummary(msgspec.Struct, frozen=True, omit_defaults=True):
    """One conversation, as lists show it."""

    created_at: Millis
    updated_at: Millis
    status: ConversationStatus = "idle"
    messages: int = 0
    """How many messages it has had; removed ones count. Read positions are counts, too."""
    cleared: int = 0
    """How many messages it had when it was cleared. They cannot be read any more, so they do not count as unread."""
    owner: str | None = None
    former_owner: str | None = None
    """The owner before this one, whose lists have to drop the conversation."""
    participants: list[Participant] = []
    title: str | None = None
    """The title that was given; without one, lists show `question`."""
    titled_by: TitleSource | None = None
    question: str = ""
    """The beginning of the first question."""
    preview: str = ""
    """The beginning of the newest message."""
    archived_at: Millis | None = None
    metadata: Raw = ABSENT
    reads: dict[str, int] = {}
    """How many messages each principal has read."""
    keep_for: int | None = None
    is_failed: bool = False
    """True if the turn that ended last failed."""
    has_asked_title: bool = False
    """True once a model was asked for a title."""


class ApprovalRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call that waits for an approval, or got one or none."""

    call: CallId
    turn: TurnId
    tool: str
    asked_at: Millis
    status: ApprovalStatus = "announced"
    """`announced` until the message has the request; such a call is not listed."""
    node: NodeId = NodeId(0)
    message_id: MessageId = MessageId("")
    input: Raw = ABSENT
    asked_by: Participant | None = None
    """The principal whose question led to the call."""
    summary: str | None = None
    risk: str | None = None
    approvers: list[str] = []
    expires_at: Millis | None = None
    settled_at: Millis | None = None
    settled_by: Participant | None = None
    reason: str | None = None

    @property
    def fingerprint(self) -> str:
        """What tells this request from another one for a call of the same id: other arguments, or asked again."""
        said = msgspec.json.encode((self.asked_at, self.tool, self.input))
        return hashlib.sha256(said).hexdigest()[:32]


class ShareRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A shared link that was not revoked. It may have expired."""

    id: ShareId
    digest: str
    created_at: Millis
    frozen: bool = False
    expires_at: Millis | None = None
    shows: ShareContent = ShareContent()
    label: str | None = None
    created_by: Participant | None = None

    def is_over(self, now: Millis) -> bool:
        """Return whether the link has expired."""
        return self.expires_at is not None and self.expires_at <= now


Summary = TypeVar("Summary", ConversationSummary, ApprovalRecord)


def encode_listed(summary: ConversationSummary | ApprovalRecord) -> bytes:
    """Return the body of a listed row: a line with what stores select and sort by, between tabs, and JSON."""
    if isinstance(summary, ConversationSummary):
        columns = f"{summary.status}\t{int(summary.archived_at is not None)}\t{summary.updated_at}"
        line = f"{columns}\t{listed_owner(summary.owner)}"
    else:
        at = summary.settled_at if summary.settled_at is not None else summary.asked_at
        line = f"{'waiting' if summary.status == 'waiting' else ''}\t{at}"
    return b"%b\n%b" % (line.encode(), msgspec.json.encode(summary))


def decode_listed(body: bytes | None, type: type[Summary]) -> Summary:
    """Return the value in a body of `encode_listed`.

    Raises:
        msgspec.DecodeError: the body is damaged.
    """
    return msgspec.json.decode((body or b"").partition(b"\n")[2], type=type)


def listed_columns(body: bytes) -> list[str]:
    """Return the first line of a body of `encode_listed`."""
    return body.partition(b"\n")[0].decode().split("\t")


def listed_owner(owner: str | None) -> str:
    """Return an owner as a column, empty for none. Control characters, which end a column, are escaped.

    Different owners have different columns: otherwise a page of one would be filled with conversations of the other.
    """
    return "".join(_escaped(letter) if letter < " " or letter == ESCAPE else letter for letter in owner or "")


def _escaped(letter: str) -> str:
    return f"{ESCAPE}{ord(letter) % 256:02x}"


def encode_text(words: Sequence[str], text: str) -> bytes:
    """Return the body of a row of kind `text`: a line with its words, and the text."""
    return b"%b\n%b" % (" ".join(words).encode(), text.encode(errors="replace"))


def decode_text(body: bytes) -> tuple[list[str], str]:
    """Return the words and the text of a body of `encode_text`."""
    line, _, text = body.partition(b"\n")
    return line.decode().split(" "), text.decode()


def put_listed(rows: dict[tuple[str, str], KeptRow], row: KeptRow) -> None:
    """Write a row of a kind of `LISTED` to those of its agent, as every store does."""
    if row.kind == TEXT and row.key == ALL_MESSAGES:
        for place in [place for place in rows if place[0] == TEXT and place[1] != TITLE_KEY]:
            del rows[place]
    elif row.body is None:
        rows.pop((row.kind, row.key), None)
    else:
        rows[row.kind, row.key] = row


class RowsRemoved(msgspec.Struct, frozen=True):
    """Delete the message rows of these nodes."""

    nodes: list[NodeId]


class RowsCleared(msgspec.Struct, frozen=True):
    """Delete all message rows, because the conversation was cleared. Turn rows stay."""

    generation: Generation


Row = AgentRow | TurnRow | MessageRow | KeptRow | RowsRemoved | RowsCleared
