"""An agent with tools whose effects outlive its process, and a model that answers from what it is told, like any model.

Every effect is written down before the tool says anything, with its idempotency key, so that doing it twice is seen.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, ClassVar

from everyword.agents import SaveMessagesResult, responder_for
from everyword.agents.tools import ToolContext, tool
from everyword.agents.turn import Turn
from everyword.errors import ChatError
from everyword.log.base import LogStore
from everyword.messages.message import Part, UIMessage
from everyword.messages.tool_calls import tool_parts
from everyword.runtime.agent_runtime.agent_runtime import AgentRuntime
from everyword.runtime.directory import Directory
from tests.agents.bases import Asked, answering
from tests.crash.world import Process, World
from tests.runtime.kit import QUICK

__all__ = ["CALLS", "Clerk", "Effects", "clerk_process", "family", "verdict", "was_made"]

Call = tuple[str, str, dict[str, Any]]
"""(call id, tool, input). A call's id says which question it belongs to."""

# Question → what the model calls.
CALLS: dict[str, list[Call]] = {
    "send": [("k-send", "send", {"to": "ann"})],
    "ship": [("k-ship", "ship", {"to": "bob"})],
    "look": [("k-look", "look", {"at": "sea"})],
    "brew": [("k-brew", "brew", {"cups": 2})],
    "both": [("k-both-1", "send", {"to": "eve"}), ("k-both-2", "look", {"at": "sky"})],
    "refund": [("k-refund", "refund", {"amount": 500})],
    "refuse": [("k-refuse", "refund", {"amount": 900})],
    "early": [("k-early", "refund", {"amount": 700}), ("k-early-2", "linger", {})],
    "twice": [("k-twice", "refund", {"amount": 800})],
    "where": [("k-where", "where", {}), ("k-where-2", "send", {"to": "fay"})],
    "late": [("k-late", "refund", {"amount": 600})],
    "soon": [("k-soon", "refund", {"amount": 610})],
    "halves": [("k-half-1", "refund", {"amount": 620}), ("k-half-2", "refund", {"amount": 630})],
    "queued": [("k-queued", "refund", {"amount": 640}), ("k-queued-2", "linger", {})],
    "beside": [("k-beside", "refund", {"amount": 650})],
    "long": [("k-long", "linger", {})],
    **{question: [] for question in ("talk", "next")},
}


class Effects:
    """What was really done, in order: (tool, idempotency key)."""

    def __init__(self) -> None:
        self.done: list[tuple[str, str]] = []

    def note(self, tool: str, context: ToolContext) -> None:
        self.done.append((tool, context.idempotency_key))

    def count(self, call: str) -> int:
        return sum(family(key).endswith(f"/{call}") for _, key in self.done)

    def keys(self, call: str) -> set[str]:
        return {key for _, key in self.done if family(key).endswith(f"/{call}")}

    @property
    def by_key(self) -> Counter[str]:
        return Counter(key for _, key in self.done)


def family(call: str) -> str:
    """Return what a call and its repetitions have in common."""
    return call.rstrip("'")


def was_made(part: Part) -> bool:
    """Tell whether a call's input was ever whole."""
    return part["state"] != "output-error" or ("input" in part and "rawInput" not in part)


def again(call: Call, parts: dict[str, Part]) -> Call | None:
    """Return a call that the model has to make: under another id if the process died before its input was whole."""
    call_id, name, given = call
    while (part := parts.get(call_id)) is not None:
        if was_made(part):
            return None
        call_id += "'"
    return call_id, name, given


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


class Clerk:
    """Asks its model step by step. Waits for every commit, so that every chunk is a point to die at."""

    world: ClassVar[World]
    effects: ClassVar[Effects]
    told: ClassVar[list[UIMessage]]
    read: ClassVar[dict[str, dict[str, str]]] = {}
    """Question → the states of all calls of the conversation, as the model read them when it was first asked."""

    async def on_chat_message(self, turn: Turn) -> AsyncIterator[Any]:
        question = next(message.text for message in reversed(self.messages) if message.role == "user")
        if question == "by hand":
            yield await self._by_hand(turn)
            return
        async with aclosing(super().on_chat_message(turn)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def said(self, turn: Turn) -> None:
        await _committed(turn)

    async def reply(self, asked: Asked) -> AsyncIterator[Any]:
        answer = asked.answer
        calls = [part for message in asked.messages for part in tool_parts(message)]
        Clerk.read.setdefault(asked.question, {part["toolCallId"]: part["state"] for part in calls})
        if answer is not None:
            Clerk.told.append(answer)
        parts = {part["toolCallId"]: part for part in tool_parts(answer)} if answer is not None else {}
        due = (again(call, parts) for call in CALLS[asked.question])
        missing = [call for call in due if call is not None]
        said = answer.text if answer is not None else ""
        if missing:
            if not said:
                yield "One moment. "
            for call_id, name, given in missing:
                yield {"type": "tool-input-available", "toolCallId": call_id, "toolName": name, "input": given}
        else:
            whole = ["One moment. ", *(verdict(part) for part in parts.values())]
            for place, words in enumerate(whole):
                if len(said) < len("".join(whole[: place + 1])):
                    yield words
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

    @tool(idempotent=True)
    async def linger(self, context: ToolContext) -> str:
        """Keeps the answer that it is called in from ending."""
        self.effects.note("linger", context)
        await self.world.hold("early").wait()
        return "stayed"

    @tool(needs_approval=lambda amount: amount > 100)
    async def refund(self, amount: float, context: ToolContext) -> str:
        """Must not happen twice, and needs an approval."""
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


def clerk_process(base: str) -> Process:
    """Return what starts a process that serves clerks of one of the base classes."""
    clerk = answering(base, Clerk)

    def process(world: World, log: LogStore) -> Directory:
        directory: Directory
        directory = Directory(
            log, lambda agent: responder_for(clerk, AgentRuntime(directory, agent)), clock=world.clock, settings=QUICK
        )
        return directory

    return process
