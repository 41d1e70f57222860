"""The demo agent: plays a script, and skips what an earlier attempt has said."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

from ..agents import AIChatAgent, ToolContext, Turn, tool
from ..errors import ChatError
from ..messages.message import Chunk, UIMessage
from .scripts import DemoToolCall, Pause, Step, Thought, script_for
from .words import CREW

__all__ = ["Demo"]

PAUSE = 0.045
"""Seconds per word: about reading speed."""


class Demo(AIChatAgent):
    """Answers from a script that depends only on the question; after a crash it continues with the next word."""

    pause = PAUSE
    initial_state = {"asked": 0}  # noqa: RUF012 - as agents are written

    suggestions = (
        ("Tell me a long story", "and kill the server in the middle of it"),
        ("Use a tool for the weather", "the call is logged before it runs"),
        ("Plan a day on the water", "reasoning, Markdown, a picture, sources"),
        ("Charter a boat", "the payment needs your approval"),
        ("Survey the bay", "data parts that change while it works"),
        ("Ask the crew", "three sub-agents work in parallel"),
        ("Where am I?", "a tool that runs in the page"),
        ("Run into an error", "the text before the error stays"),
    )

    async def on_chat_message(self, turn: Turn) -> Any:
        """Play the script, without what an earlier attempt has said."""
        said = self.messages[-1] if turn.continuation else None
        question = next((message.text for message in reversed(self.messages) if message.role == "user"), "")
        if said is None:
            await self.set_state({"asked": self.state["asked"] + 1, "last": question[:80]})
        performance = _Performance(self, turn, said)
        async for chunk in performance.play(script_for(question)):
            yield chunk
        yield performance.finish(question)

    @tool(idempotent=True)
    async def forecast(self, place: str) -> dict[str, Any]:
        """Look up the weather."""
        await asyncio.sleep(25 * self.pause)
        return {"place": place, "sky": "clear", "wind": "light, from the west", "degrees": 17}

    @tool(
        needs_approval=True,
        idempotent=True,
        approval_summary=lambda boat, price: f"Pay {price:g} for a day on the {boat}. The harbour does not refund it.",
        approval_risk="high",
        approval_timeout=timedelta(hours=8),
    )
    async def charter(self, boat: str, price: float) -> dict[str, Any]:
        """Charter a boat and pay for it."""
        await asyncio.sleep(25 * self.pause)
        return {"boat": boat, "paid": price, "receipt": "H-1"}

    @tool(idempotent=True)
    async def ask_crew(self, context: ToolContext) -> list[dict[str, str]]:
        """Ask all of the crew in parallel."""
        asked = [
            self.run_agent_tool(
                Sailor,
                f"Speak, {name}.",
                run_id=f"{context.call_id}-{name}",
                parent_tool_call_id=context.call_id,
                display={"name": name},
                display_order=order,
            )
            for order, name in enumerate(CREW)
        ]
        said = await asyncio.gather(*asked)
        return [{"who": name, "says": heard.summary or heard.status} for name, heard in zip(CREW, said, strict=True)]

    @tool(client=True)
    async def where(self) -> Any:
        """Say where the user is: only the page can know."""


class Sailor(AIChatAgent):
    """A sub-agent of the demo; slower than the demo itself."""

    pause = 3 * PAUSE

    async def on_chat_message(self, turn: Turn) -> Any:
        """Say the sailor's text, without what an earlier attempt has said."""
        asked = next(message.text for message in reversed(self.messages) if message.role == "user")
        text = next(said for name, said in CREW.items() if name in asked)
        heard = len(self.messages[-1].text) if turn.continuation else 0
        for word in re.findall(r"\S+\s*", text[heard:]):
            yield word
            await asyncio.sleep(self.pause)


class _Performance:
    """One attempt at a script. Skips what an earlier attempt has said, to the letter."""

    def __init__(self, agent: Demo, turn: Turn, said: UIMessage | None) -> None:
        self._agent, self._turn = agent, turn
        parts = said.parts if said is not None else []
        self._heard = {kind: sum(len(p["text"]) for p in parts if p["type"] == kind) for kind in ("text", "reasoning")}
        self._shown = parts
        self._thinking = 0
        self.words = 0

    async def play(self, script: Sequence[Step]) -> AsyncIterator[str | Chunk]:
        for step in script:
            if self._thinking and not isinstance(step, Thought):
                yield self._thought("end")
            match step:
                case str() | Thought():
                    async for chunk in self._say(step):
                        yield chunk
                case Pause(words):
                    await self._wait(0 if self._is_behind else words)
                case DemoToolCall():
                    async for chunk in self.play(await self._call(step)):
                        yield chunk
                case ChatError():
                    raise ChatError(str(step))
                case _:
                    if not self._is_behind and not self._has(step):
                        yield step
                        await self._wait(1)

    async def _say(self, step: str | Thought) -> AsyncIterator[str | Chunk]:
        kind, text = ("text", step) if isinstance(step, str) else ("reasoning", step.text)
        heard = min(self._heard[kind], len(text))
        self._heard[kind] -= heard
        self.words += 1
        if heard == len(text):
            return
        if kind == "reasoning":
            if not self._thinking:
                yield self._thought("start")
            yield {**self._thought("delta"), "delta": text[heard:]}
        else:
            yield text[heard:]
        await self._wait(1)

    def _thought(self, moment: str) -> Chunk:
        if moment == "start":
            self._thinking = self._turn.attempt
        chunk = {"type": f"reasoning-{moment}", "id": f"thought-{self._thinking}"}
        if moment == "end":
            self._thinking = 0
        return chunk

    async def _call(self, call: DemoToolCall) -> list[Step]:
        try:
            output = await self._turn.call_tool(call.tool, **call.given)
        except ChatError:
            return list(call.failed)
        place = output.get("place", output) if isinstance(output, dict) else output
        return [step.replace("{place}", str(place)) if isinstance(step, str) else step for step in call.then]

    @property
    def _is_behind(self) -> bool:
        """True while the script is at words that an earlier attempt has said."""
        return any(self._heard.values())

    def _has(self, chunk: Chunk) -> bool:
        if chunk["type"].startswith("data-") and "id" in chunk:
            shown = [part for part in self._shown if (part["type"], part.get("id")) == (chunk["type"], chunk["id"])]
            return bool(shown) and _size(shown[0]["data"]) >= _size(chunk["data"])
        return any(part["type"] == chunk["type"] and chunk.items() >= part.items() for part in self._shown)

    async def _wait(self, words: float) -> None:
        await asyncio.sleep(words * self._agent.pause)

    def finish(self, question: str) -> Chunk:
        """Return the finish chunk, with token counts like those of a model."""
        asked = len(question.split())
        usage = {"inputTokens": asked, "outputTokens": self.words, "totalTokens": asked + self.words}
        return {"type": "finish", "finishReason": "stop", "messageMetadata": {"usage": usage}}


def _size(value: Any) -> int:
    return int(value["done"]) if isinstance(value, dict) else len(value)
