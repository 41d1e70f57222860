"""A chat agent that works as a tool: makes a question from a run's input, and the run's output from the answer."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec

from ...errors import ChatError, UsageError
from ...messages.json_values import plain_json
from ...messages.message import UIMessage
from ...messages.tool_calls import is_open, tool_name, tool_parts
from ...runtime.api import WITHDRAWN, RunAnswer, RunCall, RunQuestion, TurnResult
from ..save_messages_result import SaveMessagesResult
from .types import AgentToolOutput, find_output_type, validate_as

__all__ = ["WorksAsTool", "check_tool_class", "run_answer", "run_question"]


class WorksAsTool:
    """Hooks of a chat agent that another agent runs as a tool. All of them may be async."""

    def agent_tool_input(self, input: Any) -> Any:
        """Return the question for an input: text, or messages. Must return the same for the same input."""
        return input if isinstance(input, str) else msgspec.json.format(msgspec.json.encode(input), indent=2).decode()

    def agent_tool_output(self, result: SaveMessagesResult) -> Any:
        """Return the output of a completed turn: text, by default that of the answer, or an `AgentToolOutput`.

        If the parent expects a type and the output is None, the text is parsed as JSON.
        """
        return result.message.text if result.message is not None else ""

    def _run_marks(self, expects: str | None) -> dict[str, Any]:
        """Return the fields that name the expected type in the body of a run's turn."""
        return {}

    async def _run_output(self, expects: str | None, result: TurnResult) -> AgentToolOutput:
        """Return the output of a completed turn."""
        given = await _given(self.agent_tool_output(SaveMessagesResult.of(result)))
        return given if isinstance(given, AgentToolOutput) else AgentToolOutput(str(given))


def check_tool_class(cls: type[Any]) -> None:
    """Raise UsageError unless agents of this class can work as tools."""
    if not issubclass(cls, WorksAsTool):
        raise UsageError(f"unable to use {cls.__name__} as a tool; only an AIChatAgent answers")


# -- for the runtime -------------------------------------------------------------------------------------------------


async def run_question(agent: Any, call: RunCall) -> RunQuestion:
    """Return the messages and the body of the turn for a run."""
    given = await _given(agent.agent_tool_input(call.input))
    if isinstance(given, str):
        given = [UIMessage(f"agent-tool-{call.run}-input", "user", [{"type": "text", "text": given}])]
    messages = [(each if isinstance(each, UIMessage) else UIMessage.from_dict(each)).to_dict() for each in given]
    return RunQuestion(messages, {"agentToolInput": call.input, **agent._run_marks(call.expects)})


async def run_answer(agent: Any, call: RunCall, result: TurnResult) -> RunAnswer:
    """Return the output of a run whose turn has completed.

    Raises:
        ChatError: a tool call of the turn waits for an answer.
        BadInput: the output does not have the expected type.
    """
    message = result.message
    waiting = [part for part in tool_parts(message) if is_open(part) or _is_withdrawn(part)] if message else []
    if waiting:
        names = ", ".join(tool_name(part) for part in waiting)
        raise ChatError(f"The sub-agent asks for an answer ({names}) that cannot be given while it works as a tool.")
    given: AgentToolOutput = await agent._run_output(call.expects, result)
    if call.expects is None:
        return RunAnswer(given.summary, given.output)
    expected = find_output_type(type(agent), call.expects)
    output = given.output if given.output is not None else _read(given.summary)
    return RunAnswer(given.summary, _checked(expected, output))


def _is_withdrawn(part: dict[str, Any]) -> bool:
    """Return whether the call asked for an approval, which the end of its turn has withdrawn."""
    return part.get("state") == "output-denied" and part.get("approval", {}).get("reason") == WITHDRAWN


def _checked(expected: Any, output: Any) -> Any:
    if expected is not None:  # unknown here after a restart: then the parent checks it
        validate_as(expected, output)
    return plain_json(output)


def _read(text: str) -> Any:
    """Return the JSON that a text is, or the text itself."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


async def _given(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
