"""The app that frames and requests attack. Its agent never raises, so every traceback in the log is a finding.

`ATTACK_AUTHORIZE=1` adds an `authorize` hook that returns what the header `x-verdict` names. `ATTACK_FAULT` seeds a bug
into the app, to see that the attack reports it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from starlette.responses import PlainTextResponse, Response

from everyword import AIChatAgent, Connecting, Everyword, Limits, ToolContext, Turn, UIMessage, callable, tool
from everyword.messages.model_messages import convert_to_model_messages
from everyword.models.anthropic_messages import to_anthropic
from everyword.models.openai_messages import to_openai, to_openai_responses
from everyword.models.pydantic_ai_messages import to_pydantic_ai

FAULT: Final = os.environ.get("ATTACK_FAULT", "")
FRAME: Final = 4 * 1024 * 1024
MANY: Final = 10_000_000
AMOUNT: Final = 7.0
"""What the model pays. A client that makes a call up names another sum."""

NOTHING: Final = UIMessage("none", "user", [])
"""What a client asks that sends an empty list to a new conversation."""

LIMITS: Final = Limits(
    frame=FRAME,
    unfinished=64 * 1024 * 1024,
    sockets_per_agent=MANY,
    sockets_per_principal=MANY,
    queued_turns=1000,
    requests_per_minute=MANY,
    calls_per_minute=MANY,
    frames_per_minute=MANY,
    bytes_per_minute=MANY * 1024 * 1024,
    request_seconds=3.0,
    message_seconds=6.0,
)


def note(*words: str) -> None:
    """Write a line that outlives this process."""
    with open("notes.txt", "a", encoding="utf-8") as notes:
        notes.write(" ".join(words) + "\n")


def tell_models(messages: Sequence[UIMessage]) -> None:
    """Convert a conversation for every model, as agents do that have one."""
    for convert in (convert_to_model_messages, to_openai, to_openai_responses, to_anthropic, to_pydantic_ai):
        convert(messages)


class Leaf(AIChatAgent):
    async def on_chat_message(self, turn: Turn) -> AsyncIterator[Any]:
        note("reached", "leaf")
        yield "a leaf"


class Chat(AIChatAgent):
    """Repeats the question, or calls the tool that the question names: `call pay`, `call refund`, `call where`."""

    sub_agent_classes = (Leaf,)
    max_persisted_messages = 200

    async def on_chat_message(self, turn: Turn) -> AsyncIterator[Any]:
        tell_models(self.messages)
        async for step in turn.steps():
            tell_models(step.messages)
            async for chunk in step.run(self.model(turn, step.messages[-1] if step.messages else NOTHING)):
                yield chunk

    async def model(self, turn: Turn, last: UIMessage) -> AsyncIterator[Any]:
        yield {"type": "start-step"}
        said = last.text[:100]
        if last.role != "user":
            yield "Settled."
        elif said.startswith("call "):
            name, call = said.removeprefix("call "), f"k-{turn.message_id}"
            note("called", name, call, f"{AMOUNT:g}")
            given = {"amount": AMOUNT}
            yield {"type": "tool-input-available", "toolCallId": call, "toolName": name, "input": given}
        elif said == "stream":
            for number in range(100):
                yield f"word {number} "
                await asyncio.sleep(0.002)
        else:
            yield f"You said: {said}" if FAULT != "answer" else "Something else."
        yield {"type": "finish-step"}

    @tool
    async def pay(self, amount: float, context: ToolContext) -> str:
        """Spend money."""
        for _ in range(2 if FAULT == "twice" else 1):
            note("effect", "pay", context.call_id, f"{amount:g}")
        return "paid"

    @tool(needs_approval=True)
    async def refund(self, amount: float, context: ToolContext) -> str:
        """Give money back."""
        note("effect", "refund", context.call_id, f"{amount:g}")
        return "refunded"

    @tool(client=True)
    async def where(self, amount: float) -> str:
        """Ask the page."""
        raise NotImplementedError

    @callable
    def double(self, value: int) -> int:
        return 2 * value

    @callable
    async def count(self, to: int) -> AsyncIterator[int]:
        for number in range(min(to, 100)):
            yield number

    async def on_request(self, request: Any) -> Response:
        if FAULT == "request":
            raise RuntimeError("a seeded fault")
        note("reached", "on_request")
        return PlainTextResponse(f"{request.url} {request.cookies} {request.query_params}")

    async def on_before_sub_agent(self, request: Any, child: Any) -> bool:
        return True


async def authorize(connecting: Connecting) -> Any:
    from everyword import Principal
    from tests.server.test_every_entry_point import ODD

    named = connecting.request.headers.get("x-verdict")
    if named is None or FAULT == "door":
        return Principal("ann")
    verdict = ODD[named]
    return verdict() if named == "a coroutine" else verdict


app = Everyword(
    [Chat],
    store="log.db",
    limits=LIMITS,
    authorize=authorize if os.environ.get("ATTACK_AUTHORIZE") else None,
)
app.grace = 0.5
