"""Answers with tools, people and data in them, played one chunk at a time: the agent, its gates and its scenarios."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Literal

from everyword.agents import Turn
from everyword.agents.tools import ToolContext, tool
from tests.agents.bases import Asked, Base

__all__ = ["GATES", "SCENARIOS", "Chat", "Gates", "Scenario"]


class Gates:
    """Points at which an answer waits, counted from 1: everything said before is committed when it stands at one."""

    def __init__(self) -> None:
        self.stood = self.allowed = 0
        self._is_free = False
        self._changed = asyncio.Condition()

    async def stand(self, turn: Turn) -> None:
        await turn._call.message()  # answered when what was written before is committed
        async with self._changed:
            self.stood += 1
            number = self.stood
            self._changed.notify_all()
            await self._changed.wait_for(lambda: self._is_free or number <= self.allowed)

    async def open(self, count: int) -> None:
        """Let so many more gates be passed."""
        async with self._changed:
            self.allowed += count
            self._changed.notify_all()

    async def reached(self, number: int) -> None:
        """Wait until the answer stands at gate number so and so."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.stood >= number)

    async def free(self) -> None:
        """Let everything go on to its end."""
        async with self._changed:
            self._is_free = True
            self._changed.notify_all()


GATES: defaultdict[str, Gates] = defaultdict(Gates)


def call(name: str, call_id: str = "c1", **given: Any) -> dict[str, Any]:
    return {"type": "tool-input-available", "toolCallId": call_id, "toolName": name, "input": given}


def streamed_call(name: str, call_id: str, *pieces: str, given: Any) -> list[dict[str, Any]]:
    """Return the chunks of a call whose input arrives in pieces."""
    head = {"toolCallId": call_id}
    return [
        {"type": "tool-input-start", "toolName": name, **head},
        *({"type": "tool-input-delta", "inputTextDelta": piece, **head} for piece in pieces),
        call(name, call_id, **given),
    ]


@dataclass(frozen=True)
class Scenario:
    """What the model says to the question, and to what its calls brought; and what a person answers, and when."""

    first: list[Any]
    then: list[Any] = field(default_factory=list)
    answer: dict[str, Any] | None = None
    when: Literal["after", "mid", "beside"] = "after"
    """`mid`: while the response that asks still streams; `beside`: while another of its calls works."""
    states: tuple[str, ...] = ()
    """How the calls end."""

    def is_for(self, base: Base) -> bool:
        """Whether the scenario can be played: not every base class has calls in the middle of a response."""
        return self.when != "mid" or base.calls_mid_response


RESULT = {"type": "cf_agent_tool_result", "toolCallId": "c1", "toolName": "where", "autoContinue": True}
WORD = {"type": "cf_agent_tool_approval", "toolCallId": "c1", "autoContinue": True}
REFUND = ["One moment. ", call("refund", amount=200)]
SOURCE = {"type": "source-url", "sourceId": "s1", "url": "https://example.org/a", "title": "A"}
FILE = {"type": "file", "url": "data:text/plain;base64,aGk=", "mediaType": "text/plain"}

SCENARIOS: dict[str, Scenario] = {
    "server tool": Scenario(
        ["Working. ", *streamed_call("work", "c1", '{"ste', 'ps": 2}', given={"steps": 2})],
        ["It ", "is done."],
        states=("output-available",),
    ),
    "two tools": Scenario(
        [call("work", "c1", steps=1), call("fail", "c2")],
        ["One of two."],
        states=("output-available", "output-error"),
    ),
    "client tool": Scenario(
        ["Where? ", call("where")],
        ["You are ", "in Bern."],
        {**RESULT, "output": {"city": "Bern"}},
        states=("output-available",),
    ),
    "client tool answered early": Scenario(
        ["Where? ", call("where"), "Tell ", "me. "],
        ["You are ", "in Bern."],
        {**RESULT, "output": {"city": "Bern"}},
        "mid",
        states=("output-available",),
    ),
    "approved": Scenario(REFUND, ["It is ", "done."], {**WORD, "approved": True}, states=("output-available",)),
    "denied": Scenario(REFUND, ["As you ", "wish."], {**WORD, "approved": False}, states=("output-denied",)),
    "approved early": Scenario(
        [*REFUND, "May ", "I? "], ["It is ", "done."], {**WORD, "approved": True}, "mid", ("output-available",)
    ),
    "denied early": Scenario(
        [*REFUND, "May ", "I? "], ["As you ", "wish."], {**WORD, "approved": False}, "mid", ("output-denied",)
    ),
    "approved while a tool works": Scenario(
        [*REFUND, call("work", "c2", steps=2)],
        ["It is ", "done."],
        {**WORD, "approved": True},
        "beside",
        ("output-available", "output-available"),
    ),
    "client tool answered while a tool works": Scenario(
        ["Where? ", call("where"), call("work", "c2", steps=2)],
        ["You are ", "in Bern."],
        {**RESULT, "output": {"city": "Bern"}},
        "beside",
        ("output-available", "output-available"),
    ),
    "data": Scenario(
        [
            *("Drawing. ", {"type": "data-chart", "id": "d1", "data": {"bars": 1}}),
            *({"type": "data-step", "data": "half"}, {"type": "data-step", "data": "more"}),
            {"type": "data-progress", "data": 50, "transient": True},
            *({"type": "data-chart", "id": "d1", "data": {"bars": 2}}, "Done."),
            {"type": "data-progress", "data": 100, "transient": True},
        ]
    ),
    "everything": Scenario(
        [
            {"type": "start", "messageMetadata": {"voice": "v", "cost": {"in": 1}}},
            {"type": "reasoning-start", "id": "r"},
            *({"type": "reasoning-delta", "id": "r", "delta": delta} for delta in ("Let me ", "think.")),
            {"type": "reasoning-end", "id": "r", "providerMetadata": {"p": {"signature": "x"}}},
            *("See ", SOURCE, FILE, "this."),
            {"type": "source-document", "sourceId": "s2", "mediaType": "application/pdf", "title": "B"},
            {"type": "message-metadata", "messageMetadata": {"cost": {"out": 2}}},
            {"type": "finish", "finishReason": "stop", "messageMetadata": {"total": 3}},
        ]
    ),
}


class Chat:
    """Plays the scenario that the question names, one item per gate; its tools have gates too."""

    async def reply(self, asked: Asked) -> AsyncIterator[Any]:
        scenario = SCENARIOS[asked.question]
        for item in scenario.first if asked.answer is None else scenario.then:
            await GATES[self.name].stand(asked.turn)
            yield item

    @tool
    async def work(self, steps: int, context: ToolContext) -> AsyncIterator[Any]:
        for done in range(steps):
            await GATES[self.name].stand(context.turn)
            yield {"done": done + 1, "of": steps}

    @tool
    async def fail(self) -> None:
        raise RuntimeError("secret")

    @tool(needs_approval=lambda amount: amount > 100)
    async def refund(self, amount: float, context: ToolContext) -> str:
        await GATES[self.name].stand(context.turn)
        return f"refunded {amount}"

    @tool(client=True)
    async def where(self) -> dict[str, str]: ...
