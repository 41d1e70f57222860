"""Runs the tools that a client offers to the model."""

from __future__ import annotations

import logging
from typing import Any

from ..errors import is_public, public_text
from ..messages.message import Part, UIMessage
from ..messages.tool_calls import tool_name, tool_parts
from .agent import AgentClient
from .protocol.chat import ChatProtocol
from .tools import ClientTool

__all__ = ["ClientToolRunner"]

log = logging.getLogger("everyword.client")

_NEWEST_MESSAGES = 8
"""How many messages from the end of the conversation are searched for new calls."""


class ClientToolRunner:
    """Runs each call of a client tool once, if it is in an answer to a request of this client.

    It also remembers which calls this client has answered, by a tool or by hand: their turns continue, and the reply
    that follows the turn has to follow the continuation too.
    """

    def __init__(self, protocol: ChatProtocol, agent: AgentClient, tools: dict[str, ClientTool]) -> None:
        self._protocol, self._agent, self._tools = protocol, agent, tools
        self._started: set[str] = set()
        self._running: set[str] = set()
        self._answered: set[str] = set()

    def start_calls(self) -> None:
        """Start new calls. Called after every event of the connection."""
        messages = self._protocol.messages
        mine = {request.answer_id for request in self._protocol.requests.values() if request.is_mine}
        for message in messages[-_NEWEST_MESSAGES:]:
            if message["id"] in mine:
                for part in tool_parts(UIMessage.from_dict(message)):
                    self._start(part)

    def _start(self, part: Part) -> None:
        call, tool = part.get("toolCallId"), self._tools.get(tool_name(part))
        if tool is None or call is None or call in self._started or part.get("state") != "input-available":
            return
        self._started.add(call)
        self._running.add(call)
        self._agent.spawn(self._run(call, tool, part.get("input")))

    async def _run(self, call: str, tool: ClientTool, given: object) -> None:
        declared = [each.declaration for each in self._tools.values()]
        more: dict[str, Any] = {"toolName": tool.name, "clientTools": declared}
        try:
            output = await tool.run(given)
        except Exception as error:
            if not is_public(error):
                log.warning("client tool %s failed", tool.name, exc_info=error)
            self._protocol.answer(call, error=public_text(error, f"The tool {tool.name} failed."), **more)
        else:
            self._protocol.answer(call, output, **more)
        self._running.discard(call)
        self.note_answered(call)
        self._agent.connection.flush()

    def note_answered(self, call: str) -> None:
        """Remember that this client has answered a call."""
        self._answered.add(call)

    def is_running(self, calls: set[str]) -> bool:
        """Tell whether any of the calls is running."""
        return bool(self._running & calls)

    def take_answered(self, calls: set[str]) -> bool:
        """Tell, once, whether this client has answered any of the calls."""
        taken = self._answered & calls
        self._answered -= taken
        return bool(taken)

    def take_continued_request(self) -> str | None:
        """Return, once, the newest request that writes a message with calls that this client has answered."""
        for message in reversed(self._protocol.messages):
            if self.take_answered({part["toolCallId"] for part in tool_parts(UIMessage.from_dict(message))}):
                newest_first = reversed(self._protocol.requests.values())
                return next((request.id for request in newest_first if request.answer_id == message["id"]), None)
        return None
