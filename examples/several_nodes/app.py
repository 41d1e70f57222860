"""A chat that runs on several nodes. compose.yaml and kubernetes.yaml in this folder start it."""

from __future__ import annotations

import asyncio
import hmac
import os
from collections.abc import AsyncIterator

from everyword import AIChatAgent, Connecting, Everyword, Principal, Turn

TOKEN = os.environ["CHAT_TOKEN"]


class Chat(AIChatAgent):
    async def on_chat_message(self, turn: Turn) -> AsyncIterator[str]:
        question = next(message.text for message in reversed(self.messages) if message.role == "user")
        said = self.messages[-1].text.split() if turn.continuation else []  # sent before a node was lost
        for word in f"You said: {question}".split()[len(said) :]:
            yield f"{word} "
            await asyncio.sleep(0.1)


def authorize(connecting: Connecting) -> Principal | None:
    """Let clients in that know the token. Replace this by your own authentication."""
    given = connecting.request.query_params.get("token", "")
    return Principal("demo") if hmac.compare_digest(given.encode(), TOKEN.encode()) else None


app = Everyword([Chat], store=os.environ["DATABASE_URL"], authorize=authorize)
app.grace = 20.0  # seconds for running answers when a node stops; compose.yaml and kubernetes.yaml allow for it
