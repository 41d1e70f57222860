"""The interface of observers, and the data that they are given."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ..events import Event, Identity, Outcome
from ..ids import AgentId, Millis, RequestId, Seq, TurnId, split_agent_id
from ..runtime.api import StreamFunction

__all__ = ["AccessDecision", "EventHook", "Happened", "LoopBlocked", "Observer", "StreamFunction", "TurnFacts"]


@dataclass(slots=True)
class TurnFacts:
    """Facts about a turn, from its events. A time is None if the event happened before this process started."""

    request: RequestId
    accepted_at: Millis | None = None
    begun_at: Millis | None = None
    first_chunk_at: Millis | None = None
    attempt: int = 0
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True)
class Happened:
    """One committed event of one agent, with the facts about its turn, if it has one."""

    agent: AgentId
    seq: Seq
    at: Millis
    event: Event
    kind: str
    """The event's name in the log: `turn.accepted`, `turn.ended`, …"""
    turn: TurnId | None = None
    facts: TurnFacts | None = field(default=None, repr=False)

    @property
    def agent_kind(self) -> str:
        """The kind of the agent, such as `chat`."""
        return split_agent_id(self.agent)[0]

    @property
    def request(self) -> RequestId | None:
        """The request of the event's turn; None if it has no turn, or one accepted before this process started."""
        return self.facts.request if self.facts is not None else None


@dataclass(frozen=True, slots=True)
class LoopBlocked:
    """Some code blocked the event loop."""

    agent: AgentId | None
    """The agent whose code blocked; None for code that belongs to no agent."""
    method: str
    """The function or method, such as `Shop.on_chat_message`."""
    place: str
    """The line, such as `app.py:12`."""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """A client was allowed or refused an action, or the app's own code did something that changes who knows what."""

    at: Millis
    principal: Identity | None
    """None for a client that was not identified, and for the app's own code outside of a request."""
    action: str
    """As `authorize` gets it; or `authenticate`, `destroy`, `export` or `erase`."""
    kind: str
    name: str
    outcome: Literal["allowed", "refused", "done"]
    """`done`: the app's own code did it; no client was asked about."""
    why: str | None = None
    """Why it was refused, as the client was told."""
    what: Mapping[str, Any] = field(default_factory=dict)
    """Ids and names, such as `request`, `resource`, `method`."""


EventHook = Callable[[Happened], Awaitable[None] | None]


class Observer:
    """Base class of observers: subclass it and pass an instance to `Everyword(observe=[...])`. Methods do nothing."""

    wants_chunks = False
    """Set to True to have `streamed` called."""

    node_name: str | None = None
    """The name of the node that is observed; set at the start of an app whose store several nodes share."""

    kinds: frozenset[str] | None = None
    """Names of the events for which `happened` is called, as in the log; None for all."""

    def happened(self, happened: Happened) -> None:
        """Called for each committed event but chunks: soon after the commit, outside the agent, in order per agent."""

    def streamed(self, agent: AgentId, facts: TurnFacts | None, chunks: int) -> None:
        """Called when chunks of a turn were committed, with their number."""

    def decided(self, decision: AccessDecision) -> Awaitable[None] | None:
        """Called for each decision about what a client may do. If it returns an awaitable, the request waits for it.

        If that raises, the client is refused with 503.
        """

    def loop_blocked(self, blocked: LoopBlocked) -> None:
        """Called when the event loop runs again after code blocked it; only under `everyword serve` and `dev`."""

    def around(self, stream: StreamFunction) -> StreamFunction:
        """Return a function that replaces `stream`, which answers a turn, and calls it."""
        return stream

    async def aclose(self) -> None:
        """Called when the app has closed, after the last event."""
