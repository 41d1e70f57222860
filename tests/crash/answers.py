"""What the model of the crash script says: the same words however often it is cut off, because it goes on from them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from everyword.agents import SaveMessagesResult, Turn
from everyword.core.state import Rules, State
from everyword.messages.message import Chunk, UIMessage
from everyword.messages.tool_calls import find_call
from everyword.runtime.api import TurnCall, TurnResult
from everyword.runtime.directory import Directory
from tests.agents.bases import Asked


@dataclass(frozen=True)
class Hold:
    """A point at which an answer waits until the test lets it continue."""

    name: str


Item = str | Chunk | Hold | Exception
Script = Sequence[Item]


def call(call_id: str, tool: str, given: Any) -> Chunk:
    return {"type": "tool-input-available", "toolCallId": call_id, "toolName": tool, "input": given}


def output(call_id: str, value: Any) -> Chunk:
    return {"type": "tool-output-available", "toolCallId": call_id, "output": value}


def asks(call_id: str) -> Chunk:
    return {"type": "tool-approval-request", "toolCallId": call_id, "approvalId": f"ask-{call_id}"}


def finish(reason: str) -> Chunk:
    return {"type": "finish", "finishReason": reason}


STEP: Chunk = {"type": "start-step"}
STEP_END: Chunk = {"type": "finish-step"}

LOCATE: Script = [STEP, "Where are you? ", call("k-locate", "get_location", {})]
PAY: Script = [STEP, "Let me pay. ", call("k-pay", "pay", {"amount": 5}), asks("k-pay")]
WIPE: Script = [STEP, "Let me wipe. ", call("k-wipe", "wipe", {"disk": 1}), asks("k-wipe")]
BROWSE: Script = [STEP, call("k-browse", "browse", {"page": 1}), Hold("browse")]

ANSWERS: dict[str, Script] = {
    "text": ["The sky ", "is ", "blue."],
    "tool": [
        *(STEP, "Looking. ", call("k-look", "look", {"at": "sea"}), output("k-look", {"waves": 3}), STEP_END),
        *(STEP, call("k-count", "count", {"of": "boats"}), output("k-count", 7), STEP_END),
        *(STEP, "Seven boats."),
    ],
    "locate": [*LOCATE, finish("tool-calls")],
    "locate-more": [*LOCATE, STEP, "You are ", "at sea."],
    "pay": [*PAY, finish("tool-calls")],
    "pay-more": [*PAY, output("k-pay", "paid"), STEP, "Paid."],
    "wipe": [*WIPE, finish("tool-calls")],
    "wipe-more": [*WIPE, "Then ", "not."],
    "browse": [*BROWSE, STEP, "It loads.", finish("stop")],
    "cancelled": ["So far ", Hold("for ever"), "never said"],
    "slow": ["Wait. ", Hold("slow"), "Here."],
    "thrown": ["Half of ", ValueError("secret")],
    "in-band": ["Half an ", {"type": "error", "errorText": "rate limited"}],
    "again": ["The sky ", "is ", "grey."],
    "edited": ["The sea ", "is ", "green."],
    "cleared": ["Gone ", Hold("for ever")],
    "first": ["One. ", Hold("queue"), "Done."],
    "second": ["Two."],
    "third": ["Three."],
    "data": [
        *("Drawing ", {"type": "data-chart", "id": "c1", "data": {"bars": 1}}),
        *({"type": "data-progress", "data": 50, "transient": True}, "and ", "done."),
        {"type": "data-chart", "id": "c2", "data": {"bars": 2}},
    ],
}


def remaining(script: Script, partial: UIMessage | None) -> Script:
    """Return what is left to say after the last item that the partial message shows."""
    if partial is None:
        return script
    text, steps, said = "", 0, 0
    for place, item in enumerate(script, 1):
        text += item if isinstance(item, str) else ""
        steps += item is STEP
        if _shows(partial, item, text, steps):
            said = place
    return script[said:]


def _shows(partial: UIMessage, item: Item, text: str, steps: int) -> bool:
    if isinstance(item, str):
        return partial.text.startswith(text)
    if not isinstance(item, dict):
        return False
    part = find_call(partial, str(item.get("toolCallId")))
    match item["type"]:
        case "tool-input-available":
            return part is not None
        case "tool-output-available":
            return part is not None and part["state"] == "output-available"
        case "tool-approval-request":
            return part is not None and "approval" in part
        case "start-step":
            return [part["type"] for part in partial.parts].count("step-start") >= steps
        case "data-chart":
            return any(part.get("id") == item["id"] for part in partial.parts)
    return False


class Model:
    """One process's responder. Waits until what it said is committed, so that every chunk is a point to die at."""

    def __init__(self, holds: Callable[[str], asyncio.Event], on_response: Callable[[TurnResult], None]) -> None:
        self.directory: Directory | None = None
        self._hold, self._on_response = holds, on_response

    @property
    def rules(self) -> Rules:
        return Rules(has_response_hook=True)

    async def stream(self, call: TurnCall) -> AsyncIterator[str | Chunk]:
        for item in remaining(ANSWERS[call.request], call.partial):
            if isinstance(item, Hold):
                await self._hold(item.name).wait()
            elif isinstance(item, Exception):
                raise type(item)(*item.args)
            else:
                yield item
                await self._commit(call)

    async def _commit(self, call: TurnCall) -> None:
        assert self.directory is not None
        loaded = self.directory.peek(call.agent)
        if loaded is not None:
            await loaded.actor.inspect(_nothing)

    def error_text(self, exc: BaseException) -> str:
        return "The answer failed."

    async def on_response(self, result: TurnResult) -> None:
        self._on_response(result)

    def __call__(self, agent: object) -> Model:
        return self


class Speaker:
    """An agent of either base class whose model says the same, as far as it calls nothing."""

    world: Any

    async def reply(self, asked: Asked) -> AsyncIterator[Any]:
        for item in remaining(ANSWERS[asked.turn.id], asked.answer):
            if isinstance(item, Hold):
                await self.world.hold(item.name).wait()
            elif isinstance(item, Exception):
                raise type(item)(*item.args)
            else:
                yield item

    async def said(self, turn: Turn) -> None:
        await turn._call.message()  # answered when what was written before is committed

    async def on_chat_response(self, result: SaveMessagesResult) -> None:
        """Have a hook, so that it has to be called."""


def _nothing(state: State) -> None:
    """Ask for nothing: the answer comes when what was posted before is committed."""
