"""What may be asked of an agent. Commands carry their facts: fresh ids, parsed input; time is given to `decide`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import Raw

from ..events import AttemptCause, FiberOutcome, Identity, JobKind, JobOutcome, Outcome, RunStatus, TurnKind, absent
from ..ids import Attempt, CallId, FiberId, JobId, MessageId, Millis, NodeId, RequestId, RunId, TurnId
from ..messages.tool_calls import CallAnswer

__all__ = [
    "AddJob",
    "AnswerToolCall",
    "BeginAttempt",
    "CancelJobs",
    "CancelTurns",
    "ClearConversation",
    "Command",
    "ContinueTurn",
    "CreateAgent",
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
    "StartFiber",
    "StartJob",
    "StartRun",
    "StashFiber",
    "Submit",
]

PolicyName = Literal["queue", "latest", "merge", "drop", "debounce", "steer"]


class Policy(msgspec.Struct, frozen=True):
    """What becomes of a submit that overlaps open turns (R-7). `debounce` is in milliseconds."""

    name: PolicyName = "queue"
    debounce: int = 750


class Submit(msgspec.Struct, frozen=True):
    """Ask for a turn.

    `messages` is the asker's list. Of an untrusted one (a client's) only the trailing unknown user messages are
    taken (R-6); of a trusted one (our own code) every unknown message. None means that the messages are evaluated
    later (R-10). `known` says that the store has this request id from longer ago than the state remembers.
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
    """For whom it is asked, and so the author of the user messages that it brings (R-35, R-37)."""
    trace: str | None = None
    """The trace that asks, as `traceparent`."""


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
    """Open a bare stream; it takes no place in the tree and the caller drives it.

    The question that it answers and the job that fills it are committed with it, or none of them is.
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
    """Start the next attempt of a turn; committed before the model is called."""

    turn: TurnId
    cause: AttemptCause = "first"
    fresh: bool = False
    heard_at: Millis | None = None
    """When a sub-agent that the turn waits for last said something: that is progress of the turn, too."""
    calls: RequestId | None = None
    """A request id for the turn of approved calls that have to run before a question, if there are any (R-3)."""


class DelayAttempt(msgspec.Struct, frozen=True):
    """Say that an attempt of a turn is over, and that the next comes after a while: until then it is recovered."""

    turn: TurnId
    attempt: Attempt
    cause: AttemptCause


class InterruptAttempt(msgspec.Struct, frozen=True):
    """Say that the process stops in good order in the middle of this attempt."""

    turn: TurnId
    attempt: Attempt


class Emitted(msgspec.Struct, frozen=True, gc=False):
    """One chunk as a runner hands it over: its JSON bytes, normalised (R-24)."""

    body: bytes
    transient: bool = False


class EmitChunks(msgspec.Struct, frozen=True, gc=False):
    """Add chunks to a turn's stream. While it waits to be decided, more chunks of the same attempt may join it."""

    turn: TurnId
    attempt: Attempt
    chunks: list[Emitted]


class RecordCallStart(msgspec.Struct, frozen=True):
    """Ask to run a tool of ours for a call that the stream announced; the effect comes after the commit.

    A call that an earlier attempt started may have had its effect: it starts again only if `is_idempotent`.
    """

    turn: TurnId
    attempt: Attempt
    call: CallId
    tool: str
    is_idempotent: bool = False


class FinishTurn(msgspec.Struct, frozen=True):
    """End a turn. The message is what the chunks fold to; the runner does not supply it (R-1)."""

    turn: TurnId
    attempt: Attempt
    outcome: Outcome
    reason: str | None = None
    error: str | None = None
    detail: str | None = None
    finish_reason: str | None = None
    usage: Raw = msgspec.field(default_factory=absent)
    message: dict[str, Any] | None = None
    """What a managed stream, whose chunks fold to nothing here, leaves in the conversation (R-20)."""
    chunks: Sequence[Emitted] = ()
    """The last chunks of such a stream."""
    forget: AttemptCause | None = None
    """Why the attempt before did not end, if what was said is not to be kept (R-17). A continuation keeps it."""


class CancelTurns(msgspec.Struct, frozen=True):
    """Stop one turn by its request id, or every open turn."""

    request: RequestId | None = None
    by: str | None = None


class ClearConversation(msgspec.Struct, frozen=True):
    """Start the conversation anew; with `cancels`, without the jobs of that method either."""

    origin: str | None = None
    cancels: str | None = None


class AnswerToolCall(msgspec.Struct, frozen=True):
    """Settle a tool call from outside the model, and go on with the turn if `auto_continue` says so (R-1, R-3)."""

    call: CallId
    answer: CallAnswer
    continuation: RequestId
    auto_continue: bool = True
    by: str | None = None
    origin: str | None = None
    owner: str | None = None
    client_tools: Raw = msgspec.field(default_factory=absent)
    principal: Identity | None = None


class PutMessages(msgspec.Struct, frozen=True):
    """Store messages without a turn. What an untrusted list may add and change is in the rules of its agent (R-8)."""

    messages: Sequence[dict[str, Any]]
    trusted: bool = True
    cause: str = "saved"
    origin: str | None = None
    principal: Identity | None = None
    is_copy: bool = False
    """The messages are another conversation's: they keep the server fields that they have, and are given none."""


class RemoveMessages(msgspec.Struct, frozen=True):
    nodes: Sequence[NodeId]
    cause: str = "removed"


class MoveLeaf(msgspec.Struct, frozen=True):
    """Show another branch: the newest descendant of `node` becomes the leaf."""

    node: NodeId
    origin: str | None = None


class MarkHookDone(msgspec.Struct, frozen=True):
    turn: TurnId


class ReplaceState(msgspec.Struct, frozen=True):
    """Replace the agent's state; validated before, by the agent's own code (R-21)."""

    state: Raw
    origin: str | None = None


class CreateAgent(msgspec.Struct, frozen=True):
    """Let a sub-agent exist; only for one whose log is empty."""


class AddJob(msgspec.Struct, frozen=True):
    """Put work aside, unless it is there already (R-33). `rule` and `zone` say when it comes again."""

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
    """The job whose run asks: it is on its way out, and is no reason not to add another."""
    principal: Identity | None = None


class DeclareJobs(msgspec.Struct, frozen=True):
    """Let the repeating jobs that the agent's class declares be these, and no others (R-33)."""

    jobs: Sequence[AddJob]


class StartJob(msgspec.Struct, frozen=True):
    job: JobId
    missed: int = 0


class EndJob(msgspec.Struct, frozen=True):
    """End a run; with a `due` the job comes again then."""

    job: JobId
    run: int
    outcome: JobOutcome
    due: Millis | None = None
    detail: str | None = None


class CancelJobs(msgspec.Struct, frozen=True):
    jobs: Sequence[JobId]


class DestroyAgent(msgspec.Struct, frozen=True):
    """Let the agent be no more; whoever commits this deletes it, or the next process does."""


class StartFiber(msgspec.Struct, frozen=True):
    """Record that background work begins; an id that was used before starts nothing."""

    fiber: FiberId
    name: str
    principal: Identity | None = None


class RecoverFiber(msgspec.Struct, frozen=True):
    """Hand back work whose process died; recorded before anybody's code hears of it."""

    fiber: FiberId


class PauseFiber(msgspec.Struct, frozen=True):
    """Record that a fiber is cut off in good order."""

    fiber: FiberId


class StashFiber(msgspec.Struct, frozen=True):
    fiber: FiberId
    snapshot: Raw


class EndFiber(msgspec.Struct, frozen=True):
    fiber: FiberId
    outcome: FiberOutcome
    detail: str | None = None


class StartRun(msgspec.Struct, frozen=True):
    """Record that a sub-agent works as a tool; whoever commits this sets it to work.

    A run that is known is not started twice. With a `refusal` it ends with that text before it has begun.
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
    """Record how a run ended; the first end for good counts."""

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
