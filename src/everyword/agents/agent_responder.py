"""Connects an agent to the runtime: start, jobs, fibers, calls and runs. It answers no turns; see `chat_responder`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Generic, TypeVar

from ..errors import AgentGone, UsageError
from ..messages.message import Chunk
from ..runtime.api import (
    DeclaredJob,
    FiberRecord,
    JobCall,
    MethodCall,
    Rules,
    RunRecord,
    StreamItem,
    TurnCall,
    TurnResult,
)
from .agent import Agent
from .agent_tools.runs import HasAgentTools
from .agent_tools.types import AgentToolResult, AgentToolRun
from .durations import to_millis
from .execution_context import set_current_agent
from .fibers import recover_fiber
from .handles.incoming_calls import answer_call, answer_stream
from .handles.operations import PREFIX
from .jobs import call_job
from .schedules import declared_jobs, run_on_start

__all__ = ["AgentResponder", "run_rules"]

AgentT = TypeVar("AgentT", bound=Agent)


class AgentResponder(Generic[AgentT]):
    """Serves an agent without a conversation: implements `runtime.api.Responder`."""

    def __init__(self, agent: AgentT) -> None:
        self.agent = agent

    @property
    def rules(self) -> Rules:
        return Rules(**run_rules(self.agent))

    def stream(self, call: TurnCall) -> AsyncIterator[str | Chunk]:
        """Refuse: only an AIChatAgent answers."""
        raise UsageError(f"unable to answer; {type(self.agent).__name__} is no AIChatAgent")

    def error_text(self, exc: BaseException) -> str:
        return "This agent does not chat."

    async def on_response(self, result: TurnResult) -> None:
        """Do nothing: there are no turns."""

    @property
    def wants_start(self) -> bool:
        return getattr(self.agent.on_start, "__func__", None) is not Agent.on_start

    async def on_start(self) -> None:
        set_current_agent(self.agent)
        await run_on_start(self.agent.on_start)

    @property
    def declared_jobs(self) -> Sequence[DeclaredJob]:
        return declared_jobs(type(self.agent))  # type: ignore[arg-type]  # mypy takes a class for one of its instances

    async def run_job(self, call: JobCall) -> None:
        set_current_agent(self.agent)
        if call.callback.startswith(PREFIX):  # a job of the framework's own, by the settings of the app
            await self.agent.app._run_own_job(self.agent, call)
        else:
            await call_job(self.agent, call)

    async def on_fiber_recovered(self, fiber: FiberRecord) -> None:
        set_current_agent(self.agent)
        await recover_fiber(self.agent, fiber)

    async def on_run_finished(self, record: RunRecord) -> None:
        set_current_agent(self.agent)
        await self.agent.on_agent_tool_finish(AgentToolRun.of(record), AgentToolResult.of(record))

    async def answer_call(self, call: MethodCall) -> bytes:
        return await answer_call(self.agent, call)

    def answer_stream(self, call: MethodCall) -> AsyncIterator[StreamItem]:
        return answer_stream(self.agent, call)

    def retire(self, why: AgentGone) -> None:
        self.agent._retire(why)


def run_rules(agent: Agent) -> dict[str, Any]:
    """Return the limits of an agent's class for its runs of agent tools, as fields of `Rules`."""
    limits = agent.agent_tool_limits
    return {
        "max_runs": limits.max_concurrent,
        "run_patience": None if limits.silence_timeout is None else to_millis(limits.silence_timeout),
        "has_run_hook": type(agent).on_agent_tool_finish is not HasAgentTools.on_agent_tool_finish,
    }
