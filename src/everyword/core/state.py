"""What an agent's owner must remember to decide. A fold of the log; everything else is a projection.

State is mutated in place by `evolve`: after a failed append it is thrown away and folded again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ..events import FiberOutcome, Identity, JobAdded, Outcome, RunEnded, RunStarted, TurnKind
from ..ids import CallId, FiberId, Generation, JobId, Millis, NodeId, RequestId, RunId, TurnId
from ..messages.repair_tool_calls import INTERRUPTED, STOPPED
from .commands import Policy
from .transitions import TurnStatus
from .tree import Tree
from .turn_state import TurnState

__all__ = ["RECENT_TURNS", "Approved", "FiberState", "JobState", "Rules", "RunState", "State"]

RECENT_TURNS = 256
"""How many ended turns a state remembers; older request ids are looked up in the store."""


@dataclass(frozen=True, slots=True)
class Approved:
    """Who approved a call, and when."""

    by: Identity
    at: Millis


@dataclass(slots=True)
class JobState:
    """A durable job. `attempts` counts the runs that began since the last one that was done."""

    added: JobAdded
    due: Millis
    run: int = 0
    attempts: int = 0
    is_started: bool = False
    ended: int = 0
    """The run that ended last: later ones are one, begun again and again by processes that died."""


@dataclass(slots=True)
class FiberState:
    """Background work. `attempt` counts how often it was begun or handed back; one that has ended has an outcome."""

    id: FiberId
    name: str
    started_at: Millis
    attempt: int = 1
    snapshot: bytes | None = None
    """Its last checkpoint, as JSON."""
    outcome: FiberOutcome | None = None
    detail: str | None = None
    ended_at: Millis | None = None
    principal: Identity | None = None


@dataclass(slots=True)
class RunState:
    """A sub-agent that works, or has worked, as a tool."""

    started: RunStarted
    started_at: Millis
    ended: RunEnded | None = None
    ended_at: Millis | None = None
    hook_due: bool = False

    @property
    def id(self) -> RunId:
        return self.started.run

    @property
    def is_open(self) -> bool:
        return self.ended is None


@dataclass(slots=True)
class State:
    """One agent. `open` keeps the order of acceptance; `ended` the newest `RECENT_TURNS`."""

    generation: Generation = Generation(0)
    last_turn: TurnId = TurnId(0)
    tree: Tree = field(default_factory=Tree)
    open: dict[TurnId, TurnState] = field(default_factory=dict)
    ended: dict[TurnId, TurnState] = field(default_factory=dict)
    requests: dict[RequestId, TurnId] = field(default_factory=dict)
    jobs: dict[JobId, JobState] = field(default_factory=dict)
    """Work that was put aside, in the order in which it was."""
    last_job: int = 0
    fibers: dict[FiberId, FiberState] = field(default_factory=dict)
    """Background work that is open, and the newest of what has ended."""
    runs: dict[RunId, RunState] = field(default_factory=dict)
    """Sub-agents that work as tools, and the newest of those that have, in order of their start."""
    last_run: int = 0
    is_destroyed: bool = False
    """Everything of it is to be deleted: it does nothing any more."""
    value: bytes | None = None
    """The agent's own state, as JSON; None until it was set."""
    approvals: dict[CallId, Approved] = field(default_factory=dict)
    """Who approved which calls, in order: the newest approvals."""
    hooks_due: set[TurnId] = field(default_factory=set)
    """The ended turns whose response hook is to be called."""

    @property
    def current(self) -> TurnState | None:
        """The chat turn that has begun, if any: at most one at a time."""
        for turn in self.chat_turns():
            if turn.status is not TurnStatus.ACCEPTED:
                return turn
        return None

    @property
    def last_ended(self) -> TurnState | None:
        """The chat turn of this generation that ended last; skipped ones do not count."""
        candidates = [
            turn
            for turn in self.ended.values()
            if turn.accepted.generation == self.generation
            and turn.accepted.kind.is_chat
            and turn.outcome is not Outcome.SKIPPED
        ]
        return max(candidates, key=lambda turn: (turn.ended_at or 0, turn.id), default=None)

    def chat_turns(self) -> Iterator[TurnState]:
        """Iterate over the open turns that answer in the conversation, in order of acceptance; one runs at a time."""
        return (turn for turn in self.open.values() if turn.accepted.kind.is_chat)

    def message_turns(self) -> Iterator[TurnState]:
        """Iterate over all open turns that have a message: those of the chat, and late calls beside them (R-3)."""
        return (turn for turn in self.open.values() if not turn.accepted.kind.is_bare)

    def late_calls(self) -> Iterator[TurnState]:
        """Iterate over the open turns that run late calls, in order of acceptance."""
        return (turn for turn in self.open.values() if turn.accepted.kind is TurnKind.CALLS)

    def writer(self, node: NodeId) -> TurnState | None:
        """Return the open turn that writes the message at `node`, if it has begun."""
        return next((turn for turn in self.message_turns() if turn.node == node and turn.fold is not None), None)

    def find(self, turn: TurnId) -> TurnState | None:
        return self.open.get(turn) or self.ended.get(turn)

    def by_request(self, request: RequestId) -> TurnState | None:
        """Return the open or recently ended turn accepted under this request id."""
        turn = self.requests.get(request)
        return self.find(turn) if turn is not None else None


def _unchanged(message: dict[str, Any]) -> dict[str, Any]:
    return message


@dataclass(frozen=True, slots=True)
class Rules:
    """What an agent's class lays down for `decide` and `wanted`; constant while the agent is loaded."""

    max_attempts: int = 5
    """How often a turn is tried without progress, whatever ends its attempts but a shutdown in good order."""
    max_total_attempts: int = 100
    """How often a turn is tried in all."""
    max_running_time: int = 24 * 60 * 60 * 1000
    """Milliseconds that the attempts of a turn may have run in all, when another is to begin."""
    give_up_after: int = 15 * 60 * 1000
    """Milliseconds without a chunk, over attempts, after which a turn is given up instead of tried again."""
    stall_after: int | None = None
    """Milliseconds of silence after which an attempt is given up; None for never."""
    max_queued: int = 50
    max_persisted_messages: int | None = None
    has_response_hook: bool = False
    max_runs: int | None = None
    """How many sub-agents may work as tools at a time; None for any number."""
    run_patience: int | None = 120_000
    """Milliseconds of a sub-agent's silence after which a run of it is not waited for any longer; None for ever."""
    has_run_hook: bool = False
    policy: Policy = field(default_factory=Policy)
    """What becomes of a client's submit that overlaps open turns (R-7)."""
    continuation_delay: int = 50
    """Milliseconds in which tool results that arrive together become one continuation (R-3)."""
    exhausted_text: str = "The answer was interrupted too often and was given up. Please try again."
    unsanitized_text: str = "The answer could not be prepared for storage."
    interrupted_text: str = INTERRUPTED
    """What a call of our own tools says that a turn's end left without an output."""
    stopped_text: str = STOPPED
    """What an approved call says whose turn was stopped before it began."""
    server_tools: frozenset[str] = frozenset()
    """Tools that run here: clients cannot give their results."""
    trusts_client_messages: bool = False
    """Whether clients may add and change assistant messages (R-8)."""
    sanitize: Callable[[dict[str, Any]], dict[str, Any]] = _unchanged
    """Pure (R-25): given a message, returns what is to be kept of it."""
