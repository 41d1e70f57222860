"""What those who watch are told."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from ..events import Event, Outcome
from ..ids import AgentId, Millis, RequestId, Seq, TurnId, split_agent_id
from ..runtime.api import TurnCall

__all__ = ["EventHook", "Happened", "LoopBlocked", "Observer", "StreamFunction", "TurnFacts"]

StreamFunction = Callable[[TurnCall], AsyncIterator[Any]]


@dataclass(slots=True)
class TurnFacts:
    """What is known of a turn from its events; times are None for what happened before this process."""

    request: RequestId
    accepted_at: Millis | None = None
    begun_at: Millis | None = None
    first_chunk_at: Millis | None = None
    attempt: int = 0
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True)
class Happened:
    """One committed event of one agent, and what is known of its turn, if it has one."""

    agent: AgentId
    seq: Seq
    at: Millis
    event: Event
    kind: str
    """What it is, as the log has it: `turn.accepted`, `turn.ended`, …"""
    turn: TurnId | None = None
    facts: TurnFacts | None = field(default=None, repr=False)

    @property
    def agent_kind(self) -> str:
        """The kind of the agent, such as `chat`."""
        return split_agent_id(self.agent)[0]

    @property
    def request(self) -> RequestId | None:
        """The request of its turn; None when it has none, or it was accepted before this process."""
        return self.facts.request if self.facts is not None else None


@dataclass(frozen=True, slots=True)
class LoopBlocked:
    """The event loop could not run, because some code did not give it back."""

    agent: AgentId | None
    """Whose code it was; None for code that belongs to no agent."""
    method: str
    """The function or method, such as `Shop.on_chat_message`."""
    place: str
    """The line, such as `app.py:12`."""
    seconds: float = 0.0


EventHook = Callable[[Happened], Awaitable[None] | None]


class Observer:
    """Watches a server; subclass it and give it to `Everyword(observe=[...])`. Everything does nothing by default."""

    wants_chunks = False
    """Whether `streamed` is to be called."""

    kinds: frozenset[str] | None = None
    """The events that `happened` is to be called for, as the log names them; None for all."""

    def happened(self, happened: Happened) -> None:
        """Hear of a committed event that is no chunk: in order per agent, outside of it, soon after the commit."""

    def streamed(self, agent: AgentId, facts: TurnFacts | None, chunks: int) -> None:
        """Hear that so many chunks of a turn were committed."""

    def loop_blocked(self, blocked: LoopBlocked) -> None:
        """Called when the event loop runs again after code blocked it; only under `everyword serve` and `dev`."""

    def around(self, stream: StreamFunction) -> StreamFunction:
        """Return what runs instead of an agent's answer to a turn, and runs it."""
        return stream
