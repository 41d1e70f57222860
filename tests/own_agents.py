"""The agents' own objects, for tests of what only an agent's own code can use."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from everyword import Agent, Handle
from everyword.runtime.agent_runtime.agent_runtime import AgentRuntime
from everyword.runtime.method_calls import MethodCalls

A = TypeVar("A", bound=Agent[Any])


def runtime_of(handle: Handle[Any]) -> AgentRuntime:
    """Return what an agent's own code reaches the runtime through."""
    assert isinstance(handle._calls, MethodCalls)
    return AgentRuntime(handle._calls._running(), handle._agent)


async def own(handle: Handle[A]) -> A:
    """Return the object that runs an agent's own code, loaded."""
    await handle.load()
    loaded = runtime_of(handle)._directory.peek(handle._agent)
    assert loaded is not None
    return cast(A, loaded.owner)
