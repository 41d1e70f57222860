"""ToolContext, which a tool is given with a call, and the possible results of a call."""

from __future__ import annotations

import typing
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, Generic, Literal

from typing_extensions import TypeVar

from ...principals import Principal
from ...runtime.api import CancelToken

__all__ = ["ToolContext", "ToolFailed", "ToolProgress", "ToolResult", "ToolYield", "is_context"]

AgentT = TypeVar("AgentT", default=Any)


@dataclass(frozen=True, slots=True)
class ToolContext(Generic[AgentT]):
    """The call that a tool is answering. A parameter with this annotation is given it; the model never sees it.

    `ToolContext[Shop]` has a `Shop` as its agent, for tools that are no methods of it.

    `idempotency_key` is the same for every attempt at the same call: hand it to services that take one. `threads` is
    for blocking code in an async tool: `await loop.run_in_executor(context.threads, function)`.
    """

    agent: AgentT = None  # type: ignore[assignment]  # only a call by hand has none
    """The agent whose tool it is."""
    turn: Any = None
    """The turn that the call belongs to."""
    call_id: str = ""
    """The id of the call, as the model gave it."""
    idempotency_key: str = ""
    """The same in every attempt at the call, and in no other call."""
    cancelled: CancelToken = field(default_factory=CancelToken)
    """Set when the turn is to stop."""
    threads: Executor | None = field(default=None, repr=False)
    """Where blocking code of an async tool may run."""
    principal: Principal | None = None
    """The principal that asked the question; None if server code asked without a principal."""
    approved_by: Principal | None = None
    """The principal that approved the call; None if no approval was needed, or it was given elsewhere."""


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """What is known so far, as a JSON value; more follows."""

    output: Any


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The tool's answer, as a JSON value; nothing follows."""

    output: Any


@dataclass(frozen=True, slots=True)
class ToolFailed:
    """The call brought no answer; nothing follows. `unknown`: it timed out, but what it does in its thread goes on.

    `client_text` is stored and shown to every client. `model_text` may say more: what is wrong with the input, or the
    exception's text where the tool allows it.
    """

    reason: Literal["input", "raised", "output", "timeout", "unknown"]
    model_text: str
    client_text: str
    error: BaseException | None = None


ToolYield = ToolProgress | ToolResult | ToolFailed


def is_context(hint: Any) -> bool:
    """Tell whether a parameter wants the ToolContext: that, one of an agent's, or either of them or nothing."""
    return any(ToolContext in (each, typing.get_origin(each)) for each in (hint, *typing.get_args(hint)))
