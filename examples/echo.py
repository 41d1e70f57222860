"""The smallest useful server: `everyword dev examples/echo.py`, or `uvicorn examples.echo:app`."""

from __future__ import annotations

from typing import Any

from everyword import AIChatAgent, Everyword, Turn


class Echo(AIChatAgent):
    """Says what it hears, word by word. Served at /agents/echo/{name}."""

    async def on_chat_message(self, turn: Turn) -> Any:
        """Go on behind the words that are already there: after a crash the same turn comes again."""
        question = next(message for message in reversed(self.messages) if message.role == "user")
        said = self.messages[-1].text if turn.continuation else ""
        for word in question.text.removeprefix(said).split():
            yield f"{word} "


app = Everyword([Echo])
