"""A plain agent before the runtime: it has no conversation, and so nothing to answer."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ..errors import UsageError
from ..messages.message import Chunk
from ..runtime.api import JobCall, Rules, TurnCall, TurnResult
from .agent import Agent, running_as
from .jobs import call_job

__all__ = ["AgentResponder"]


class AgentResponder:
    """Lets an Agent that is no chat be loaded: implements `runtime.api.Responder`."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    @property
    def rules(self) -> Rules:
        return Rules()

    def stream(self, call: TurnCall) -> AsyncIterator[str | Chunk]:
        """Refuse: only an AIChatAgent answers."""
        raise UsageError(f"unable to answer; {type(self.agent).__name__} is no AIChatAgent")

    def error_text(self, exc: BaseException) -> str:
        return "This agent does not chat."

    async def on_response(self, result: TurnResult) -> None:
        """Hear of nothing: there are no turns."""

    async def on_start(self) -> None:
        running_as(self.agent)
        await self.agent.on_start()

    async def run_job(self, call: JobCall) -> None:
        running_as(self.agent)
        await call_job(self.agent, call)
