"""The state of one agent: everything that `decide` needs. It is computed from the log by `evolve`.

`evolve` changes the state in place. After a failed append the state is discarded, and loaded again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ..events import FiberOutcome, Identity, JobAdded, Outcome, RunEnded, RunStarted, TurnKind
from ..ids import CallId, FiberId, Generation, JobId, Millis, NodeId, RequestId, RunId, ShareId, TurnId
from ..messages.repair_tool_calls import INTERRUPTED, STOPPED
from ..rows import ApprovalRecord, ConversationSummary, KeptRow, ShareRecord
from .commands import Policy
from .transitions import TurnStatus
from .tree import Tree
from .turn_state import TurnState

__all__ = ["RECENT_TURNS", "Approved", "FiberState", "FollowUps", "JobState", "Rules", "RunState", "State"]

RECENT_TURNS = 256
"""How many ended turns a state remembers. Older request ids are looked up in the store."""


@dataclass(frozen=True, slots=True)
class Approved:
    """An approval of a tool call: the principal that gave it, and when."""

    by: Identity
    at: Millis


@dataclass(slots=True)
class JobState:
    """A durable job. `attempts` counts the runs that started since the last one that was done."""

    added: JobAdded
    due: Millis
    run: int = 0
    attempts: int = 0
    is_started: bool = False
    ended: int = 0
    """The number of the run that ended last. Runs after it were started by processes that crashed."""

    @property
    def is_last(self) -> bool:
        """Whether the job does not repeat: a reminder, or a notification that is tried again."""
        return self.added.kind in ("once", "queue")


@dataclass(slots=True)
class FiberState:
    """A fiber: background work. `attempt` counts its starts and recoveries. An ended fiber has an outcome."""

    id: FiberId
    name: str
    started_at: Millis
    attempt: int = 1
    snapshot: bytes | None = None
    """The last checkpoint, as JSON."""
    outcome: FiberOutcome | None = None
    detail: str | None = None
    ended_at: Millis | None = None
    principal: Identity | None = None


@dataclass(slots=True)
class RunState:
    """A run: a sub-agent that works, or has worked, as a tool."""

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
    """The state of one agent. `open` is in the order of acceptance; `ended` has the newest `RECENT_TURNS`."""

    generation: Generation = Generation(0)
    last_turn: TurnId = TurnId(0)
    tree: Tree = field(default_factory=Tree)
    open: dict[TurnId, TurnState] = field(default_factory=dict)
    ended: dict[TurnId, TurnState] = field(default_factory=dict)
    requests: dict[RequestId, TurnId] = field(default_factory=dict)
    jobs: dict[JobId, JobState] = field(default_factory=dict)
    """The jobs that are queued or scheduled, in the order in which they were added."""
    last_job: int = 0
    fibers: dict[FiberId, FiberState] = field(default_factory=dict)
    """The open fibers, and the newest of the ended ones."""
    runs: dict[RunId, RunState] = field(default_factory=dict)
    """The open runs, and the newest of the ended ones, in the order in which they started."""
    last_run: int = 0
    is_destroyed: bool = False
    """True when the agent was destroyed: it takes no commands, and everything of it is to be deleted."""
    value: bytes | None = None
    """The state that the agent's code or a client set, as JSON; None before."""
    approvals: dict[CallId, Approved] = field(default_factory=dict)
    """The newest approvals, in the order in which they were given."""
    hooks_due: set[TurnId] = field(default_factory=set)
    """The ended turns whose response hook has not been called yet."""
    conversation: ConversationSummary | None = None
    """The conversation as lists show it; None before the first message."""
    waiting: dict[str, ApprovalRecord] = field(default_factory=dict)
    """The calls that wait for an approval, and those for which one was announced: by call, and if a model repeated its
    id for another message, the older one by call and node."""
    shares: dict[ShareId, ShareRecord] = field(default_factory=dict)
    """The shared links that were not revoked, in the order in which they were created."""
    listed: list[KeptRow] = field(default_factory=list, compare=False)
    """The rows for lists that the last event changed; `project` returns them."""
    unlisted: list[KeptRow] | None = field(default=None, compare=False)
    """The settled calls of an agent of a release without lists: its next commit writes all of its rows for lists."""

    is_searchable: bool = False
    """True if the texts of the messages are indexed for searches."""
    indexed_title: str | None = field(default=None, compare=False)
    """The title as it is indexed."""

    @property
    def current(self) -> TurnState | None:
        """The chat turn that has begun. At most one has."""
        for turn in self.open.values():
            if turn.status is not TurnStatus.ACCEPTED and turn.accepted.kind.is_chat:
                return turn
        return None

    @property
    def last_ended(self) -> TurnState | None:
        """The chat turn of this generation that ended last, not counting skipped ones."""
        candidates = [
            turn
            for turn in self.ended.values()
            if turn.accepted.generation == self.generation
            and turn.accepted.kind.is_chat
            and turn.outcome is not Outcome.SKIPPED
        ]
        return max(candidates, key=lambda turn: (turn.ended_at or 0, turn.id), default=None)

    def chat_turns(self) -> Iterator[TurnState]:
        """Iterate over the open turns of the conversation, in order of acceptance. One of them runs at a time."""
        return (turn for turn in self.open.values() if turn.accepted.kind.is_chat)

    def message_turns(self) -> Iterator[TurnState]:
        """Iterate over the open turns that write a message: chat turns, and turns that run late calls (R-3)."""
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
class FollowUps:
    """What the app's settings add to the events of a command."""

    owner_of: Callable[[Identity], str | None] | None = None
    """Returns the owner of a conversation that a principal begins; by default that principal."""
    keep_for: int | None = None
    """Milliseconds after its last change at which a new conversation is deleted."""
    has_titles: bool = False
    """Whether a job asks for a title after the first answer."""
    notifies_turns: bool = False
    """Whether a job notifies of each turn that ended."""
    notifies_approvals: bool = False
    """Whether a job notifies of each call that waits for an approval."""
    notification_delay: int = 0
    """Milliseconds between an event and the job that notifies of it."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings of an agent's class that `decide` and `wanted` use. They are constant while the agent is loaded."""

    max_attempts: int = 5
    """Attempts of a turn without progress. Attempts that a graceful shutdown interrupted do not count."""
    max_total_attempts: int = 100
    """Attempts of a turn in total."""
    max_running_time: int = 24 * 60 * 60 * 1000
    """Milliseconds that all attempts of a turn may have run when the next one is to begin."""
    give_up_after: int = 15 * 60 * 1000
    """Milliseconds without a chunk, over several attempts, after which a turn is given up instead of tried again."""
    stall_after: int | None = None
    """Milliseconds without output after which an attempt is given up; None for never."""
    max_queued: int = 50
    max_persisted_messages: int | None = None
    has_response_hook: bool = False
    max_runs: int | None = None
    """How many runs of sub-agents may be open at a time; None for any number."""
    run_patience: int | None = 120_000
    """Milliseconds without output of a sub-agent after which its run is no longer waited for; None for no limit."""
    has_run_hook: bool = False
    policy: Policy = field(default_factory=Policy)
    """What happens to a client's question while other turns are open (R-7)."""
    continuation_delay: int = 50
    """Milliseconds that a continuation waits, so that tool results which arrive together cause one (R-3)."""
    exhausted_text: str = "The answer was interrupted too often and was given up. Please try again."
    unsanitized_text: str = "The answer could not be prepared for storage."
    interrupted_text: str = INTERRUPTED
    """The error of a server tool's call that had no output when its turn ended."""
    stopped_text: str = STOPPED
    """The error of an approved call whose turn was stopped before it began."""
    server_tools: frozenset[str] = frozenset()
    """The tools that run on the server: clients cannot answer their calls."""
    trusts_client_messages: bool = False
    """Whether clients may add and change assistant messages (R-8)."""
    follow_ups: FollowUps | None = None
    is_searchable: bool | None = None
    """Whether the texts of messages are indexed for searches; None to leave it as it is."""
    has_list_events: bool = True
    """Whether the events of lists are written: each request for an approval, and the owner of a copied conversation.
    Not while nodes run that do not know them."""
    sanitize: Callable[[dict[str, Any]], dict[str, Any]] = _unchanged
    """Return the message as it is to be stored. A pure function (R-25)."""
