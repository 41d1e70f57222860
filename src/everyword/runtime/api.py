"""What the runtime asks of those who answer turns, and what it tells them. `agents` builds on this alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import Context
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import msgspec

from ..core.commands import Policy
from ..core.state import Rules
from ..errors import AgentGone, UsageError
from ..events import FiberOutcome, Identity, Outcome
from ..ids import AgentId, FiberId, MessageId, Millis, NodeId, RequestId, TurnId
from ..messages.message import Chunk, UIMessage
from .call_api import Call, Callee, CallPort, StreamItem
from .job_api import DeclaredJob, Declarer, JobCall, JobPort, JobRecord, Worker
from .recovery import Continue, Decision, Recovery, Retry, Stop, Wait
from .run_api import (
    RunAnswer,
    RunCall,
    RunChunk,
    RunHearer,
    Runnable,
    RunPort,
    RunQuestion,
    RunRecord,
    RunRequest,
)
from .state_api import StatePort
from .storage_api import ManagedRecord, ManagedStreamPort, SqlResult, StoragePort

__all__ = ["AgentPort", "CancelToken", "Evaluate", "Outcome", "Policy", "Responder", "Rules", "TurnCall", "TurnResult"]
__all__ += ["Continue", "Decision", "Recovery", "Retry", "Stop", "Wait"]
__all__ += ["ManagedRecord", "ManagedStreamPort", "SqlResult", "StoragePort"]
__all__ += ["IntakePort", "TreePort"]
__all__ += ["DeclaredJob", "Declarer", "JobCall", "JobPort", "JobRecord", "Worker"]
__all__ += ["FiberKeeper", "FiberPort", "FiberRecord", "FiberWork", "Mortal", "RunningFiber"]
__all__ += ["StartCall", "Starter", "StreamPort", "StreamRecord", "TurnRecord", "VersionRecord", "VersionedPlace"]
__all__ += ["Write"]
__all__ += ["RunAnswer", "RunCall", "RunChunk", "RunHearer", "RunPort", "RunQuestion", "RunRecord", "RunRequest"]
__all__ += ["Runnable", "StatePort", "SubPort"]
__all__ += ["Call", "CallPort", "Callee", "StreamItem"]

Evaluate = Callable[[Sequence[UIMessage]], Awaitable[Sequence[dict[str, Any]]]]
"""Gives a deferred turn its messages, once it has reached the head of the queue (R-10)."""


Write = Callable[[Chunk], Awaitable[None]]

StartCall = Callable[[str, str, bool], Awaitable[bool]]
"""Records that a call (its id, its tool, whether it may be made twice) starts; False when it must not be made."""


async def _nowhere(chunk: Chunk) -> None:
    raise UsageError("unable to write a chunk; this turn is not being run")


async def _never(call: str, tool: str, is_idempotent: bool) -> bool:
    raise UsageError("unable to start a call; this turn is not being run")


async def _nothing() -> UIMessage | None:
    return None


async def _no_one(call: str) -> Identity | None:
    return None


async def _not() -> bool:
    return False


class CancelToken:
    """Says that a turn is to stop: look at it, await it, or let it raise."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()

    def is_set(self) -> bool:
        return self._event.is_set()

    def raise_if_set(self) -> None:
        """Raise `asyncio.CancelledError` when the turn is to stop."""
        if self._event.is_set():
            raise asyncio.CancelledError("the turn was cancelled")

    async def wait(self) -> None:
        await self._event.wait()

    def __await__(self) -> Generator[Any, None, None]:
        return self.wait().__await__()

    def __bool__(self) -> bool:
        return self._event.is_set()


class TurnCall(msgspec.Struct, frozen=True):
    """One attempt of one turn, as its responder is told of it.

    `messages` is the conversation that the turn answers. When something of the answer is there already (a later
    attempt, a continuation), it is `partial`, and the last of `messages`.
    """

    agent: AgentId
    turn: TurnId
    request: RequestId
    message_id: MessageId
    attempt: int
    trigger: str
    is_continuation: bool
    messages: Sequence[UIMessage]
    partial: UIMessage | None = None
    body: Any = None
    client_tools: Any = None
    cancelled: CancelToken = msgspec.field(default_factory=CancelToken)
    write: Write = _nowhere
    """Adds a chunk to the answer from beside the stream, in order with it."""
    message: Callable[[], Awaitable[UIMessage | None]] = _nothing
    """Reads the answer as it stands, with everything written before; None while it is empty."""
    start_call: StartCall = _never
    """Commits that a tool of ours is about to run; to be awaited before its effect."""
    working: Callable[[], AbstractContextManager[None]] = nullcontext
    """Marks a time in which the model's silence is no stall, because something else is being waited for."""
    is_steered: Callable[[], Awaitable[bool]] = _not
    """Tells whether a question waits that is to be read before the next step; who hears yes ends the answer here."""
    may_retry: Callable[[], Awaitable[bool]] = _not
    """Tells whether this attempt may fail and be followed by another."""
    is_held: Callable[[], Awaitable[bool]] = _not
    """Tells whether the answer has to end with its last step: a client answered a call of it, and goes on by itself."""
    is_calls_only: bool = False
    """Whether the approved calls of `partial` are to be run, and the model is not to be asked (R-3)."""
    principal: Identity | None = None
    """Who asked, the same in every attempt (R-35)."""
    approver: Callable[[str], Awaitable[Identity | None]] = _no_one
    """Tells who approved a call; None when nobody did, or nobody is known."""
    trace: str | None = None
    """The trace that asked, as `traceparent`, the same in every attempt."""


@dataclass(frozen=True, slots=True)
class TurnResult:
    """How a turn ended, as committed. `recovered` means that an earlier process may have said so already (R-28)."""

    agent: AgentId
    turn: TurnId
    request: RequestId
    outcome: Outcome
    error: str | None
    message: UIMessage | None
    is_continuation: bool
    reason: str | None = None
    recovered: bool = False
    usage: Any = None


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """A turn as it stands: `status` is accepted, running, cancelling, or how it ended."""

    turn: TurnId
    request: RequestId
    status: str
    error: str | None
    accepted_at: Millis
    ended_at: Millis | None


@dataclass(frozen=True, slots=True)
class VersionRecord:
    """One of the messages that stand in one place of the conversation; `is_shown` is true of one of them at most."""

    node: NodeId
    message: UIMessage
    is_shown: bool


@dataclass(frozen=True, slots=True)
class VersionedPlace:
    """A place of the shown conversation that has other versions. `shown` is an index into `versions`.

    `message` and `shown` are None where an answer ended without a word.
    """

    message: MessageId | None
    after: MessageId | None
    versions: Sequence[NodeId]
    shown: int | None


class Responder(Protocol):
    """Answers the turns of one agent. Its code never runs inside the actor (R-26)."""

    @property
    def rules(self) -> Rules:
        """What this agent lays down for the core; read once, at activation."""
        ...

    def stream(self, call: TurnCall) -> AsyncIterator[str | Chunk | msgspec.Struct]:
        """Answer a turn: yield text or chunks. Ending is success; raising, or an `error` chunk, is failure."""
        ...

    def error_text(self, exc: BaseException) -> str:
        """Return what clients may read of a failure (R-29)."""
        ...

    async def on_response(self, result: TurnResult) -> None:
        """Hear how a turn ended; called only if `rules.has_response_hook`."""
        ...


class Starter(Protocol):
    """A responder that may want to know when its agent was loaded."""

    @property
    def wants_start(self) -> bool:
        """Whether there is code that is to run then: agents are loaded often, and most have none."""
        ...

    async def on_start(self) -> None: ...


@runtime_checkable
class Mortal(Protocol):
    """A responder whose agent can be destroyed."""

    def retire(self, why: AgentGone) -> None:
        """Hear that the agent is no more: what its code asks for from now on raises `why`."""
        ...


@dataclass(frozen=True, slots=True)
class FiberRecord:
    """A fiber as it stands: without an outcome it is open. `attempts` counts how often it was begun or handed back."""

    id: FiberId
    name: str
    outcome: FiberOutcome | None
    snapshot: Any
    started_at: Millis
    attempts: int
    detail: str | None = None
    ended_at: Millis | None = None
    principal: Identity | None = None


FiberWork = Callable[[FiberRecord], Awaitable[Any]]
"""A fiber's own code, given the fiber as it stands when it begins."""


class RunningFiber(Protocol):
    """A fiber whose code runs in this process."""

    async def result(self) -> Any:
        """Wait for its end; returns or raises what its code does. Safe to cancel: it goes on.

        Raises:
            FiberCancelled: somebody cancelled it.
            AgentStopped: it was cut off; whoever loads the agent next is handed it back.
        """
        ...


@runtime_checkable
class FiberKeeper(Protocol):
    """A responder whose agent takes up what a dead process left."""

    async def on_fiber_recovered(self, fiber: FiberRecord) -> None:
        """Start the fiber again, or return to let it end as interrupted; raising means to be asked again later."""
        ...


class FiberPort(Protocol):
    """An agent's background work, through its own mailbox."""

    async def start(
        self, fiber: FiberId, name: str, work: FiberWork, context: Context | None = None
    ) -> RunningFiber | FiberRecord:
        """Record a fiber and run its code; one that runs is returned as it is, and of one that has ended its record."""
        ...

    async def stash(self, fiber: FiberId, snapshot: Any) -> None:
        """Commit a checkpoint in the place of the one before.

        Raises:
            Rejected: the fiber has ended.
        """
        ...

    async def cancel(self, fiber: FiberId, detail: str | None = None) -> bool:
        """End a fiber and stop its code; False when it has ended already."""
        ...

    async def all(self) -> Sequence[FiberRecord]:
        """Return the fibers that are open, and the newest of those that have ended, oldest first."""
        ...

    async def hold(self) -> Callable[[], None]:
        """Load the agent and keep it loaded until the returned function is called."""
        ...


class SubPort(Protocol):
    """An agent's sub-agents."""

    def at(self, kind: str, name: str) -> AgentPort:
        """Return the port of a sub-agent, whether or not there is one."""
        ...

    async def make(self, kind: str, name: str) -> AgentPort:
        """Return the port of a sub-agent, loaded; from now on there is one."""
        ...

    async def find(self, kind: str, name: str) -> AgentPort | None:
        """Return the port of a sub-agent; None when there is none."""
        ...

    async def all(self) -> list[AgentId]:
        """Return the sub-agents that exist, theirs and so on, oldest first."""
        ...


class IntakePort(Protocol):
    """Turns that are accepted now and answered when their time has come."""

    async def submit(self, messages: Sequence[dict[str, Any]], *, request: RequestId, body: Any = None) -> TurnRecord:
        """Accept a turn without waiting for its end; a known request id gives the turn that it has."""
        ...

    async def submission(self, request: RequestId) -> TurnRecord | None:
        """Return the turn of a request id, however long ago it was accepted."""
        ...

    async def submissions(self) -> list[TurnRecord]:
        """Return the turns that `submit` accepted, oldest first: the open ones, and those of the newest that ended."""
        ...


class TreePort(Protocol):
    """A conversation with all its versions."""

    async def versions(self, message: MessageId) -> list[VersionRecord]:
        """Return all that stand in the place of a message, oldest first; empty for an unknown one."""
        ...

    async def places(self) -> list[VersionedPlace]:
        """Return the places of the shown conversation that have other versions, in order."""
        ...

    async def show(self, node: NodeId) -> None:
        """Show the branch of a node, down to its newest leaf.

        Raises:
            Rejected: there is no such node.
        """
        ...

    async def fork(self, message: MessageId, name: str) -> AgentPort:
        """Copy the conversation up to a message into another agent of this kind, which must be empty.

        Raises:
            Rejected: the message is unknown or not whole yet, or the other agent has messages.
        """
        ...

    async def is_asking(self) -> bool:
        """Tell whether a tool call waits for a client or a person."""
        ...


class AgentPort(Protocol):
    """What an agent's own code may ask of the runtime: the same commands that clients and runners post.

    Every method loads the agent if need be and waits for what it asked to be committed.
    """

    @property
    def agent(self) -> AgentId: ...

    def messages(self) -> Sequence[UIMessage]:
        """Return the committed conversation.

        Raises:
            UsageError: the agent is not loaded; `load` it.
        """
        ...

    @property
    def states(self) -> StatePort:
        """The agent's state."""
        ...

    @property
    def work(self) -> JobPort:
        """What the agent puts aside for later."""
        ...

    @property
    def storage(self) -> StoragePort:
        """What the agent stores besides its conversation."""
        ...

    @property
    def fibers(self) -> FiberPort:
        """What the agent does in the background."""
        ...

    async def destroy(self) -> None:
        """Delete the agent, all that it stored and every agent below it, in one transaction; then it is a new one."""
        ...

    @property
    def runs(self) -> RunPort:
        """Sub-agents that work as tools of the agent."""
        ...

    @property
    def subs(self) -> SubPort:
        """The agents below the agent."""
        ...

    @property
    def calls(self) -> CallPort:
        """The way to other agents, and to this one for code that is not its own."""
        ...

    async def load(self) -> None:
        """Load the agent; it stays loaded while it is used, and a while longer."""
        ...

    @property
    def intake(self) -> IntakePort:
        """Turns to be answered later."""
        ...

    @property
    def tree(self) -> TreePort:
        """The conversation with all its versions."""
        ...

    async def run_turn(
        self, messages: Sequence[dict[str, Any]] | Evaluate, *, body: Any = None, request: RequestId | None = None
    ) -> TurnResult:
        """Store messages and answer them; return how the turn ended, whichever attempt or process ends it (R-10)."""
        ...

    async def continue_turn(self, *, body: Any = None) -> TurnResult | None:
        """Go on with the last assistant message; None when the last message is not one."""
        ...

    async def put_messages(self, messages: Sequence[dict[str, Any]]) -> None:
        """Store messages without a turn."""
        ...

    async def cancel(self, request: RequestId | None = None) -> None:
        """Stop one turn, or all."""
        ...

    async def wait_until_idle(self) -> None:
        """Wait until no turn is open."""
        ...

    async def clear(self) -> None:
        """Start the conversation anew."""
        ...

    async def wait_until_stable(self, patience: float | None = None) -> bool:
        """Wait until nothing runs, waits or is asked; False when `patience` seconds pass first."""
        ...


@dataclass(frozen=True, slots=True)
class StreamRecord:
    """A bare stream as the store has it. `outcome` is None while it streams."""

    turn: TurnId
    request: RequestId
    created_at: Millis
    completed_at: Millis | None
    outcome: Outcome | None
    error: str | None


class StreamPort(Protocol):
    """Bare streams of one agent: opaque chunks under a request id, written through the agent's own mailbox."""

    async def start(self, request: RequestId) -> TurnId:
        """Open a stream, or return the one that this request id already has."""
        ...

    async def write(self, turn: TurnId, body: str) -> None:
        """Commit a chunk.

        Raises:
            Rejected: the stream is unknown or has ended.
        """
        ...

    async def end(self, turn: TurnId, outcome: Outcome, error: str | None = None) -> None:
        """End a stream; a second end is refused."""
        ...

    async def find(self, request: RequestId) -> StreamRecord | None:
        """Return the stream of a request id, from the store."""
        ...

    async def active(self) -> StreamRecord | None:
        """Return the newest stream that has not ended."""
        ...

    async def cleanup(self) -> int:
        """Run retention now instead of soon; return how many chunks of ended turns it deleted, of all agents."""
        ...

    async def chunks(self, turn: TurnId) -> list[tuple[int, str]]:
        """Return the stored chunks with their indexes, in order."""
        ...
