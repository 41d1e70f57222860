"""The client's own tools at work: which calls were taken up, and which were answered here."""

from __future__ import annotations

import logging
from typing import Any

from ..errors import is_public, public_text
from ..messages.message import Part, UIMessage
from ..messages.tool_calls import tool_name, tool_parts
from .agent import AgentClient
from .protocol.chat import ChatProtocol
from .tools import ClientTool

__all__ = ["ToolRunner"]

log = logging.getLogger("everyword.client")


class ToolRunner:
    """Runs the calls that answers to this client's own questions make, each once."""

    def __init__(self, protocol: ChatProtocol, agent: AgentClient, tools: dict[str, ClientTool]) -> None:
        self._protocol, self._agent, self._tools = protocol, agent, tools
        self._started: set[str] = set()
        self._busy: set[str] = set()
        self._answered: set[str] = set()

    def look(self) -> None:
        """Start what is new: called after everything that happens."""
        messages = self._protocol.messages
        mine = {self._protocol.answers.get(request) for request in self._protocol.questions}
        for message in messages[-8:]:
            if message["id"] in mine:
                for part in tool_parts(UIMessage.from_dict(message)):
                    self._consider(part)

    def _consider(self, part: Part) -> None:
        call, tool = part.get("toolCallId"), self._tools.get(tool_name(part))
        if tool is None or call is None or call in self._started or part.get("state") != "input-available":
            return
        self._started.add(call)
        self._busy.add(call)
        self._agent.spawn(self._run(call, tool, part.get("input")))

    async def _run(self, call: str, tool: ClientTool, given: object) -> None:
        declared = [each.declaration for each in self._tools.values()]
        more: dict[str, Any] = {"toolName": tool.name, "clientTools": declared}
        try:
            output = await tool.run(given)
        except Exception as error:
            if not is_public(error):
                log.warning("tool %s raised", tool.name, exc_info=error)
            self._protocol.answer(call, error=public_text(error, f"The tool {tool.name} failed."), **more)
        else:
            self._protocol.answer(call, output, **more)
        self._busy.discard(call)
        self.note(call)
        self._agent.connection.flush()

    def note(self, call: str) -> None:
        """Remember that a call was answered here, so that whoever follows its turn goes on with it."""
        self._answered.add(call)

    def is_busy(self, calls: set[str]) -> bool:
        return bool(self._busy & calls)

    def continued(self) -> str | None:
        """Return the newest request of a message whose calls were answered here and not followed yet."""
        for message in reversed(self._protocol.messages):
            if self.take({part["toolCallId"] for part in tool_parts(UIMessage.from_dict(message))}):
                answers = self._protocol.answers.items()
                return next((request for request, name in reversed(answers) if name == message["id"]), None)
        return None

    def take(self, calls: set[str]) -> bool:
        """Tell whether any of the calls was answered here since it was last asked."""
        taken = self._answered & calls
        self._answered -= taken
        return bool(taken)
