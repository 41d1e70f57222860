"""The events of an agent's log. Nothing else is ever written to it.

An event is a committed fact, named in the past tense. Fields are only ever added, with a default, because every
event ever written must still decode (I-13). Opaque JSON (chunks, messages, bodies) is kept as `Raw` bytes: it is
stored, spliced into frames, and parsed only by the code that needs its contents.
"""

from __future__ import annotations

import enum
from typing import Final, Literal, get_args

import msgspec
from msgspec import UNSET, Raw, UnsetType

from .ids import (
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

__all__ = ["ABSENT", "LOCAL", "AnswerKind", "AttemptCause", "AttemptDelayed", "AttemptInterrupted", "AttemptStarted"]
__all__ += ["CallAnswered", "CallStarted"]
__all__ += ["ApprovalRequested", "ConversationChanged", "ConversationRead", "TitleSource"]
__all__ += ["ShareContent", "ShareCreated", "ShareRevoked", "ToolDetail"]
__all__ += ["AgentCreated", "CancelRequested", "JobAdded", "JobEnded", "JobKind", "JobOutcome", "JobStarted"]
__all__ += ["AgentDestroyed", "FiberEnded", "FiberOutcome", "FiberPaused", "FiberStarted", "FiberStashed"]
__all__ += ["ChatCleared", "Chunk", "Event", "HookDone", "LeafMoved", "MessageEnded", "MessageReplaced", "MessagesPut"]
__all__ += ["MessagesRemoved", "Outcome", "Placed", "StateSet", "TurnAccepted", "TurnEnded", "TurnKind"]
__all__ += ["RunEnded", "RunStarted", "RunStatus", "RunTold"]
__all__ += ["Identity", "TurnRetargeted", "absent", "decode_event", "encode_event", "kind_of", "to_raw", "turn_of"]


ABSENT: Final = Raw(b"null")
"""Marks missing opaque JSON. It cannot be None, because msgspec decodes `Raw | None` only as null."""


class TurnKind(enum.Enum):
    """Why a turn exists."""

    CHAT = "chat"
    """Answers the user's messages with a new assistant message."""
    CONTINUATION = "continuation"
    """Extends an existing assistant message, after a tool result, an approval or a request to continue."""
    CALLS = "calls"
    """Runs calls of an older answer that were approved too late for a continuation; no client streams it (R-3)."""
    STREAM = "stream"
    """A stream of a ResumableStream: opaque chunks, no message; its caller drives it."""
    RSM = "rsm"
    """A stream of a ResumableStreamManager; retention does not remove its chunks."""

    @property
    def is_chat(self) -> bool:
        """True if the turn answers in the conversation and clients watch it."""
        return self is TurnKind.CHAT or self is TurnKind.CONTINUATION

    @property
    def extends(self) -> bool:
        """True if the turn extends an existing message."""
        return self is TurnKind.CONTINUATION or self is TurnKind.CALLS

    @property
    def is_bare(self) -> bool:
        """True if the turn is not part of the conversation and no runner runs it."""
        return self is TurnKind.STREAM or self is TurnKind.RSM


class Outcome(enum.Enum):
    """How a turn ended."""

    COMPLETED = "completed"
    ERROR = "error"
    ABORTED = "aborted"
    SKIPPED = "skipped"


AttemptCause = Literal["first", "crash", "retry", "stall", "shutdown"]
AnswerKind = Literal["result", "error", "approval"]


class _Event(msgspec.Struct, frozen=True, tag_field="t", omit_defaults=True):
    pass


class Placed(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message and its node in the message tree (B3)."""

    node: NodeId
    parent: NodeId | None
    id: MessageId
    role: str
    message: Raw


class Identity(msgspec.Struct, frozen=True, omit_defaults=True):
    """The stored form of a `Principal`, without its expiry: saved with the turn, job, fiber or run (R-35)."""

    id: str
    name: str | None = None
    claims: Raw = ABSENT
    read_only: bool = False


LOCAL: Final = Identity("local")
"""The principal of every client of a server without authentication. It is stored, but never a message's author."""


class TurnAccepted(_Event, frozen=True, tag="turn.accepted"):
    """A turn exists, with the messages that requested it and a reserved place for its answer.

    `message_ids` are the ids of the user messages that the turn answers (`messageIds` on its terminal frame).
    For a continuation, and for late calls, `node` and `message_id` are those of the message it extends.
    """

    turn: TurnId
    request: RequestId
    kind: TurnKind
    generation: Generation
    node: NodeId
    parent: NodeId | None
    message_id: MessageId
    messages: list[Placed] = []
    message_ids: list[MessageId] = []
    trigger: str = "submit-message"
    origin: str | None = None
    """Serial of the socket that sent the request; that socket is not sent the transcript (R-15)."""
    owner: str | None = None
    """The `_pk` of the client that owns a continuation (R-15)."""
    body: Raw = ABSENT
    client_tools: Raw = ABSENT
    not_before: Millis | None = None
    deferred: bool = False
    """The messages are evaluated when the turn reaches the head of the queue (R-10)."""
    trusted: bool = False
    """Server code requested the turn: no client's question supersedes it."""
    during: TurnId | None = None
    """For a continuation: the turn that was still writing the target message (R-3)."""
    dropped: bool = False
    """Accepted only to be skipped in the same batch (policy `drop`): it has no place in the tree."""
    principal: Identity | None = None
    """Who asked. A continuation has the principal of the turn whose answer it continues (R-35)."""
    trace: str | None = None
    """The trace of the request, as `traceparent`: every attempt belongs to it."""


class TurnRetargeted(_Event, frozen=True, tag="turn.retargeted"):
    """A later answer to a call changed the target, owner or start time of a waiting continuation (R-3)."""

    turn: TurnId
    node: NodeId
    message_id: MessageId
    not_before: Millis
    owner: str | None = None
    origin: str | None = None


class AttemptStarted(_Event, frozen=True, tag="attempt.started"):
    """An attempt at the turn began. Committed before the model is called."""

    turn: TurnId
    attempt: Attempt
    cause: AttemptCause = "first"
    fresh: bool = False
    """The chunks of earlier attempts are discarded; the answer starts again."""


class AttemptDelayed(_Event, frozen=True, tag="attempt.delayed"):
    """An attempt is over and the turn is not: the next one, `attempt`, starts after a pause."""

    turn: TurnId
    attempt: Attempt
    cause: AttemptCause


class AttemptInterrupted(_Event, frozen=True, tag="attempt.interrupted"):
    """An orderly shutdown interrupted the attempt, which does not count against the turn's limits."""

    turn: TurnId
    attempt: Attempt


class Chunk(_Event, frozen=True, gc=False, tag="chunk"):
    """One AI SDK chunk of the answer. `index` counts per request, over all attempts (R-13)."""

    turn: TurnId
    attempt: Attempt
    index: int
    body: Raw
    transient: bool = False


class CallAnswered(_Event, frozen=True, tag="call.answered"):
    """A tool call of the message at `node` was settled from outside the model. The first write wins."""

    node: NodeId
    call: CallId
    kind: AnswerKind
    value: Raw
    turn: TurnId | None = None
    """The open turn that is writing the message, if any (R-1)."""
    by: str | None = None
    origin: str | None = None
    auto_continue: bool = True
    """False when the client continues by itself: the turn that is writing the message must not (R-3)."""
    principal: Identity | None = None
    """Who answered; passed to the tool that runs because of the answer (R-35)."""
    forgets: CallId | None = None
    """An older call whose approver is forgotten, because only the newest ones are kept."""
    input: Raw = ABSENT
    """For an approval: the arguments that the person was shown."""
    tool: str = ""
    """For an approval: the tool."""


class ApprovalRequested(_Event, frozen=True, tag="approval.requested"):
    """The details of a request for an approval. Committed before the chunk that asks."""

    turn: TurnId
    attempt: Attempt
    call: CallId
    tool: str
    summary: str | None = None
    risk: str | None = None
    approvers: list[str] = []
    """Ids and roles of the principals that may approve the call; empty for every principal that may answer calls."""
    expires_at: Millis | None = None
    """When the call counts as denied."""
    asked_by: Identity | None = None
    """In a copy of a conversation, where `turn` is 0: the principal whose question led to the call."""


class CallStarted(_Event, frozen=True, tag="call.started"):
    """A tool of the agent is about to run. Committed before its effect, so that a crash cannot repeat it unnoticed.

    The call's output is a chunk. If the turn ends without one, the call is reported as interrupted.
    """

    turn: TurnId
    attempt: Attempt
    call: CallId
    tool: str = ""


class MessageEnded(_Event, frozen=True, tag="message.ended"):
    """The complete answer: all chunks and answers of the turn, folded and sanitised."""

    turn: TurnId
    node: NodeId
    message: Raw
    sanitized: bool = False
    """Sanitising changed the message, so clients that watched the chunks must be sent it (R-25)."""


class CancelRequested(_Event, frozen=True, tag="turn.cancel_requested"):
    turn: TurnId
    by: str | None = None


class TurnEnded(_Event, frozen=True, tag="turn.ended"):
    """The turn is over (I-1). `error` is for clients, `detail` never leaves the process (R-29)."""

    turn: TurnId
    outcome: Outcome
    reason: str | None = None
    error: str | None = None
    detail: str | None = None
    finish_reason: str | None = None
    usage: Raw = ABSENT
    chunks: int = 0
    hook_due: bool = False
    """`on_chat_response` must be called for this turn; `hook.done` records that it was (R-28)."""


class HookDone(_Event, frozen=True, tag="hook.done"):
    """`on_chat_response` ran for this turn (R-28)."""

    turn: TurnId


class MessagesPut(_Event, frozen=True, tag="messages.put"):
    """Messages were placed without a turn, or by a deferred turn. The last one becomes the active leaf."""

    messages: list[Placed]
    cause: str = "saved"
    origin: str | None = None
    turn: TurnId | None = None
    """The deferred turn that placed these messages; its answer moves below them."""


class MessageReplaced(_Event, frozen=True, tag="messages.replaced"):
    node: NodeId
    message: Raw
    cause: str = "saved"
    origin: str | None = None


class MessagesRemoved(_Event, frozen=True, tag="messages.removed"):
    nodes: list[NodeId]
    cause: str = "cap"


class LeafMoved(_Event, frozen=True, tag="leaf.moved"):
    """Another branch of the message tree became the active one."""

    node: NodeId | None
    origin: str | None = None


class ChatCleared(_Event, frozen=True, tag="chat.cleared"):
    """The conversation was cleared. No event of an older generation can be written afterwards (R-9)."""

    generation: Generation
    origin: str | None = None


class StateSet(_Event, frozen=True, tag="state.set"):
    """The agent's state was replaced, as a whole (R-21)."""

    state: Raw
    origin: str | None = None
    """Serial of the socket that sent the state; that socket is not sent it again."""


TitleSource = Literal["person", "model"]


class ConversationChanged(_Event, frozen=True, tag="conversation.changed"):
    """Something was set that lists of conversations show. Fields that are left out stay as they were."""

    title: str | UnsetType | None = UNSET
    """None: the first question is the title again."""
    titled_by: TitleSource = "person"
    owner: str | UnsetType | None = UNSET
    archived: bool | UnsetType = UNSET
    metadata: Raw = ABSENT
    """The app's own JSON object; it replaces the one before."""
    keep_for: int | UnsetType | None = UNSET
    """Milliseconds after its last change at which the conversation is deleted; None for never."""
    by: Identity | None = None


class ConversationRead(_Event, frozen=True, tag="conversation.read"):
    """A principal has read the conversation up to a message, counted from its beginning."""

    principal: str
    messages: int


ToolDetail = Literal["all", "names", "none"]


class ShareContent(msgspec.Struct, frozen=True, omit_defaults=True):
    """What readers of a shared link are shown besides the texts of questions and answers."""

    reasoning: bool = False
    tools: ToolDetail = "names"
    data: bool = False
    people: bool = False
    files: bool = True


class ShareCreated(_Event, frozen=True, tag="share.created"):
    """The conversation can be read by clients that have a token. A frozen link shows what comes before this event."""

    share: ShareId
    digest: str
    """The SHA-256 of the token, in hex. The token itself is stored nowhere."""
    frozen: bool = False
    expires_at: Millis | None = None
    shows: ShareContent = ShareContent()
    label: str | None = None
    principal: Identity | None = None


class ShareRevoked(_Event, frozen=True, tag="share.revoked"):
    """A shared link was revoked."""

    share: ShareId
    principal: Identity | None = None


class AgentCreated(_Event, frozen=True, tag="agent.created"):
    """A sub-agent exists, even if it has no other event yet."""


class AgentDestroyed(_Event, frozen=True, tag="agent.destroyed"):
    """The agent will be deleted, with all that it stored and all agents below it. No event follows."""


JobKind = Literal["queue", "once", "cron", "every"]
JobOutcome = Literal["done", "retry", "stopped", "failed", "cancelled", "set-aside"]


class JobAdded(_Event, frozen=True, tag="job.added"):
    """A job was queued or scheduled: a method of the agent, to be called with `payload` at `due`."""

    job: JobId
    kind: JobKind
    callback: str
    due: Millis
    payload: Raw = ABSENT
    rule: str | None = None
    """The cron expression, or the interval in milliseconds. For a job that runs once, the requested delay."""
    zone: str | None = None
    """The time zone of a cron expression."""
    max_attempts: int = 5
    number: int = 0
    """Ordinal among the agent's jobs; queued jobs run in this order."""
    key: str | None = None
    """The unique name of a schedule (R-33)."""
    is_declared: bool = False
    """True if the agent's class declares the job: it is removed when the class no longer does."""
    principal: Identity | None = None
    """The principal that the job runs for (R-35)."""


class JobStarted(_Event, frozen=True, tag="job.started"):
    """A run of a job began. Committed before the method is called. `missed` counts runs during downtime."""

    job: JobId
    run: int
    missed: int = 0


class JobEnded(_Event, frozen=True, tag="job.ended"):
    """A run of a job is over, or the job was cancelled. With a `due` the job runs again; without, it is finished."""

    job: JobId
    run: int
    outcome: JobOutcome
    due: Millis | None = None
    detail: str | None = None


FiberOutcome = Literal["done", "failed", "cancelled", "interrupted", "set-aside"]


class FiberStarted(_Event, frozen=True, tag="fiber.started"):
    """Background work began, or was started again after its process died. Committed before its code runs."""

    fiber: FiberId
    name: str
    attempt: int = 1
    principal: Identity | None = None
    """The principal that the fiber runs for (R-35)."""


class FiberStashed(_Event, frozen=True, tag="fiber.stashed"):
    """Background work saved a checkpoint, which replaces the previous one."""

    fiber: FiberId
    snapshot: Raw


class FiberPaused(_Event, frozen=True, tag="fiber.paused"):
    """An orderly shutdown interrupted the fiber; that attempt does not count."""

    fiber: FiberId


class FiberEnded(_Event, frozen=True, tag="fiber.ended"):
    """Background work is over. Its record is kept; `forgets` names an older record that is deleted for it."""

    fiber: FiberId
    outcome: FiberOutcome
    detail: str | None = None
    forgets: FiberId | None = None


RunStatus = Literal["completed", "error", "aborted", "interrupted"]


class RunStarted(_Event, frozen=True, tag="run.started"):
    """A sub-agent started work as a tool. Its output is in its own log, under the name `run`.

    Written again when an interrupted run is resumed.
    """

    run: RunId
    kind: str
    call: CallId | None = None
    within: TurnId | None = None
    """The turn that waits for the run; the run does not outlive it."""
    input: Raw = ABSENT
    preview: str | None = None
    order: int = 0
    display: Raw = ABSENT
    is_detached: bool = False
    """No turn waits for the run: it continues after the turn that started it."""
    expects: str | None = None
    """The name of the expected output type."""
    number: int = 0
    """Ordinal among the agent's runs."""
    principal: Identity | None = None
    """The principal that the run, and its sub-agent's turn, runs for (R-35)."""
    trace: str | None = None
    """The trace of the run, as `traceparent`."""


class RunEnded(_Event, frozen=True, tag="run.ended"):
    """A run ended as its own turn did, or the parent no longer waits for it (`interrupted`)."""

    run: RunId
    status: RunStatus
    summary: str | None = None
    output: Raw = ABSENT
    error: str | None = None
    reason: str | None = None
    is_child_running: bool | None = None
    hook_due: bool = False
    """`on_agent_tool_finish` must be called; `run.told` records that it was."""
    forgets: RunId | None = None
    """An older run whose record is deleted, because only the newest ones are kept."""
    usage: Raw = ABSENT
    """The token usage of the run, including runs below it."""


class RunTold(_Event, frozen=True, tag="run.told"):
    """`on_agent_tool_finish` was called for a run."""

    run: RunId


Event = (
    TurnAccepted
    | TurnRetargeted
    | AttemptStarted
    | AttemptDelayed
    | AttemptInterrupted
    | Chunk
    | CallStarted
    | CallAnswered
    | ApprovalRequested
    | ConversationChanged
    | ConversationRead
    | MessageEnded
    | CancelRequested
    | TurnEnded
    | HookDone
    | MessagesPut
    | MessageReplaced
    | MessagesRemoved
    | LeafMoved
    | ChatCleared
    | StateSet
    | ShareCreated
    | ShareRevoked
    | AgentCreated
    | JobAdded
    | JobStarted
    | JobEnded
    | RunStarted
    | RunEnded
    | RunTold
    | FiberStarted
    | FiberStashed
    | FiberPaused
    | FiberEnded
    | AgentDestroyed
)

_KINDS: dict[type, str] = {kind: str(kind.__struct_config__.tag) for kind in get_args(Event)}

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)

encode_event = _encoder.encode
"""Encode an event as the JSON bytes that the log stores."""

decode_event = _decoder.decode
"""Decode an event from the bytes of `encode_event`; raises `msgspec.DecodeError` for any other input."""


def to_raw(value: object) -> Raw:
    """Encode a JSON value as the opaque bytes that events carry; None becomes ABSENT."""
    return ABSENT if value is None else Raw(_encoder.encode(value))


def absent() -> Raw:
    """Return ABSENT, for fields that need a default factory."""
    return ABSENT


def kind_of(event: Event) -> str:
    """Return the event's tag, e.g. `turn.accepted`."""
    return _KINDS[type(event)]


def turn_of(event: Event) -> TurnId | None:
    """Return the turn that the event belongs to, or None."""
    return getattr(event, "turn", None)
