"""The event vocabulary: the only thing ever written, the one noun everything shares.

An event is a committed fact in the past tense. Fields are only ever added, with a default, because every
event ever written must still decode (I-13). Opaque JSON (chunks, messages, bodies) is kept as `Raw`
bytes: stored, spliced into frames, and parsed only where somebody looks inside.
"""

from __future__ import annotations

import enum
from typing import Final, Literal, get_args

import msgspec
from msgspec import Raw

from .ids import Attempt, CallId, FiberId, Generation, JobId, MessageId, Millis, NodeId, RequestId, RunId, TurnId

__all__ = ["ABSENT", "LOCAL", "AnswerKind", "AttemptCause", "AttemptDelayed", "AttemptInterrupted", "AttemptStarted"]
__all__ += ["CallAnswered", "CallStarted"]
__all__ += ["AgentCreated", "CancelRequested", "JobAdded", "JobEnded", "JobKind", "JobOutcome", "JobStarted"]
__all__ += ["AgentDestroyed", "FiberEnded", "FiberOutcome", "FiberPaused", "FiberStarted", "FiberStashed"]
__all__ += ["ChatCleared", "Chunk", "Event", "HookDone", "LeafMoved", "MessageEnded", "MessageReplaced", "MessagesPut"]
__all__ += ["MessagesRemoved", "Outcome", "Placed", "StateSet", "TurnAccepted", "TurnEnded", "TurnKind"]
__all__ += ["RunEnded", "RunStarted", "RunStatus", "RunTold"]
__all__ += ["Identity", "TurnRetargeted", "absent", "decode_event", "encode_event", "kind_of", "to_raw", "turn_of"]


ABSENT: Final = Raw(b"null")
"""Opaque JSON that is not there. msgspec decodes `Raw | None` as null and nothing else, so it cannot be None."""


class TurnKind(enum.Enum):
    """Why a turn exists."""

    CHAT = "chat"
    """Answers the user's messages with a new assistant message."""
    CONTINUATION = "continuation"
    """Extends an existing assistant message, after a tool result, an approval or a request to go on."""
    CALLS = "calls"
    """Runs calls of an older answer that a person approved too late for a continuation; no client streams it (R-3)."""
    STREAM = "stream"
    """A bare stream of a ResumableStream: opaque chunks, no message; its caller drives it."""
    RSM = "rsm"
    """A bare stream of a ResumableStreamManager, whose chunks retention leaves alone."""

    @property
    def is_chat(self) -> bool:
        """Whether the turn answers in the conversation, and clients watch it."""
        return self is TurnKind.CHAT or self is TurnKind.CONTINUATION

    @property
    def extends(self) -> bool:
        """Whether the turn goes on with a message that is there already."""
        return self is TurnKind.CONTINUATION or self is TurnKind.CALLS

    @property
    def is_bare(self) -> bool:
        """Whether the turn has no place in the conversation and nobody runs it."""
        return self is TurnKind.STREAM or self is TurnKind.RSM


class Outcome(enum.Enum):
    """How a turn ended. There are four ways and no fifth."""

    COMPLETED = "completed"
    ERROR = "error"
    ABORTED = "aborted"
    SKIPPED = "skipped"


AttemptCause = Literal["first", "crash", "retry", "stall", "shutdown"]
AnswerKind = Literal["result", "error", "approval"]


class _Event(msgspec.Struct, frozen=True, tag_field="t", omit_defaults=True):
    pass


class Placed(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message at its place in the tree (B3)."""

    node: NodeId
    parent: NodeId | None
    id: MessageId
    role: str
    message: Raw


class Identity(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who asked for something, as it is stored with what was asked (R-35): a `Principal` without its time limit."""

    id: str
    name: str | None = None
    claims: Raw = ABSENT
    read_only: bool = False


LOCAL: Final = Identity("local")
"""Whoever uses a server that asks nobody who they are: stored with what was asked, and no author of a message."""


class TurnAccepted(_Event, frozen=True, tag="turn.accepted"):
    """A turn exists, with the messages that asked for it and a reserved place for its answer.

    `message_ids` are the ids of the user messages that the turn answers (`messageIds` on its terminal).
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
    """Serial of the socket that sent it: excluded from its own transcript (R-15)."""
    owner: str | None = None
    """The `_pk` of the client that owns a continuation (R-15)."""
    body: Raw = ABSENT
    client_tools: Raw = ABSENT
    not_before: Millis | None = None
    deferred: bool = False
    """The messages are not known yet: they are evaluated when the turn reaches the head (R-10)."""
    trusted: bool = False
    """Our own code asked for it: no client's question supersedes it."""
    during: TurnId | None = None
    """For a continuation: the turn that was still streaming its target (R-3)."""
    dropped: bool = False
    """Accepted only to be refused in the same batch (policy `drop`): it takes no place in the tree."""
    principal: Identity | None = None
    """Who asked. A continuation has that of the turn whose answer it goes on with (R-35)."""
    trace: str | None = None
    """The trace that asked, as `traceparent`: every attempt belongs to it."""


class TurnRetargeted(_Event, frozen=True, tag="turn.retargeted"):
    """A waiting continuation was given another target, owner or start by a later answer (R-3)."""

    turn: TurnId
    node: NodeId
    message_id: MessageId
    not_before: Millis
    owner: str | None = None
    origin: str | None = None


class AttemptStarted(_Event, frozen=True, tag="attempt.started"):
    """A try at the turn began; committed before the model is called."""

    turn: TurnId
    attempt: Attempt
    cause: AttemptCause = "first"
    fresh: bool = False
    """What earlier attempts said is thrown away: the answer starts anew."""


class AttemptDelayed(_Event, frozen=True, tag="attempt.delayed"):
    """A try at the turn is over, and the turn is not: the next, `attempt`, comes after a while."""

    turn: TurnId
    attempt: Attempt
    cause: AttemptCause


class AttemptInterrupted(_Event, frozen=True, tag="attempt.interrupted"):
    """The process stopped in good order in the middle of a try: that one does not count against the turn's bounds."""

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
    """Somebody outside the model settled a tool call of the message at `node`; first write wins."""

    node: NodeId
    call: CallId
    kind: AnswerKind
    value: Raw
    turn: TurnId | None = None
    """The open turn that writes the message, when one does (R-1)."""
    by: str | None = None
    origin: str | None = None
    auto_continue: bool = True
    """False when the client that answered goes on by itself: the turn that writes the message must not (R-3)."""
    principal: Identity | None = None
    """Who answered, as the tool is told that runs because of it (R-35)."""
    forgets: CallId | None = None
    """An older call of which is not remembered any longer who approved it, because there are many."""


class CallStarted(_Event, frozen=True, tag="call.started"):
    """A tool of ours is about to run; committed before its effect, so that no crash can make it happen twice unseen.

    The call's output is a chunk. A turn that ends without one says that the call was interrupted.
    """

    turn: TurnId
    attempt: Attempt
    call: CallId
    tool: str = ""


class MessageEnded(_Event, frozen=True, tag="message.ended"):
    """The answer as it stands at the turn's end: what all chunks and answers fold to, sanitised."""

    turn: TurnId
    node: NodeId
    message: Raw
    sanitized: bool = False
    """Something was left out of it: whoever watched the chunks needs to be told (R-25)."""


class CancelRequested(_Event, frozen=True, tag="turn.cancel_requested"):
    turn: TurnId
    by: str | None = None


class TurnEnded(_Event, frozen=True, tag="turn.ended"):
    """The turn is over; nothing of it follows (I-1). `error` is public text, `detail` never leaves us (R-29)."""

    turn: TurnId
    outcome: Outcome
    reason: str | None = None
    error: str | None = None
    detail: str | None = None
    finish_reason: str | None = None
    usage: Raw = ABSENT
    chunks: int = 0
    hook_due: bool = False
    """`on_chat_response` is to be called for it; `hook.done` says that it was (R-28)."""


class HookDone(_Event, frozen=True, tag="hook.done"):
    """`on_chat_response` ran for this turn (R-28)."""

    turn: TurnId


class MessagesPut(_Event, frozen=True, tag="messages.put"):
    """Messages were placed without a turn, or by a deferred one; the last becomes the active leaf."""

    messages: list[Placed]
    cause: str = "saved"
    origin: str | None = None
    turn: TurnId | None = None
    """The deferred turn whose messages these are; its answer is re-parented below them."""


class MessageReplaced(_Event, frozen=True, tag="messages.replaced"):
    node: NodeId
    message: Raw
    cause: str = "saved"
    origin: str | None = None


class MessagesRemoved(_Event, frozen=True, tag="messages.removed"):
    nodes: list[NodeId]
    cause: str = "cap"


class LeafMoved(_Event, frozen=True, tag="leaf.moved"):
    """Another branch of the tree is shown."""

    node: NodeId | None
    origin: str | None = None


class ChatCleared(_Event, frozen=True, tag="chat.cleared"):
    """The conversation starts anew; nothing of an older generation can be written afterwards (R-9)."""

    generation: Generation
    origin: str | None = None


class StateSet(_Event, frozen=True, tag="state.set"):
    """The agent's state was replaced, as a whole (R-21)."""

    state: Raw
    origin: str | None = None
    """Serial of the socket that sent it: it has it already."""


class AgentCreated(_Event, frozen=True, tag="agent.created"):
    """A sub-agent exists, from before it has anything to say."""


class AgentDestroyed(_Event, frozen=True, tag="agent.destroyed"):
    """The agent is to be deleted, with all that it stored and all below it: nothing follows, and it all goes."""


JobKind = Literal["queue", "once", "cron", "every"]
JobOutcome = Literal["done", "retry", "stopped", "failed", "cancelled", "set-aside"]


class JobAdded(_Event, frozen=True, tag="job.added"):
    """Work was put aside for later: a method of the agent, to be called with `payload` at `due`."""

    job: JobId
    kind: JobKind
    callback: str
    due: Millis
    payload: Raw = ABSENT
    rule: str | None = None
    """When it comes again: a cron line, or milliseconds. Of one that comes once, the delay that was asked for."""
    zone: str | None = None
    """The time zone of a cron line."""
    max_attempts: int = 5
    number: int = 0
    """Counts the agent's jobs: queued ones run in this order."""
    key: str | None = None
    """The name of a schedule: there is one of each (R-33)."""
    is_declared: bool = False
    """Whether the agent's class declares it, and so decides how long it stays."""
    principal: Identity | None = None
    """For whom it was put aside (R-35)."""


class JobStarted(_Event, frozen=True, tag="job.started"):
    """A run of a job began; committed before the method is called. `missed` runs fell into a time when nobody ran."""

    job: JobId
    run: int
    missed: int = 0


class JobEnded(_Event, frozen=True, tag="job.ended"):
    """A run of a job is over, or the job was cancelled. With a `due` it comes again; without, that was all."""

    job: JobId
    run: int
    outcome: JobOutcome
    due: Millis | None = None
    detail: str | None = None


FiberOutcome = Literal["done", "failed", "cancelled", "interrupted", "set-aside"]


class FiberStarted(_Event, frozen=True, tag="fiber.started"):
    """Background work began, or was handed back after its process died; committed before its code runs."""

    fiber: FiberId
    name: str
    attempt: int = 1
    principal: Identity | None = None
    """For whom it works (R-35)."""


class FiberStashed(_Event, frozen=True, tag="fiber.stashed"):
    """Background work left a checkpoint, in the place of the one before."""

    fiber: FiberId
    snapshot: Raw


class FiberPaused(_Event, frozen=True, tag="fiber.paused"):
    """The process stopped in good order: the attempt that it cut off does not count."""

    fiber: FiberId


class FiberEnded(_Event, frozen=True, tag="fiber.ended"):
    """Background work is over. Its record is kept, and that of an older one goes for it once there are many."""

    fiber: FiberId
    outcome: FiberOutcome
    detail: str | None = None
    forgets: FiberId | None = None


RunStatus = Literal["completed", "error", "aborted", "interrupted"]


class RunStarted(_Event, frozen=True, tag="run.started"):
    """A sub-agent was set to work as a tool. What it says is in its own log, under the name `run`.

    Comes again when a run that was interrupted is taken up.
    """

    run: RunId
    kind: str
    call: CallId | None = None
    within: TurnId | None = None
    """The turn that waits for it: it does not outlive that turn."""
    input: Raw = ABSENT
    preview: str | None = None
    order: int = 0
    display: Raw = ABSENT
    is_detached: bool = False
    """Nobody waits for it: it goes on when the turn that began it has ended."""
    expects: str | None = None
    """The name of the type that its output is to have."""
    number: int = 0
    """Counts the agent's runs."""
    principal: Identity | None = None
    """For whom it works: its sub-agent is asked in that name (R-35)."""
    trace: str | None = None
    """The trace that it belongs to, as `traceparent`."""


class RunEnded(_Event, frozen=True, tag="run.ended"):
    """How a run ended, by its own turn's result; or that it was not waited for any longer (`interrupted`)."""

    run: RunId
    status: RunStatus
    summary: str | None = None
    output: Raw = ABSENT
    error: str | None = None
    reason: str | None = None
    is_child_running: bool | None = None
    hook_due: bool = False
    """The agent's own code is to be told; `run.told` says that it was."""
    forgets: RunId | None = None
    """An older run whose record goes, because there are many."""
    usage: Raw = ABSENT
    """What it used, with what was used below it."""


class RunTold(_Event, frozen=True, tag="run.told"):
    """The agent's own code was told how a run ended."""

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
"""Encode an event as the JSON bytes that the log keeps."""

decode_event = _decoder.decode
"""Decode what `encode_event` made; raises `msgspec.DecodeError` for anything else."""


def to_raw(value: object) -> Raw:
    """Encode a JSON value as the opaque bytes that events carry; None is ABSENT."""
    return ABSENT if value is None else Raw(_encoder.encode(value))


def absent() -> Raw:
    """Return ABSENT: the default of fields that take a factory."""
    return ABSENT


def kind_of(event: Event) -> str:
    """Return the event's tag, e.g. `turn.accepted`."""
    return _KINDS[type(event)]


def turn_of(event: Event) -> TurnId | None:
    """Return the turn that the event belongs to, if it belongs to one."""
    return getattr(event, "turn", None)
