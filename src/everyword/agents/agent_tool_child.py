"""Working as a tool: how a run's input becomes a question to a chat agent, and its answer what the run comes to."""

from __future__ import annotations

import inspect
import secrets
import time
from typing import Any, Final, Protocol

import msgspec

from ..errors import ChatError, UsageError
from ..messages.calls import is_open, tool_name, tool_parts
from ..messages.jsonvalues import plain_json
from ..messages.message import UIMessage
from ..runtime.api import AgentPort, RunAnswer, RunCall, RunQuestion, TurnCall, TurnResult
from .agent_tool_types import fitting, offered_output
from .current import turn_of_agent
from .result import SaveMessagesResult

__all__ = ["WorksAsTool", "run_answer", "run_question"]

PROGRESS_EVERY: Final = 0.2
"""Seconds between two reports of progress; what comes sooner is left out."""


class _Worker(Protocol):
    _reported: tuple[str, float] | None

    @property
    def _port(self) -> AgentPort: ...


class WorksAsTool:
    """What a chat agent may define and use when another runs it as a tool. All of it may be async."""

    _reported: tuple[str, float] | None = None

    def agent_tool_input(self, input: Any) -> Any:
        """Return the question that an input is: text, or messages. Must be the same for the same input."""
        return input if isinstance(input, str) else msgspec.json.format(msgspec.json.encode(input), indent=2).decode()

    def agent_tool_summary(self, result: SaveMessagesResult) -> Any:
        """Return what a completed turn comes to, in words: the text of its answer, which may be none."""
        return result.message.text if result.message is not None else ""

    def agent_tool_output(self, result: SaveMessagesResult) -> Any:
        """Return what a completed turn comes to as JSON, or None: then, if a type is asked for, the text is read."""
        return None

    def _run_marks(self, expects: str | None) -> dict[str, Any]:
        """Return what the body of a run's turn says of the type that is asked for."""
        return {}

    async def _run_output(self, expects: str | None, result: TurnResult) -> Any:
        """Return a completed turn's output, None if there is none."""
        return await _given(self.agent_tool_output(SaveMessagesResult.of(result)))

    async def report_progress(
        self: _Worker,
        *,
        fraction: float | None = None,
        message: str | None = None,
        phase: str | None = None,
        data: Any = None,
    ) -> None:
        """Say how far the turn is, to the pages of this agent and of the one that it works for. Not kept.

        At most five times a second: what comes sooner is left out, but for a `fraction` of 1.

        Raises:
            UsageError: called outside of a turn of this agent.
        """
        call, now = _turn(self._port), time.monotonic()
        is_soon = self._reported is not None and self._reported[0] == call.request
        if is_soon and self._reported is not None and now - self._reported[1] < PROGRESS_EVERY and (fraction or 0) < 1:
            return
        self._reported = (call.request, now)
        said = {"fraction": fraction, "message": message, "phase": phase, "data": plain_json(data)}
        told = {key: value for key, value in said.items() if value is not None}
        chunk = {"type": "data-agent-progress", "id": secrets.token_urlsafe(9), "transient": True, "data": told}
        await call.write(chunk)

    async def report_milestone(self: _Worker, name: str, **said: Any) -> None:
        """Say that something was reached; kept with the answer. `message`, `fraction`, `phase` and `data` go along.

        Raises:
            UsageError: called outside of a turn of this agent.
        """
        call = _turn(self._port)
        message = await call.message()
        before = sum(part["type"] == "data-agent-milestone" for part in message.parts) if message is not None else 0
        told = {"name": name, "sequence": before, "at": round(time.time() * 1000), **plain_json(said)}
        await call.write({"type": "data-agent-milestone", "id": f"milestone-{before}", "data": told})


def _turn(port: AgentPort) -> TurnCall:
    call = turn_of_agent(port.agent)
    if call is None:
        raise UsageError("unable to report progress; this is no turn of this agent")
    return call


# -- for the runtime -------------------------------------------------------------------------------------------------


async def run_question(agent: Any, call: RunCall) -> RunQuestion:
    """Return the turn that a run asks of an agent."""
    given = await _given(agent.agent_tool_input(call.input))
    if isinstance(given, str):
        given = [UIMessage(f"agent-tool-{call.run}-input", "user", [{"type": "text", "text": given}])]
    messages = [(each if isinstance(each, UIMessage) else UIMessage.from_dict(each)).to_dict() for each in given]
    return RunQuestion(messages, {"agentToolInput": call.input, **agent._run_marks(call.expects)})


async def run_answer(agent: Any, call: RunCall, result: TurnResult) -> RunAnswer:
    """Return what a completed turn of an agent comes to.

    Raises:
        ChatError: it waits for somebody's answer.
        BadInput: its output is not what was asked for.
    """
    message = result.message
    waiting = [tool_name(part) for part in tool_parts(message) if is_open(part)] if message is not None else []
    if waiting:
        raise ChatError(f"The sub-agent asks for an answer ({', '.join(waiting)}) that nobody can give while it works.")
    summary = str(await _given(agent.agent_tool_summary(SaveMessagesResult.of(result))))
    output = await agent._run_output(call.expects, result)
    if call.expects is None:
        return RunAnswer(summary, output)
    expected = offered_output(type(agent), call.expects)
    return RunAnswer(summary, _checked(expected, output if output is not None else _read(summary)))


def _checked(expected: Any, output: Any) -> Any:
    if expected is not None:  # nobody here may know the type after a restart: then who asked checks it
        fitting(expected, output)
    return plain_json(output)


def _read(text: str) -> Any:
    """Return the JSON that a text is, or the text itself."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


async def _given(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
