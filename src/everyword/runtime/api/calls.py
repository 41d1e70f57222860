"""Calls of an agent's methods by other code: what travels from a handle to the agent, wherever that is loaded."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ...events import Identity
from ...ids import AgentId

__all__ = ["AnswersCalls", "MethodCall", "StreamItem"]


@dataclass(frozen=True, slots=True)
class MethodCall:
    """One call of a method. Every field has a JSON form: the agent may live in another process."""

    agent: AgentId
    method: str
    """A method of the agent's class; one of the framework's own operations begins with `everyword.`."""
    arguments: bytes
    """JSON: a list of two, the positional arguments and an object of the keyword arguments."""
    principal: Identity | None = None
    """For whom the caller works: the call does so, too."""
    answering: frozenset[AgentId] = frozenset()
    """Agents whose turns wait for this call: another turn of theirs would wait for itself."""
    starting: frozenset[AgentId] = frozenset()
    """Agents whose start waits for this call: the code of the call may use them before they have started."""
    trace: str | None = None
    """The trace that it belongs to, as `traceparent`."""
    is_repeatable: bool = False
    """True when the call may be made again after its agent was lost in the middle of it, and loaded again."""
    is_wait: bool = False
    """True when the call does nothing but wait: a shutdown does not wait for it."""
    ends_with_caller: bool = False
    """True when the call is cancelled with its caller. Others go on: what they do must not be cut off half-way."""


@dataclass(frozen=True, slots=True)
class StreamItem:
    """One value of a stream, as JSON."""

    value: bytes
    is_result: bool = False
    """True for the result that a stream ends with."""


@runtime_checkable
class AnswersCalls(Protocol):
    """A responder whose agent can be called."""

    async def answer_call(self, call: MethodCall) -> bytes:
        """Run the method that a call names, in the present task; return its result as JSON."""
        ...

    def answer_stream(self, call: MethodCall) -> AsyncIterator[StreamItem]:
        """Run the async generator that a call names; give its values as JSON."""
        ...
