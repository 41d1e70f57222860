"""Photos that are sent, removed and sent again while every node sweeps the folder that they share."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

from everyword import AIChatAgent, AttachmentOptions, Everyword, Turn
from everyword.server.node_settings import NodeSettings
from tests.attachments.room import question
from tests.server.kit import connect, serving
from tests.timeouts import PATIENCE

ROUNDS = 12
PHOTOS = [b"\x89PNG\r\n\x1a\n" + bytes([number]) * 20_000 for number in range(2)]


class Chat(AIChatAgent):
    async def on_chat_message(self, turn: Turn) -> Any:
        yield "Nice."


def node(store: str, folder: Path) -> Everyword:
    """Return an app that deletes an attachment as soon as nothing refers to it."""
    attachments = AttachmentOptions(store=str(folder), grace=timedelta(0))
    app = Everyword([Chat], store=store, node=NodeSettings(lease=600), attachments=attachments)
    app.grace = 0.0
    return app


async def sweep_until(app: Everyword, stop: asyncio.Event) -> None:
    while not stop.is_set():
        await app.attachments.sweep()


async def test_a_message_keeps_its_photo_while_every_node_deletes_what_is_unused(
    postgres_url: str, tmp_path: Path
) -> None:
    """The same two photos are sent by both nodes in turn, so each sweep may have begun to delete what is sent."""
    stop = asyncio.Event()
    async with asyncio.timeout(PATIENCE), AsyncExitStack() as stack:
        nodes = [node(postgres_url, tmp_path) for _ in range(2)]
        urls = [await stack.enter_async_context(serving(each)) for each in nodes]
        clients = [await stack.enter_async_context(connect(f"{url}/agents/chat/ann/")) for url in urls]
        sweeping = [asyncio.create_task(sweep_until(each, stop)) for each in nodes]
        for number in range(ROUNDS):
            client, photo = clients[number % 2], PHOTOS[number // 2 % 2]
            asked = question(photo, message_id=f"u{number}")
            answer = await client.post("chat", json={"messages": [asked]})
            assert (answer.status_code, "Nice." in answer.text) == (200, True)
            stored = (await client.get("get-messages")).json()
            url = stored[-2]["parts"][1]["url"]
            assert (await clients[1 - number % 2].get(url.rpartition("/ann/")[2])).content == photo
            if number % 3 == 2:
                await nodes[number % 2].get(Chat, "ann").clear_history()
        stop.set()
        await asyncio.gather(*sweeping)
