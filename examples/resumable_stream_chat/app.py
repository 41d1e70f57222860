"""A chat on a plain agent whose streams outlive reloads, second tabs and `kill -9`. It needs no key and no account.

Run it from the repository with `uvicorn examples.resumable_stream_chat.app:app --port 8787`, open the page and ask for
a story. Then reload in the middle of it, open a second tab, kill the server with `kill -9` and start it again: the
story goes on, and no word comes twice. `STREAM_STORE` is the file of the log, `STREAM_PAUSE` the seconds between words.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, ClassVar

from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from everyword import Agent, ChatError, Everyword, ResumableStreamManager, callable_method
from everyword.agents.streams.stream_manager import GenerateAIResponseOptions, SentMessage, StreamHistory

PAGE = Path(__file__).parent / "page"
PAUSE = float(os.environ.get("STREAM_PAUSE", "0.12"))

STORY = (
    "There was a lighthouse keeper who wrote every ship into a book before he waved to it. "
    "One night the lamp went out in the middle of a word, and the sea was so dark that nobody knew who had passed. "
    "When it was lit again he opened the book, found the place where the ink stopped, and went on from there. "
    "Nothing was written twice, and no ship was missing in the morning."
)


class StreamChat(Agent):
    """Tells a story, and says back whatever else it hears. Served at /agents/stream-chat/{name}."""

    initial_state: ClassVar[Any] = {"messages": [], "activeStreamId": None}

    def __init__(self, port: Any) -> None:
        super().__init__(port)
        self.streams = ResumableStreamManager(self)

    async def on_start(self) -> None:
        await super().on_start()
        await self.streams.initialize_tables()
        await self.streams.load_and_sync_messages()

    async def generate_ai_response(self, options: GenerateAIResponseOptions) -> str:
        """Say the words one by one, from behind those that an earlier process has said."""
        question = options.messages[-1]["content"]
        words = (STORY if "story" in question.lower() else f"You said: {question}").split()
        for index in range(options.next_index, len(words)):
            await asyncio.sleep(PAUSE)
            if "dark" in question.lower() and index == 4:
                raise ChatError("The lamp went out. Ask again.")
            await options.process_chunk(f"{words[index]} ", index)
        return " ".join(words)

    @callable_method
    async def send_message(self, content: str) -> SentMessage:
        if not content.strip():
            raise ChatError("Say something first.")
        return await self.streams.send_message(content)

    @callable_method
    async def get_stream_history(self, stream_id: str) -> StreamHistory:
        return await self.streams.get_stream_history(stream_id)

    @callable_method
    async def last_failure(self) -> str | None:
        """Return the newest stream if it failed: what an open page was told, a new one asks for."""
        rows = await self.sql("select id, status from stream_metadata order by rowid desc limit 1")
        return rows[0]["id"] if rows and rows[0]["status"] == "error" else None

    @callable_method
    async def clear_history(self) -> None:
        await self.streams.clear_history()
        await self.set_state(self.initial_state)


agents = Everyword([StreamChat], store=os.environ.get("STREAM_STORE", "everyword.db"), base_path="/")
app = Starlette(
    routes=[Mount("/agents", agents), Mount("/", StaticFiles(directory=PAGE, html=True))], lifespan=agents.lifespan
)
