"""Turns that must end with an object of a given type. The model calls a tool with it, and the tool checks it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ...errors import CallPending, ChatError, ToolError, UsageError
from ...messages.json_values import encode_json
from ...messages.message import UIMessage
from ...messages.tool_calls import is_open, tool_name, tool_parts
from ...runtime.api import Outcome, TurnResult
from ..agent_tools.types import type_name
from ..tools.definition import AnyTool, Tool
from ..tools.inputs import problems_text
from ..turn import Turn

__all__ = ["MARK", "OUTPUT_TOOL", "REJECTED_TEXT", "ExpectedOutput", "expect", "expected_type", "forget"]

OUTPUT_TOOL: Final = "final_result"
MARK: Final = "everyword:output"
"""The field of a turn's body that names the type: what the next process knows of it."""
FORMER_MARK: Final = "holdfast:output"
"""The same field of turns that were stored while the package was called holdfast."""

REJECTED_TEXT: Final = "The answer did not have the form that was asked for."

_awaited: dict[tuple[str, str], Any] = {}
"""(agent, request) → the type, for turns whose callers wait in this process."""


class ExpectedOutput:
    """The object that a turn has to end with."""

    def __init__(self, output_type: Any) -> None:
        from pydantic import PydanticUserError, TypeAdapter, create_model

        self.name = type_name(output_type)
        self.rejections = 0
        try:
            adapter: TypeAdapter[Any] = TypeAdapter(output_type)
            schema = adapter.json_schema()
            said = schema.get("description")
            self._is_wrapped = schema.get("type") != "object"
            if self._is_wrapped:  # a tool's input is an object, whatever the answer is
                adapter = TypeAdapter(create_model("Response", response=(output_type, ...)))
                schema = adapter.json_schema()
        except PydanticUserError as error:
            raise UsageError(f"unable to ask for {self.name}; {error.message}") from error
        self._adapter, self._schema = adapter, schema
        self._description = said or "Give the final answer. Calling this ends the turn."

    def tool(self) -> AnyTool:
        """Return the tool that takes the object; if it does not fit, the model reads why and may try again."""

        async def take(**given: Any) -> str:
            self.check(given)
            return "taken"

        return Tool(take, name=OUTPUT_TOOL, description=self._description, parameters=self._schema, idempotent=True)

    def check(self, given: Any) -> Any:
        """Return the object that a JSON value stands for.

        Raises:
            ToolError: it does not fit; the text says where.
        """
        from pydantic import ValidationError

        try:
            value = self._adapter.validate_json(encode_json(given))
        except ValidationError as error:
            self.rejections += 1
            raise ToolError(f"The result does not fit {self.name}. {problems_text(error.errors())}") from None
        return value.response if self._is_wrapped else value

    def is_given(self, message: UIMessage | None) -> bool:
        """Tell whether the answer has its object."""
        return message is not None and _accepted_input(message) is not None

    def of(self, result: TurnResult) -> Any:
        """Return the object that a turn ended with.

        Raises:
            ChatError: the turn did not complete; the text is what clients are shown.
            CallPending: a tool call waits for a person or the page first.
        """
        if result.outcome is not Outcome.COMPLETED:
            raise ChatError(result.error or f"The turn was {result.outcome.value}.")
        given = _accepted_input(result.message) if result.message is not None else None
        if given is not None:
            return self.check(given)
        if result.message is not None and any(map(is_open, tool_parts(result.message))):
            raise CallPending(f"unable to return {self.name}; a call of the answer waits for a person or the page")
        raise ChatError(REJECTED_TEXT)


def _accepted_input(message: UIMessage) -> Any:
    taken = (
        part.get("input")
        for part in tool_parts(message)
        if tool_name(part) == OUTPUT_TOOL and part.get("state") == "output-available"
    )
    return next(taken, None)


def expect(agent: str, request: str, output_type: Any) -> None:
    """Remember what a turn of this process has to end with."""
    _awaited[agent, request] = output_type


def forget(agent: str, request: str) -> None:
    """Forget it again."""
    _awaited.pop((agent, request), None)


def expected_type(turn: Turn, declared: Sequence[Any]) -> Any:
    """Return the type that a turn has to end with, or None.

    Raises:
        UsageError: the process that asked is gone, and the agent does not declare the type.
    """
    found = _awaited.get((turn._call.agent, turn.id))
    name = turn.body.get(MARK, turn.body.get(FORMER_MARK))
    if found is not None or name is None:
        return found
    for each in declared:
        if type_name(each) == name:
            return each
    raise UsageError(f"unable to check the output {name!r} after a restart; list its type in the agent's output_types")
