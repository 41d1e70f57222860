"""An agent with tools whose effects outlive its process, and a model that answers from what it is told, like any model.

Every effect is written down before the tool says anything, with its idempotency key, so that doing it twice is seen.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any, ClassVar

from holdfast.agents import AIChatAgent, SaveMessagesResult, responder_for
from holdfast.agents.tools import ToolContext, tool
from holdfast.agents.turn import Turn
from holdfast.errors import ChatError
from holdfast.log.base import LogStore
from holdfast.messages.calls import tool_parts
from holdfast.messages.message import Part, UIMessage
from holdfast.runtime.directory import Directory
from holdfast.runtime.port import Port
from tests.crash.world import World
from tests.runtime.kit import QUICK

__all__ = ["CALLS", "Clerk", "Effects", "clerk_process", "verdict"]

# Question → what the model calls: (call id, tool, input). A call's id says which question it belongs to.
CALLS: dict[str, list[tuple[str, str, dict[str, Any]]]] = {
    "send": [("k-send", "send", {"to": "ann"})],
    "ship": [("k-ship", "ship", {"to": "bob"})],
    "look": [("k-look", "look", {"at": "sea"})],
    "brew": [("k-brew", "brew", {"cups": 2})],
    "both": [("k-both-1", "send", {"to": "eve"}), ("k-both-2", "look", {"at": "sky"})],
    "refund": [("k-refund", "refund", {"amount": 500})],
    "refuse": [("k-refuse", "refund", {"amount": 900})],
    "early": [("k-early", "refund", {"amount": 700})],
    "twice": [("k-twice", "refund", {"amount": 800})],
    "where": [("k-where", "where", {}), ("k-where-2", "send", {"to": "fay"})],
}


class Effects:
    """What was really done, in order: (tool, idempotency key)."""

    def __init__(self) -> None:
        self.done: list[tuple[str, str]] = []

    def note(self, tool: str, context: ToolContext) -> None:
        self.done.append((tool, context.idempotency_key))

    def count(self, call: str) -> int:
        return sum(key.endswith(f"/{call}") for _, key in self.done)

    def keys(self, call: str) -> set[str]:
        return {key for _, key in self.done if key.endswith(f"/{call}")}

    @property
    def by_key(self) -> Counter[str]:
        return Counter(key for _, key in self.done)


def verdict(part: Part) -> str:
    """Return what the model says of a call that it was told the end of."""
    name = part["toolCallId"]
    match part["state"]:
        case "output-available":
            return f"{name} is done. "
        case "output-denied":
            return f"{name} was refused. "
        case _:
            return f"{name} is unknown. "


class Clerk(AIChatAgent):
    """Asks its model step by step. Waits for every commit, so that every chunk is a point to die at."""

    world: ClassVar[World]
    effects: ClassVar[Effects]
    told: ClassVar[list[UIMessage]]

    async def on_chat_message(self, turn: Turn) -> AsyncIterator[Any]:
        question = next(message.text for message in reversed(self.messages) if message.role == "user")
        if question == "by hand":
            yield await self._by_hand(turn)
            return
        async for asked in turn.steps():
            answer = asked.messages[-1] if asked.messages[-1].role == "assistant" else None
            if answer is not None:
                type(self).told.append(answer)
            async for chunk in asked.run(self._model(question, answer)):
                yield chunk
                await _committed(turn)

    async def _model(self, question: str, answer: UIMessage | None) -> AsyncIterator[Any]:
        parts = {part["toolCallId"]: part for part in tool_parts(answer)} if answer is not None else {}
        missing = [call for call in CALLS[question] if call[0] not in parts]
        said = answer.text if answer is not None else ""
        yield {"type": "start-step"}
        if missing:
            if not said:
                yield "One moment. "
            for call_id, name, given in missing:
                yield {"type": "tool-input-available", "toolCallId": call_id, "toolName": name, "input": given}
            if question == "early":
                await self.world.hold("early").wait()
        else:
            whole = ["One moment. ", *(verdict(part) for part in parts.values())]
            for place, words in enumerate(whole):
                if len(said) < len("".join(whole[: place + 1])):
                    yield words
        yield {"type": "finish-step"}
        yield {"type": "finish", "finishReason": "tool-calls" if missing else "stop"}

    async def _by_hand(self, turn: Turn) -> str:
        try:
            sent = await turn.call_tool("send", to="dan")
        except ChatError as error:
            sent = str(error)
        seen = await turn.call_tool("look", at="moon")
        return f"{sent}; {seen}"

    @tool
    async def send(self, to: str, context: ToolContext) -> str:
        """Must not happen twice."""
        self.effects.note("send", context)
        await asyncio.sleep(0)
        return f"sent to {to}"

    @tool
    async def ship(self, to: str, context: ToolContext) -> AsyncIterator[Any]:
        """Must not happen twice, and says how far it is."""
        self.effects.note("ship", context)
        for state in ("packed", "gone"):
            yield {"to": to, "state": state}
            await _committed(context.turn)
        yield {"to": to, "state": "there"}

    @tool(idempotent=True)
    async def look(self, at: str, context: ToolContext) -> str:
        """May happen as often as it likes."""
        self.effects.note("look", context)
        await asyncio.sleep(0)
        return f"looked at {at}"

    @tool(idempotent=True)
    async def brew(self, cups: int, context: ToolContext) -> AsyncIterator[Any]:
        """May happen as often as it likes, and says how far it is."""
        self.effects.note("brew", context)
        for done in range(cups):
            yield {"cups": done}
            await _committed(context.turn)
        yield {"cups": cups}

    @tool(needs_approval=lambda amount: amount > 100)
    async def refund(self, amount: float, context: ToolContext) -> str:
        """Must not happen twice, and somebody has to agree."""
        self.effects.note("refund", context)
        await asyncio.sleep(0)
        return f"refunded {amount}"

    @tool(client=True)
    async def where(self) -> str: ...

    async def on_chat_response(self, result: SaveMessagesResult) -> None:
        return None


async def _committed(turn: Turn) -> None:
    """Wait until everything that was written so far is committed."""
    await turn._call.message()


def clerk_process(world: World, log: LogStore) -> Directory:
    """Start a process that serves clerks."""
    directory: Directory
    directory = Directory(
        log, lambda agent: responder_for(Clerk, Port(directory, agent)), clock=world.clock, settings=QUICK
    )
    return directory
