"""A chat inside a web application, with a React page in front: see README.md in this folder.

FastAPI when it is installed, else Starlette: holdfast is an ASGI application and fits both in the same way.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.staticfiles import StaticFiles

from holdfast import AIChatAgent, ChatError, Holdfast, SaveMessagesResult, Turn

try:
    from fastapi import FastAPI as Application
except ImportError:
    from starlette.applications import Starlette as Application  # type: ignore[assignment]

PAGE = Path(__file__).parent / "page"
PAUSE = 0.1
"""Seconds between two words: long enough to pull the plug between them."""

STORY = (
    "Once there was a rope that held every ship in the harbour. Storms came, and fog, and once a whale. "
    "In the morning the harbour master counted the ships, and there were as many as the evening before. "
)


class Chat(AIChatAgent):
    """Needs no key: tells a story, and says back whatever else it hears. Served at /agents/chat/{name}."""

    async def on_chat_message(self, turn: Turn) -> Any:
        """Say the words one by one, from behind those that an earlier attempt has said."""
        question = next(message.text for message in reversed(self.messages) if message.role == "user")
        if not question.strip():
            raise ChatError("Say something, or ask for a story.")
        answer = STORY if "story" in question.lower() else f"You said: {question}"
        said = self.messages[-1].text if turn.continuation else ""
        for word in answer.removeprefix(said).split(" "):
            yield f"{word} "
            await asyncio.sleep(PAUSE)

    async def on_chat_response(self, result: SaveMessagesResult) -> None:
        """Hear of every turn once, whatever became of it."""
        print(f"{self.name}: {result.status}")


agents = Holdfast([Chat], base_path="/")  # mounted below /agents; the log is ./holdfast.db


async def health(request: Request) -> JSONResponse:
    """Be the rest of the application."""
    return JSONResponse({"kinds": sorted(agents.agents)})


app = Application(lifespan=agents.lifespan)
app.add_route("/health", health)
app.mount("/agents", agents)
app.mount("/", StaticFiles(directory=PAGE, html=True))
