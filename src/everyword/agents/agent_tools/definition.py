"""`agent_tool`: a tool of a model whose calls are run by a sub-agent."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

from ...errors import BadInput
from ...messages.json_values import plain_json
from ..kinds import agent_kind
from ..sub_agent_classes import check_child
from ..tools.calls import ToolContext
from ..tools.definition import Approval, Tool
from ..tools.inputs import ToolInputs
from .child import check_tool_class
from .types import AgentToolResult, register_output_type, validate_as

if TYPE_CHECKING:
    from ..chat import AIChatAgent

__all__ = ["AgentTool", "agent_tool"]


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
            register_output_type(child, output_type)

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


class _AgentInputs(ToolInputs):
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
            made = validate_as(self._type, value)
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

    The model reads the sub-agent's answer, or an object of `output_type`; for a failure, the error and whether trying
    again may help.

    Args:
        child: The sub-agent's class, an AIChatAgent.
        description: What the model reads of it; the first paragraph of the class's docstring if not given.
        name: What the model calls it; the class's name in snake case if not given.
        input_type: What the model must give: text, or a Pydantic model, a dataclass or another type.
        output_type: What the sub-agent must give.
        display: Anything for pages, as JSON.
        detached: Do not wait for the result: the model reads that it is running.
        needs_approval: As for `@tool`.

    Raises:
        UsageError: the class cannot be used.
    """
    check_tool_class(child)
    check_child(child, "run")
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
