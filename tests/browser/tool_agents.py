"""Agents with server tools and data parts, for the pages. Their answers are scripts, as in `scripted_agents`.

`{"then": [steps]}` is what the model says once its calls have their results. Effects of tools are noted in `BOOK`
under `<name>/effects`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from everyword.agents import AIChatAgent, Turn
from everyword.agents.streams.ui_message_stream import UIMessageStreamWriter, create_ui_message_stream
from everyword.agents.tools import ToolContext, tool
from everyword.messages.message import UIMessage
from tests.browser.scripted_agents import BOOK, Chat, Script, _exchange, _rest, _script

__all__ = ["TOOLED", "Painter", "Tooled"]


async def is_dear(amount: float) -> bool:
    return amount > 100


class Tooled(Chat):
    """Answers step by step, with tools that run here, ask first, or are the page's."""

    async def on_chat_message(self, turn: Turn) -> AsyncIterator[Any]:
        BOOK.calls[self.name].append({"continuation": turn.continuation, "tools": [t["name"] for t in turn.tools]})
        question, _ = _exchange(self.messages)
        async for step in turn.steps():
            async for chunk in step.run(self._answer(_script(question), turn, step.messages[-1])):
                yield chunk

    async def _answer(self, script: Script, turn: Turn, last: UIMessage) -> AsyncIterator[Any]:
        steps, said = _rest(script, last if last.role == "assistant" else None)
        yield {"type": "start-step"}
        async for piece in self._play(steps, turn, said):
            yield piece
        yield {"type": "finish-step"}

    def _note(self, effect: str, context: ToolContext) -> None:
        BOOK.calls[f"{self.name}/effects"].append({"effect": effect, "key": context.idempotency_key})

    @tool
    async def search(self, query: str, context: ToolContext) -> AsyncIterator[dict[str, Any]]:
        """Search for something, and tell how far it is."""
        self._note("search", context)
        yield {"query": query, "hits": 1}
        await BOOK.stand_at(f"{self.name}/search")
        yield {"query": query, "hits": 3}

    @tool(needs_approval=is_dear)
    async def refund(self, amount: float, context: ToolContext) -> str:
        """Give money back."""
        self._note("refund", context)
        return f"refunded {amount:g}"

    @tool(client=True)
    async def locate(self, place: str = "here") -> dict[str, str]:
        """Say where the user is."""


class Painter(AIChatAgent):
    """Writes data parts by hand beside a stream that it merges."""

    async def on_chat_message(self, turn: Turn) -> Any:
        async def paint(writer: UIMessageStreamWriter) -> None:
            gate = f"{self.name}/mid"
            await writer.write({"type": "data-picture", "id": "p1", "data": {"strokes": 1}})
            await writer.write({"type": "data-note", "data": "first"})
            await writer.write({"type": "data-progress", "data": {"percent": 10}, "transient": True})
            writer.merge(["Painting ", "slowly. "])
            await BOOK.stand_at(gate)
            await writer.write({"type": "data-picture", "id": "p1", "data": {"strokes": 2}})
            await writer.write({"type": "data-note", "data": "second"})
            await writer.write({"type": "data-progress", "data": {"percent": 90}, "transient": True})

        return create_ui_message_stream(paint)


TOOLED: Final = (Tooled, Painter)
