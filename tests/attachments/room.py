"""A chat with photos in its questions, for tests that kill its process: the app, the photos, a client."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx

from everyword import AIChatAgent, AttachmentOptions, Everyword, Upload
from everyword.attachments.folder import FolderBlobStore
from everyword.ids import AgentId

ANN, BOB = AgentId("chat/ann"), AgentId("chat/bob")
PHOTOS = [b"\x89PNG\r\n\x1a\n" + bytes([number]) * 20_000 for number in range(2)]
"""In the question that `ask` asks, and large enough to be moved out of it."""
UPLOADED = b"\x89PNG\r\n\x1a\n" + b"uploaded" * 60_000
"""Larger than what is written at a time."""
NAMES = [hashlib.sha256(photo).hexdigest() for photo in PHOTOS]


class Chat(AIChatAgent):
    async def on_chat_message(self, turn: Any) -> AsyncIterator[str]:
        yield "Nice."


async def accept(upload: Upload) -> None:
    """A check that reads all of an upload, and lets it in."""
    assert upload.size == sum([len(piece) async for piece in upload.read()])


@asynccontextmanager
async def running(
    folder: Path, *, grace: float = 86_400.0, scan: Any = None
) -> AsyncIterator[tuple[Everyword, httpx.AsyncClient]]:
    """Run the app on the log in a folder; yield it, and a client of ann."""
    options = AttachmentOptions(grace=timedelta(seconds=grace), scan=scan)
    app = Everyword([Chat], store=str(folder / "chat.db"), attachments=options)
    app.grace = 0.0
    transport = httpx.ASGITransport(app)
    async with app, httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1/agents/chat/ann") as client:
        yield app, client


def blobs_in(folder: Path) -> FolderBlobStore:
    return FolderBlobStore(folder / "chat.db.attachments")


def question(*photos: bytes, message_id: str = "u1") -> dict[str, Any]:
    """Return a question with photos as a page sends it: as `data:` URLs."""
    urls = [f"data:image/png;base64,{b64encode(photo).decode()}" for photo in photos]
    parts = [{"type": "file", "mediaType": "image/png", "url": url} for url in urls]
    return {"id": message_id, "role": "user", "parts": [{"type": "text", "text": "look"}, *parts]}


async def ask(client: httpx.AsyncClient, *messages: dict[str, Any]) -> None:
    """Send a whole history whose last message is new, and wait for the answer."""
    answer = await client.post("chat", json={"messages": list(messages)})
    assert (answer.status_code, "Nice." in answer.text) == (200, True), answer.text
