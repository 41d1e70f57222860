"""A chat inside a FastAPI application, with a React page in front: see README.md in this folder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles

from everyword import AIChatAgent, ChatError, Everyword, SaveMessagesResult, Turn

PAGE = Path(__file__).parent / "page"
PAUSE = 0.1
"""Seconds between two words: long enough to pull the plug between them."""

STORY = (
    "Once there was a book that kept every word said in the harbour. Storms came, and fog, and once a whale. "
    "In the morning the harbour master counted the words, and there were as many as the evening before. "
)


class Chat(AIChatAgent):
    """Needs no key: tells a story, and says back whatever else it hears. Served at /agents/chat/{name}."""

    async def on_chat_message(self, turn: Turn) -> AsyncIterator[str]:
        """Say the words one by one, from behind those that an earlier attempt has said."""
        question = next(message.text for message in reversed(self.messages) if message.role == "user")
        if not question.strip():
            raise ChatError("Say something, or ask for a story.")
        answer = STORY if "story" in question.lower() else f"You said: {question}"
        told = len(self.messages[-1].text.split()) if turn.continuation else 0
        for word in answer.split()[told:]:
            yield f"{word} "
            await asyncio.sleep(PAUSE)

    async def on_chat_response(self, result: SaveMessagesResult) -> None:
        """Hear of every turn once, whatever became of it."""
        print(f"{self.name}: {result.status}")


agents = Everyword([Chat], base_path="/")  # mounted below /agents; the log is ./everyword.db
app = FastAPI(lifespan=agents.lifespan)


@app.get("/health")
async def health() -> dict[str, list[str]]:
    """Be the rest of the application."""
    return {"kinds": sorted(agents.classes)}


app.mount("/agents", agents)
app.mount("/", StaticFiles(directory=PAGE, html=True))
