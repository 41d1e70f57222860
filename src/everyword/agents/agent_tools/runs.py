"""Agents as tools: another agent does a part of the work, in a log of its own, and this one's pages watch it."""

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
    """The runs of sub-agents that work for an agent, as `self.agent_tools`, and reports of its own progress."""

    __slots__ = ("_agent",)

    def __init__(self, agent: HasAgentTools) -> None:
        self._agent = agent

    async def start(
        self, cls: type[AIChatAgent], input: Any, *, run_id: str | None = None, **options: Any
    ) -> AgentToolRun:
        """Start a detached run and return it as it stands; the options are those of `run_agent_tool`."""
        result = await self._agent.run_agent_tool(cls, input, run_id=run_id, **{**options, "detached": True})
        found = await self.get(result.run_id)
        assert found is not None
        return found

    async def get(self, run_id: str) -> AgentToolRun | None:
        """Return a run as it stands; None for an unknown one, or one of long ago."""
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
        """Follow what a run's sub-agent says, behind chunk `after`, to its end. Leaving changes nothing.

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
        """Tell how far this agent's turn is, to its pages and to those of the agent that it works for. Not kept.

        At most five times a second: what comes sooner is left out, but for a `fraction` of 1.

        Raises:
            UsageError: called outside of a turn of this agent.
        """
        self._agent._reported = await report_progress(
            self._agent._runtime.agent, self._agent._reported, fraction, message, phase, data
        )

    async def report_milestone(self, name: str, **said: Any) -> None:
        """Tell that something was reached; kept with the answer. `message`, `fraction`, `phase` and `data` go along.

        Raises:
            UsageError: called outside of a turn of this agent.
        """
        await report_milestone(self._agent._runtime.agent, name, said)


class HasAgentTools:
    """What an agent can do with sub-agents that work for it, one run each, named like the run."""

    _runtime: AgentRuntime
    _reported: tuple[str, float] | None = None
    """The request whose progress was reported last, and when."""

    agent_tool_limits: AgentToolLimits = AgentToolLimits()
    """How many sub-agents may work for this one, how deep, and how long they may be silent."""

    @property
    def agent_tools(self) -> AgentTools:
        """Runs of sub-agents that work as tools: start, list, get, follow and cancel them; report your own progress."""
        return AgentTools(self)

    async def on_agent_tool_start(self, run: AgentToolRun) -> None:
        """Hear that a run was started, before its sub-agent is at work."""

    async def on_agent_tool_finish(self, run: AgentToolRun, result: AgentToolResult) -> None:
        """Hear how a run ended: once, and once more if the process died while this ran. Detached runs end here."""

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
        """Let a sub-agent work on an input and return how that ended; at once if `detached`.

        A run id that is known is not run twice: it is waited for, or its end returned. Inside a turn, what is not
        detached ends with the turn. Failures are results, not exceptions.

        Args:
            cls: The sub-agent's class, an AIChatAgent.
            input: Text, or anything that JSON can carry.
            run_id: The run's and the sub-agent's name; a fresh one if not given.
            parent_tool_call_id: The tool call of this agent that pages show the run under.
            output_type: What the output must be; without it there are only words.
            input_preview: What pages show of the input, 500 characters at most.
            display: Anything for pages, as JSON.
            display_order: Where pages show it beside others of the same call.
            detached: Do not wait, and let it outlive the turn; `on_agent_tool_finish` hears of its end.

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
