"""Turn: what `on_chat_message` is given, one attempt at one turn."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from ..errors import CallPending, ChatError, UsageError
from ..messages.chunks import known_chunk
from ..messages.message import Part
from ..messages.tool_calls import find_call, tool_name
from ..principals import Principal
from ..runtime.api import CancelToken, TurnCall
from .tools.discovery import tools_of
from .tools.steps import Steps, ToolRunner, is_final
from .tools.threads import ToolThreads

__all__ = ["Turn"]


class Turn:
    """One attempt at a turn.

    `id` is the request id, `body` the client's own fields, `attempt` counts from 1. After a crash the same turn is
    tried again with a higher `attempt`, and the answer so far is the last of `agent.messages`: continue it.
    """

    def __init__(self, call: TurnCall, *, agent: Any = None, threads: ToolThreads | None = None) -> None:
        self._call, self._agent, self._threads = call, agent, threads
        self._calls_made = 0

    @cached_property
    def _tool_runner(self) -> ToolRunner:
        """Runs the tools. Made at first use: it refers to the turn, and the cycle would wait for the collector."""
        tools = tools_of(self._agent) if self._agent is not None else {}
        return ToolRunner(self._call, tools, agent=self._agent, turn=self, threads=self._threads)

    @property
    def id(self) -> str:
        """The request id, the same in every attempt."""
        return self._call.request

    @property
    def message_id(self) -> str:
        """The id of the assistant message that this turn writes."""
        return self._call.message_id

    @property
    def trigger(self) -> str:
        """`submit-message` or `regenerate-message`, as the client sent it; the framework does not use it."""
        return self._call.trigger

    @property
    def attempt(self) -> int:
        """Which attempt at the turn this is, from 1 on."""
        return self._call.attempt

    @property
    def continuation(self) -> bool:
        """Whether the answer continues an existing message."""
        return self._call.is_continuation or self._call.partial is not None

    @cached_property
    def principal(self) -> Principal | None:
        """The principal that asked, the same in every attempt; None if server code asked without a principal.

        It stays the same when the answer continues after an approval or a tool's result.
        """
        return Principal.of(self._call.principal) if self._call.principal is not None else None

    @property
    def body(self) -> dict[str, Any]:
        """The client's own fields beside the messages; empty when there are none."""
        return self._call.body if isinstance(self._call.body, dict) else {}

    @property
    def client_tools(self) -> list[dict[str, Any]]:
        """The tools that the page offers to run: name, description, parameters."""
        return self._call.client_tools if isinstance(self._call.client_tools, list) else []

    @property
    def cancelled(self) -> CancelToken:
        """Set when the turn is to stop. Check it, await it, or call `raise_if_set()`."""
        return self._call.cancelled

    @property
    def abort_signal(self) -> CancelToken:
        """The same as `cancelled`, under the name that users of the original know."""
        return self._call.cancelled

    @property
    def tools(self) -> list[dict[str, Any]]:
        """`{name, description, parameters}` of every tool that the model may call, the page's included."""
        return self._tool_runner.definitions()

    def steps(self, max_steps: int = 20) -> Steps:
        """Answer with tools: each step is a question to the model; what it calls is run before the next.

        Calls that were approved, or that a crash left open, are settled before the first step.
        """
        return Steps(self._tool_runner, max_steps)

    async def is_steered(self) -> bool:
        """Tell whether a question waits that should be read now (`message_concurrency = "steer"`).

        `steps()` checks this before every step. In your own loop, check it where you could stop, and return if it is
        True: the answer ends there, and the question is answered next, with everything done so far before it.
        """
        return await self._call.is_steered()

    async def call_tool(self, name: str, /, **given: Any) -> Any:
        """Run one of the agent's tools as part of the answer, and return its output.

        The same call in a later attempt, or when the turn goes on after an approval, returns what is recorded instead
        of running twice: calls are known by their order, name and input.

        Raises:
            CallPending: a person or the page has to answer first; do not catch it, so that the turn ends here.
            ChatError: the tool failed; the text is what clients are shown of it.
        """
        self._calls_made += 1
        part = await self._announced(f"{self._call.message_id}-{self._calls_made}", name, given)
        if not is_final(part) and not self._tool_runner.is_answered_elsewhere(part):
            await self._tool_runner.settle(part)
            part = await self._part(part["toolCallId"]) or part
        if await self._call.is_held():
            raise CallPending(f"unable to go on; the client that answered {name} goes on by itself")
        match part.get("state"):
            case "output-available":
                return part.get("output")
            case "output-error":
                raise ChatError(part.get("errorText") or f"The tool {name} failed.")
            case "output-denied":
                raise ChatError(f"The call of {name} was not approved.")
            case _:
                raise CallPending(f"unable to go on; the call of {name} waits for an answer")

    async def _announced(self, call_id: str, name: str, given: dict[str, Any]) -> Part:
        """Return the part of this call, announcing it if the answer does not have it yet."""
        while (part := await self._part(call_id)) is not None:
            if tool_name(part) == name and part.get("input") == given:
                return part
            call_id += "+"
        chunk = {"type": "tool-input-available", "toolCallId": call_id, "toolName": name, "input": given}
        await self._call.write(chunk)
        part = await self._part(call_id)
        if part is None:
            raise UsageError(f"unable to call {name!r}; its input is not JSON")
        return part

    async def _part(self, call_id: str) -> Part | None:
        message = await self._call.message()
        return find_call(message, call_id) if message is not None else None

    async def _aclose(self) -> None:
        """End the steps that the answer left early, and the calls that run in them."""
        if "_tool_runner" in vars(self):
            await self._tool_runner.aclose()

    async def write(self, chunk: Any) -> None:
        """Add a chunk to the answer, beside the returned stream: a data part, a source, metadata.

        Raises:
            BadChunk: it is no chunk, or of a type that no client knows.
        """
        await self._call.write(known_chunk(chunk))

    def __repr__(self) -> str:
        return f"Turn(id={self.id!r}, attempt={self.attempt})"
