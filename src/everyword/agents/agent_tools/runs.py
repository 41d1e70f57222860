"""Agents as tools: another agent does a part of the work, in a log of its own, and this one's pages watch it."""

from __future__ import annotations

import asyncio
import functools
import logging
import math
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

from ...errors import BadInput, UsageError
from ...ids import AgentId, CallId, RunId, agent_depth
from ...messages.json_values import encode_json, plain_json
from ...runtime.agent_runtime import AgentRuntime
from ...runtime.api import RunRequest
from ..execution_context import turn_of_agent
from ..kinds import agent_kind
from ..limits import AgentToolLimits
from ..sub_agent_classes import check_child, remember_child
from ..tools.definition import Approval, Tool, ToolContext, _Inputs
from .child import WorksAsTool
from .reports import report_milestone, report_progress
from .types import AgentToolChunk, AgentToolResult, AgentToolRun, fitting, offer_output

if TYPE_CHECKING:
    from ..chat import AIChatAgent

__all__ = ["AgentTool", "AgentTools", "HasAgentTools", "agent_tool"]

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
        _check(cls, run)
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
            expects=offer_output(cls, output_type) if output_type is not None else None,
            refusal=_why_too_deep(self._runtime.agent, self.agent_tool_limits.max_depth),
        )
        record, is_new = await self._runtime.runs.start(request)
        if is_new:
            await _tell_start(self, AgentToolRun.of(record))
        if not detached and record.status == "running":
            with turn.working() if turn is not None else nullcontext():  # its silence is not the model's
                record = await _ended(self._runtime, run, is_bound=turn is not None)
        return AgentToolResult.of(record, output_type)


def _check(cls: type[Any], run: RunId) -> None:
    if not issubclass(cls, WorksAsTool):
        raise UsageError(f"unable to use {cls.__name__} as a tool; only an AIChatAgent answers")
    check_child(cls, run)


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


# -- as a tool of a model ------------------------------------------------------------------------------------------


class AgentTool(Tool[..., Any]):
    """A sub-agent that a model may call. Made by `agent_tool`; for the `tools` of an agent, or as one of its members.

    Each call is a run of its own. After a crash the same call finds its run again.
    """

    def __init__(
        self,
        child: type[AIChatAgent],
        *,
        name: str,
        description: str,
        input_type: Any,
        output_type: Any,
        display: Any,
        detached: bool,
        needs_approval: Approval,
    ) -> None:
        options: dict[str, Any] = {"idempotent": True, "needs_approval": needs_approval}
        # Its own limit is `AgentToolLimits.silence_timeout`, which knows that the sub-agent makes progress.
        super().__init__(self._call, name=name, description=description, timeout=math.inf, **options)
        self.child_class = child
        self._output_type, self._display, self._detached = output_type, display, detached
        self._inputs = _AgentInputs(name, self._call, input_type)
        if output_type is not None:
            offer_output(child, output_type)

    async def _call(self, input: Any, context: ToolContext) -> Any:
        result: AgentToolResult = await context.agent.run_agent_tool(
            self.child_class,
            input,
            run_id=f"agent-tool:{context.call_id}",
            parent_tool_call_id=context.call_id,
            output_type=self._output_type,
            display=self._display,
            detached=self._detached,
        )
        return result.for_model(has_output=self._output_type is not None)


class _AgentInputs(_Inputs):
    """The input of an agent tool: a type of the user's, wrapped in an object if it is none itself."""

    def __init__(self, name: str, function: Any, input_type: Any) -> None:
        super().__init__(name, function, None)
        self._type = input_type

    @functools.cached_property
    def schema(self) -> dict[str, Any]:
        made = self._own_schema
        return {"type": "object", "properties": {"input": made}, "required": ["input"]} if self._is_wrapped else made

    @functools.cached_property
    def _own_schema(self) -> dict[str, Any]:
        from pydantic import TypeAdapter

        return TypeAdapter(self._type).json_schema()

    @property
    def _is_wrapped(self) -> bool:
        return self._own_schema.get("type") != "object"

    def check(self, value: Any) -> dict[str, Any]:
        if self._is_wrapped:
            if not isinstance(value, dict) or "input" not in value:
                raise BadInput(f"The input of {self._name} must be an object with `input`.")
            value = value["input"]
        try:
            made = fitting(self._type, value)
        except BadInput as exc:
            raise BadInput(str(exc).replace("The output does", f"The input of {self._name} does", 1)) from None
        return {"input": plain_json(made)}


def agent_tool(
    child: type[AIChatAgent],
    *,
    description: str | None = None,
    name: str | None = None,
    input_type: Any = str,
    output_type: Any = None,
    display: Any = None,
    detached: bool = False,
    needs_approval: Approval = False,
) -> AgentTool:
    """Offer an agent to the models of another: `tools = [agent_tool(Researcher, description="Looks things up.")]`.

    The model reads the sub-agent's answer, or an object of `output_type`; of a failure, what went wrong and whether
    trying again may help.

    Args:
        child: The sub-agent's class, an AIChatAgent.
        description: What the model reads of it; the first paragraph of the class's docstring if not given.
        name: What the model calls it; the class's name in snake case if not given.
        input_type: What the model must give: text, or a Pydantic model, a dataclass or another type.
        output_type: What the sub-agent must give.
        display: Anything for pages, as JSON.
        detached: Do not wait for it: the model is told that it runs.
        needs_approval: As for `@tool`.

    Raises:
        UsageError: the class cannot be used.
    """
    _check(child, RunId("run"))
    text = description if description is not None else (child.__doc__ or "").strip().split("\n\n")[0]
    return AgentTool(
        child,
        name=name if name is not None else agent_kind(child).replace("-", "_"),
        description=" ".join(text.split()),
        input_type=input_type,
        output_type=output_type,
        display=display,
        detached=detached,
        needs_approval=needs_approval,
    )
