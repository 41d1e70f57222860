"""Toolsets of Pydantic AI as everyword tools: their calls are recorded, approved and repaired like all others."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from ...errors import ToolError, UsageError
from ...messages.repair_tool_calls import INTERRUPTED
from ..tools.definition import AnyTool, Tool, ToolContext
from ..tools.inputs import problems_text
from .model import import_pydantic_ai

__all__ = ["is_toolset", "opened_tools"]


def is_toolset(given: Any) -> bool:
    """Tell whether something is a toolset, without importing Pydantic AI."""
    return hasattr(given, "get_tools") and hasattr(given, "call_tool")


async def opened_tools(toolsets: Iterable[Any], stack: AsyncExitStack, *, agent: Any, model: Any) -> list[AnyTool]:
    """Enter the toolsets, and return their tools; their `deps` are the agent. They close with the stack.

    A tool of kind `external` is the page's, one of kind `unapproved` needs approval. A toolset that decides about
    approval call by call is asked first; wrapped in another one it is not found, and refuses its calls itself.
    """
    found: list[AnyTool] = []
    for toolset in toolsets:
        context = import_pydantic_ai("pydantic_ai.tools").RunContext(deps=agent, model=model, usage=_usage())
        await stack.enter_async_context(toolset)
        made = await toolset.get_tools(context)
        found += [_tool(toolset, each, context) for each in made.values()]
    return found


def _usage() -> Any:
    return import_pydantic_ai("pydantic_ai.usage").RunUsage()


def _tool(toolset: Any, made: Any, context: Any) -> AnyTool:
    definition = made.tool_def
    if definition.kind not in ("function", "external", "unapproved"):
        raise UsageError(
            f"unable to offer the tool {definition.name!r}; tools of kind {definition.kind} do not run here"
        )

    async def call(_call_context: ToolContext, **given: Any) -> Any:
        own = _of_call(toolset, made, context, _call_context)
        with import_pydantic_ai("pydantic_ai").Agent.using_thread_executor(_call_context.threads):
            return await _called(toolset, made, own, _call_context, given)

    return Tool(
        call,
        name=definition.name,
        description=definition.description or "",
        parameters=dict(definition.parameters_json_schema),
        needs_approval=_approval(toolset, made, context),
        client=definition.kind == "external",
        timeout=definition.timeout if definition.timeout is not None else getattr(toolset, "timeout", None),
    )


def _approval(toolset: Any, made: Any, context: Any) -> Any:
    """Return whether calls need approval: always, never, or a predicate for toolsets that decide call by call."""
    decides = getattr(toolset, "approval_required_func", None)
    if made.tool_def.kind == "unapproved" or decides is None:
        return made.tool_def.kind == "unapproved"

    def asks(**given: Any) -> Any:
        from pydantic import ValidationError

        try:
            arguments = made.args_validator.validate_python(given, context=context.validation_context)
        except ValidationError:
            return False  # the call will be refused, so it needs no approval
        return decides(context, made.tool_def, arguments)

    return asks


def _of_call(toolset: Any, made: Any, context: Any, call: ToolContext) -> Any:
    # The call was approved if it had to be. Where we could not ask, the toolset refuses the call itself.
    is_asked_for = made.tool_def.kind == "unapproved" or hasattr(toolset, "approval_required_func")
    return replace(
        context,
        tool_call_id=call.call_id,
        tool_name=made.tool_def.name,
        max_retries=made.max_retries,
        tool_call_approved=is_asked_for,
    )


async def _called(toolset: Any, made: Any, context: Any, call: ToolContext, given: dict[str, Any]) -> Any:
    from pydantic import ValidationError

    name = made.tool_def.name
    try:
        arguments = made.args_validator.validate_python(given, context=context.validation_context)
    except ValidationError as error:  # only the arguments': one that the tool raises may quote anything
        raise ToolError(f"The input of {name} does not fit. {problems_text(error.errors())}") from None
    if made.args_validator_func is not None:
        checked = made.args_validator_func(context, **arguments)
        if hasattr(checked, "__await__"):
            await checked
    try:
        output = await toolset.call_tool(name, arguments, context, made)
    except import_pydantic_ai("pydantic_ai.exceptions").ModelRetry as error:
        if isinstance(error.__context__, TimeoutError) and getattr(call.threads, "has_begun", False):
            raise ToolError(INTERRUPTED) from error  # the toolset's own timeout, and the thread goes on
        raise  # it reaches the model as it is
    return output.return_value if hasattr(output, "return_value") else output
