"""Runs of agent tools: a sub-agent does a part of the work, in its own log, and the parent's clients can watch it."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

from ...ids import AgentId, CallId, RunId, agent_depth
from ...messages.json_values import encode_json, plain_json
from ...runtime.agent_runtime import AgentRuntime
from ...runtime.api import RunRequest
from ..execution_context import turn_of_agent
from ..kinds import agent_kind
from ..limits import AgentToolLimits
from ..sub_agent_classes import check_child, remember_child
from .child import check_tool_class
from .reports import report_milestone, report_progress
from .types import AgentToolChunk, AgentToolResult, AgentToolRun, register_output_type

if TYPE_CHECKING:
    from ..chat import AIChatAgent

__all__ = ["AgentTools", "HasAgentTools"]

log = logging.getLogger("everyword.agents")

LONGEST_PREVIEW: Final = 500
NOT_AWAITED: Final = "Its caller does not wait for it any longer."
CANCELLED: Final = "It was cancelled."


class AgentTools:
    """The runs of an agent's agent tools, as `self.agent_tools`, and reports of its own progress."""

    __slots__ = ("_agent",)

    def __init__(self, agent: HasAgentTools) -> None:
        self._agent = agent

    async def start(
        self, cls: type[AIChatAgent], input: Any, *, run_id: str | None = None, **options: Any
    ) -> AgentToolRun:
        """Start a detached run and return it; the options are those of `run_agent_tool`."""
        result = await self._agent.run_agent_tool(cls, input, run_id=run_id, **{**options, "detached": True})
        found = await self.get(result.run_id)
        assert found is not None
        return found

    async def get(self, run_id: str) -> AgentToolRun | None:
        """Return a run as it is now; None if it is unknown, or ended long ago."""
        record = await self._agent._runtime.runs.find(RunId(run_id))
        return AgentToolRun.of(record) if record is not None else None

    async def list(self) -> Sequence[AgentToolRun]:
        """Return the runs, oldest first: all that are open, and the newest 128 of those that have ended."""
        return [AgentToolRun.of(record) for record in await self._agent._runtime.runs.all()]

    async def cancel(self, run_id: str, reason: str = CANCELLED) -> AgentToolRun | None:
        """Stop a run and return how it ended; one that had ended stays as it was. None for an unknown one."""
        record = await self._agent._runtime.runs.cancel(RunId(run_id), reason)
        return AgentToolRun.of(record) if record is not None else None

    async def tail(self, run_id: str, after: int = -1) -> AsyncIterator[AgentToolChunk]:
        """Yield the chunks of a run's sub-agent after chunk `after`, to its end. Leaving early does not stop the run.

        Raises:
            Rejected: there is no such run.
        """
        async for chunk in self._agent._runtime.runs.tail(RunId(run_id), after):
            yield AgentToolChunk(chunk.index, chunk.body)

    async def report_progress(
        self,
        *,
        fraction: float | None = None,
        message: str | None = None,
        phase: str | None = None,
        data: Any = None,
    ) -> None:
        """Send the progress of this agent's turn to its clients and to those of its parent. Progress is not stored.

        Reports beyond five per second are dropped, except those with a `fraction` of 1.

        Raises:
            UsageError: called outside of a turn of this agent.
        """
        self._agent._reported = await report_progress(
            self._agent._runtime.agent, self._agent._reported, fraction, message, phase, data
        )

    async def report_milestone(self, name: str, **said: Any) -> None:
        """Add a milestone to the answer. It is stored, with `message`, `fraction`, `phase` and `data` if given.

        Raises:
            UsageError: called outside of a turn of this agent.
        """
        await report_milestone(self._agent._runtime.agent, name, said)


class HasAgentTools:
    """The agent tools of an agent: each run is done by one sub-agent, whose name is the id of the run."""

    _runtime: AgentRuntime
    _reported: tuple[str, float] | None = None
    """The request whose progress was reported last, and when."""

    agent_tool_limits: AgentToolLimits = AgentToolLimits()
    """How many runs may be active, how deep they may be nested, and how long they may be silent."""

    @property
    def agent_tools(self) -> AgentTools:
        """Runs of sub-agents that work as tools: start, list, get, follow and cancel them; report your own progress."""
        return AgentTools(self)

    async def on_agent_tool_start(self, run: AgentToolRun) -> None:
        """Called when a run was started, before its sub-agent begins."""

    async def on_agent_tool_finish(self, run: AgentToolRun, result: AgentToolResult) -> None:
        """Called when a run has ended, also a detached one; once, and again if the process died during this call."""

    async def run_agent_tool(
        self,
        cls: type[AIChatAgent],
        input: Any,
        *,
        run_id: str | None = None,
        parent_tool_call_id: str | None = None,
        output_type: Any = None,
        input_preview: str | None = None,
        display: Any = None,
        display_order: int | None = None,
        detached: bool = False,
    ) -> AgentToolResult:
        """Let a sub-agent work on an input and return the result; returns at once if `detached`.

        A known run id is not run twice: the run is waited for, or its result is returned. Inside a turn, a run that is
        not detached ends with the turn. Failures are results, not exceptions.

        Args:
            cls: The sub-agent's class, an AIChatAgent.
            input: Text, or any other JSON value.
            run_id: The run's and the sub-agent's name; a fresh one if not given.
            parent_tool_call_id: The tool call of this agent that pages show the run under.
            output_type: The type that the output must have; without it the result is text only.
            input_preview: What pages show of the input, 500 characters at most.
            display: Anything for pages, as JSON.
            display_order: Where pages show it beside others of the same call.
            detached: Do not wait, and let it outlive the turn; `on_agent_tool_finish` is called when it ends.

        Raises:
            UsageError: the class or the run id cannot be used.
        """
        run = RunId(run_id if run_id is not None else secrets.token_urlsafe(9))
        check_tool_class(cls)
        check_child(cls, run)
        remember_child(type(self), cls)
        given, turn = plain_json(input), turn_of_agent(self._runtime.agent)
        request = RunRequest(
            run,
            agent_kind(cls),
            given,
            call=CallId(parent_tool_call_id) if parent_tool_call_id is not None else None,
            within=turn.turn if turn is not None and not detached else None,
            preview=_preview(given if input_preview is None else input_preview),
            order=display_order,
            display=plain_json(display),
            is_detached=detached,
            expects=register_output_type(cls, output_type) if output_type is not None else None,
            refusal=_why_too_deep(self._runtime.agent, self.agent_tool_limits.max_depth),
        )
        record, is_new = await self._runtime.runs.start(request)
        if is_new:
            await _tell_start(self, AgentToolRun.of(record))
        if not detached and record.status == "running":
            with turn.working() if turn is not None else nullcontext():  # its silence is not the model's
                record = await _ended(self._runtime, run, is_bound=turn is not None)
        return AgentToolResult.of(record, output_type)


def _preview(given: Any) -> str | None:
    if given is None:
        return None
    text = given if isinstance(given, str) else encode_json(given).decode()
    return text if len(text) <= LONGEST_PREVIEW else text[: LONGEST_PREVIEW - 1] + "…"


def _why_too_deep(agent: AgentId, limit: int) -> str | None:
    if agent_depth(agent) < limit:
        return None
    return f"AgentToolLimits.max_depth ({limit}) exceeded: {limit} agents stand above this one already"


async def _tell_start(parent: HasAgentTools, run: AgentToolRun) -> None:
    try:
        await parent.on_agent_tool_start(run)
    except Exception:
        log.exception("on_agent_tool_start of %r raised for run %s", parent, run.run_id)


async def _ended(runtime: AgentRuntime, run: RunId, *, is_bound: bool) -> Any:
    try:
        return await runtime.runs.wait(run)
    except asyncio.CancelledError:
        if not is_bound:  # a run that is bound to a turn ends with it, and a later attempt finds it again
            runtime.runs.abandon(run, NOT_AWAITED)
        raise
