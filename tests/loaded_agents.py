"""Loaded agent objects and their runtime, for tests of what only an agent's own code can use."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from everyword import Agent, Handle
from everyword.runtime.agent_runtime.agent_runtime import AgentRuntime
from everyword.runtime.method_calls import MethodCalls

A = TypeVar("A", bound=Agent[Any])


def runtime_of(handle: Handle[Any]) -> AgentRuntime:
    """Return the runtime handle of an agent's own code."""
    assert isinstance(handle._calls, MethodCalls)
    return AgentRuntime(handle._calls._running(), handle._agent)


async def loaded_agent(handle: Handle[A]) -> A:
    """Load an agent and return its object."""
    await handle.load()
    loaded = runtime_of(handle)._directory.peek(handle._agent)
    assert loaded is not None
    return cast(A, loaded.owner)
