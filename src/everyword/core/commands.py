"""The commands that an agent takes.

A command carries everything that `decide` needs: new ids and parsed input. The time is an argument of `decide`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from ..events import (
    AttemptCause,
    FiberOutcome,
    Identity,
    JobKind,
    JobOutcome,
    Outcome,
    RunStatus,
    ShareContent,
    TitleSource,
    TurnKind,
    absent,
)
from ..ids import (
    Attempt,
    CallId,
    FiberId,
    Generation,
    JobId,
    MessageId,
    Millis,
    NodeId,
    RequestId,
    RunId,
    ShareId,
    TurnId,
)
from ..messages.tool_calls import CallAnswer
from ..rows import ApprovalRecord

__all__ = [
    "AddJob",
    "AnswerToolCall",
    "BeginAttempt",
    "CancelJobs",
    "CancelTurns",
    "ChangeConversation",
    "ClearConversation",
    "Command",
    "ContinueTurn",
    "CreateAgent",
    "CreateShare",
    "DeclareJobs",
    "DelayAttempt",
    "DestroyAgent",
    "EmitChunks",
    "Emitted",
    "EndFiber",
    "EndJob",
    "EndRun",
    "FiberCommand",
    "FinishTurn",
    "InterruptAttempt",
    "JobCommand",
    "MarkHookDone",
    "MarkRead",
    "MarkRunTold",
    "MoveLeaf",
    "OpenStream",
    "PauseFiber",
    "PlaceMessages",
    "Policy",
    "PolicyName",
    "PutMessages",
    "RecordCallStart",
    "RecoverFiber",
    "RemoveMessages",
    "ReplaceState",
    "RequestApproval",
    "RevokeShare",
    "StartFiber",
    "StartJob",
    "StartRun",
    "StashFiber",
    "Submit",
]

PolicyName = Literal["queue", "latest", "merge", "drop", "debounce", "steer"]


class Policy(msgspec.Struct, frozen=True):
    """What happens to a question while other turns are open (R-7). `debounce` is in milliseconds."""

    name: PolicyName = "queue"
    debounce: int = 750


class Submit(msgspec.Struct, frozen=True):
    """Ask for a turn.

    `messages` is the caller's message list. Of an untrusted caller's list (a client's), only the unknown user messages
    at its end are taken (R-6); of a trusted caller's (the agent's own code), every unknown message. None means that the
    messages are computed later (R-10). `known` is True when the store has this request id, and the state has forgotten
    it.
    """

    request: RequestId
    message_id: MessageId
    messages: Sequence[dict[str, Any]] | None
    trigger: str = "submit-message"
    trusted: bool = False
    policy: Policy = Policy()
    body: Raw = msgspec.field(default_factory=absent)
    client_tools: Raw = msgspec.field(default_factory=absent)
    origin: str | None = None
    owner: str | None = None
    known: bool = False
    principal: Identity | None = None
    """The principal that asks: the author of the user messages (R-35, R-37)."""
    trace: str | None = None
    """The trace of the caller, as `traceparent`."""


class ContinueTurn(msgspec.Struct, frozen=True):
    """Ask for a turn that extends the last assistant message."""

    request: RequestId
    body: Raw = msgspec.field(default_factory=absent)
    client_tools: Raw = msgspec.field(default_factory=absent)
    origin: str | None = None
    owner: str | None = None
    known: bool = False
    principal: Identity | None = None


class OpenStream(msgspec.Struct, frozen=True):
    """Open a bare stream: a turn without a node in the tree, which the caller writes.

    The stream, the question that it answers and the job that writes it are committed together.
    """

    request: RequestId
    message_id: MessageId
    kind: TurnKind = TurnKind.RSM
    question: dict[str, Any] | None = None
    job: AddJob | None = None
    principal: Identity | None = None


class PlaceMessages(msgspec.Struct, frozen=True):
    """Give a deferred turn the messages that it answers."""

    turn: TurnId
    messages: Sequence[dict[str, Any]]


class BeginAttempt(msgspec.Struct, frozen=True):
    """Begin the next attempt of a turn. It is committed before the model is called."""

    turn: TurnId
    cause: AttemptCause = "first"
    fresh: bool = False
    heard_at: Millis | None = None
    """When a sub-agent that the turn waits for last wrote something. That is progress of the turn, too."""
    calls: RequestId | None = None
    """A request id for the turn that runs approved calls before a question, if there are any (R-3)."""


class DelayAttempt(msgspec.Struct, frozen=True):
    """Record that an attempt failed and that the next one begins later. Until then the turn is being recovered."""

    turn: TurnId
    attempt: Attempt
    cause: AttemptCause


class InterruptAttempt(msgspec.Struct, frozen=True):
    """Record that a graceful shutdown interrupts this attempt."""

    turn: TurnId
    attempt: Attempt


class Emitted(msgspec.Struct, frozen=True, gc=False):
    """One chunk as a runner passes it on: its JSON bytes, normalised (R-24)."""

    body: bytes
    transient: bool = False


class EmitChunks(msgspec.Struct, frozen=True, gc=False):
    """Add chunks to a turn. While the command waits in the mailbox, chunks of the same attempt may be added to it."""

    turn: TurnId
    attempt: Attempt
    chunks: list[Emitted]


class RecordCallStart(msgspec.Struct, frozen=True):
    """Record that a server tool is about to run for a call of the stream. The tool runs after the commit.

    A call that an earlier attempt started may have had its effect. It starts again only if `is_idempotent`.
    """

    turn: TurnId
    attempt: Attempt
    call: CallId
    tool: str
    is_idempotent: bool = False


class RequestApproval(msgspec.Struct, frozen=True):
    """Announce that a person will be asked to approve a call of the stream, with what the person is told."""

    turn: TurnId
    attempt: Attempt
    call: CallId
    tool: str
    summary: str | None = None
    risk: str | None = None
    approvers: Sequence[str] = ()
    expires_at: Millis | None = None


class FinishTurn(msgspec.Struct, frozen=True):
    """End a turn. Its message is computed from its chunks; the runner does not supply it (R-1)."""

    turn: TurnId
    attempt: Attempt
    outcome: Outcome
    reason: str | None = None
    error: str | None = None
    detail: str | None = None
    finish_reason: str | None = None
    usage: Raw = msgspec.field(default_factory=absent)
    message: dict[str, Any] | None = None
    """The message that a managed stream leaves in the conversation (R-20). Its chunks are not folded here."""
    chunks: Sequence[Emitted] = ()
    """The last chunks of a managed stream."""
    forget: AttemptCause | None = None
    """Why the last attempt failed, if its answer is to be discarded (R-17). A continuation never discards it."""


class CancelTurns(msgspec.Struct, frozen=True):
    """Cancel one turn by its request id, or every open turn."""

    request: RequestId | None = None
    by: str | None = None


class ClearConversation(msgspec.Struct, frozen=True):
    """Clear the conversation. With `cancels`, cancel the jobs of that method as well."""

    origin: str | None = None
    cancels: str | None = None


class AnswerToolCall(msgspec.Struct, frozen=True):
    """Answer a tool call of a client tool, or an approval; with `auto_continue`, continue the message (R-1, R-3)."""

    call: CallId
    answer: CallAnswer
    continuation: RequestId
    auto_continue: bool = True
    by: str | None = None
    origin: str | None = None
    owner: str | None = None
    client_tools: Raw = msgspec.field(default_factory=absent)
    principal: Identity | None = None
    asked: ApprovalRecord | UnsetType | None = UNSET
    """For an approval: the request that the client was allowed to answer. If it is another one now, nothing happens."""


class PutMessages(msgspec.Struct, frozen=True):
    """Store messages without a turn. The agent's rules say what an untrusted list may add and change (R-8)."""

    messages: Sequence[dict[str, Any]]
    trusted: bool = True
    cause: str = "saved"
    origin: str | None = None
    principal: Identity | None = None
    is_copy: bool = False
    """The messages were copied from another conversation: they keep the server's fields that they have, and the copy
    belongs to the principal, if there is one."""
    requests: Sequence[ApprovalRecord] = ()
    """The requests for approvals of copied calls: what the person is told, and who may approve, is copied, too."""


class RemoveMessages(msgspec.Struct, frozen=True):
    nodes: Sequence[NodeId]
    cause: str = "removed"


class MoveLeaf(msgspec.Struct, frozen=True):
    """Show another branch: the newest leaf below `node` becomes the active leaf."""

    node: NodeId
    origin: str | None = None


class ChangeConversation(msgspec.Struct, frozen=True):
    """Set what lists of conversations show. Fields that are left out stay as they are."""

    title: str | UnsetType | None = UNSET
    titled_by: TitleSource = "person"
    owner: str | UnsetType | None = UNSET
    archived: bool | UnsetType = UNSET
    metadata: Raw = msgspec.field(default_factory=absent)
    keep_for: int | UnsetType | None = UNSET
    principal: Identity | None = None
    generation: Generation | None = None
    """Of a model's title: which generation of messages it is about; None if that is not known."""


class MarkRead(msgspec.Struct, frozen=True):
    """Record how many messages a principal has read; all of them, if `messages` is None."""

    principal: str
    messages: int | None = None


class CreateShare(msgspec.Struct, frozen=True):
    """Let clients with a token read the conversation; `digest` is the SHA-256 of the token."""

    share: ShareId
    digest: str
    frozen: bool = False
    expires_at: Millis | None = None
    shows: ShareContent = ShareContent()
    label: str | None = None
    principal: Identity | None = None


class RevokeShare(msgspec.Struct, frozen=True):
    """End a shared link; nothing if there is none with this id."""

    share: ShareId
    principal: Identity | None = None


class MarkHookDone(msgspec.Struct, frozen=True):
    turn: TurnId


class ReplaceState(msgspec.Struct, frozen=True):
    """Replace the agent's own state. The agent's code has validated it (R-21)."""

    state: Raw
    origin: str | None = None


class CreateAgent(msgspec.Struct, frozen=True):
    """Create a sub-agent. Only for an agent whose log is empty."""


class AddJob(msgspec.Struct, frozen=True):
    """Queue or schedule a job, unless it exists (R-33). `rule` and `zone` say when it is repeated."""

    job: JobId
    kind: JobKind
    callback: str
    due: Millis
    payload: Raw = msgspec.field(default_factory=absent)
    rule: str | None = None
    zone: str | None = None
    max_attempts: int = 5
    key: str | None = None
    within: JobId | None = None
    """The job whose run adds this one. It is about to end, so it does not count as an existing job."""
    principal: Identity | None = None


class DeclareJobs(msgspec.Struct, frozen=True):
    """Make the declared jobs exactly those that the agent's class declares (R-33)."""

    jobs: Sequence[AddJob]


class StartJob(msgspec.Struct, frozen=True):
    job: JobId
    missed: int = 0


class EndJob(msgspec.Struct, frozen=True):
    """End a run of a job. With `due`, the job runs again at that time."""

    job: JobId
    run: int
    outcome: JobOutcome
    due: Millis | None = None
    detail: str | None = None


class CancelJobs(msgspec.Struct, frozen=True):
    jobs: Sequence[JobId]


class DestroyAgent(msgspec.Struct, frozen=True):
    """Destroy the agent. The process that commits this deletes its data, or the next process does."""

    only_outdated: bool = False
    """Only if the time is over for which the conversation is kept: it may be used again meanwhile."""


class StartFiber(msgspec.Struct, frozen=True):
    """Record the start of a fiber. An id that was used before starts nothing."""

    fiber: FiberId
    name: str
    principal: Identity | None = None


class RecoverFiber(msgspec.Struct, frozen=True):
    """Recover a fiber whose process crashed. It is committed before the agent's code is called."""

    fiber: FiberId


class PauseFiber(msgspec.Struct, frozen=True):
    """Record that a graceful shutdown interrupts a fiber."""

    fiber: FiberId


class StashFiber(msgspec.Struct, frozen=True):
    fiber: FiberId
    snapshot: Raw


class EndFiber(msgspec.Struct, frozen=True):
    fiber: FiberId
    outcome: FiberOutcome
    detail: str | None = None


class StartRun(msgspec.Struct, frozen=True):
    """Record the start of a run. The process that commits this starts the sub-agent.

    A known run is not started twice. With `refusal`, the run ends at once with this error.
    """

    run: RunId
    kind: str
    call: CallId | None = None
    within: TurnId | None = None
    input: Raw = msgspec.field(default_factory=absent)
    preview: str | None = None
    order: int | None = None
    display: Raw = msgspec.field(default_factory=absent)
    is_detached: bool = False
    expects: str | None = None
    refusal: str | None = None
    principal: Identity | None = None
    trace: str | None = None


class EndRun(msgspec.Struct, frozen=True):
    """Record how a run ended. The first end that is not an interruption is final."""

    run: RunId
    status: RunStatus
    summary: str | None = None
    output: Raw = msgspec.field(default_factory=absent)
    error: str | None = None
    reason: str | None = None
    is_child_running: bool | None = None
    usage: Raw = msgspec.field(default_factory=absent)


class MarkRunTold(msgspec.Struct, frozen=True):
    run: RunId


JobCommand = AddJob | DeclareJobs | StartJob | EndJob | CancelJobs
FiberCommand = StartFiber | RecoverFiber | PauseFiber | StashFiber | EndFiber

Command = (
    Submit
    | ContinueTurn
    | OpenStream
    | PlaceMessages
    | BeginAttempt
    | DelayAttempt
    | InterruptAttempt
    | EmitChunks
    | RecordCallStart
    | RequestApproval
    | ChangeConversation
    | MarkRead
    | CreateShare
    | RevokeShare
    | FinishTurn
    | CancelTurns
    | ClearConversation
    | AnswerToolCall
    | PutMessages
    | RemoveMessages
    | MoveLeaf
    | MarkHookDone
    | ReplaceState
    | CreateAgent
    | JobCommand
    | StartRun
    | EndRun
    | MarkRunTold
    | FiberCommand
    | DestroyAgent
)
