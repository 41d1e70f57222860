"""A process that is killed while it creates and revokes links: it says each one once the app has answered.

Argument: the log.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

from everyword import AIChatAgent, Everyword, UIMessage

LIFETIME = 60.0
"""Seconds after which a forgotten process goes by itself."""

PHOTO = b"\x89PNG\r\n\x1a\na photo"

KEPT = 3
"""Of so many links, one is not revoked."""


class Chat(AIChatAgent):
    async def on_chat_message(self, turn: Any) -> AsyncIterator[str]:
        yield "an answer"


def report(line: str) -> None:
    os.write(1, f"{line}\n".encode())


async def live(path: str) -> None:
    async with asyncio.timeout(LIFETIME), Everyword([Chat], store=path) as app:
        if not await app.exists(Chat, "ann"):
            photo = await (await app.attachments.of(Chat, "ann")).put(PHOTO, "image/png")
            await app.get(Chat, "ann").save_messages([UIMessage("u", "user", [photo])])
        for each in await app.shares.list(Chat, "ann"):
            await app.shares.revoke(Chat, "ann", each.id)
        for number in range(90):
            share = await app.shares.create(Chat, "ann")
            report(f"created {share.token}")
            if number % KEPT:
                await app.shares.revoke(Chat, "ann", share.id)
                report(f"revoked {share.token}")
        report("end")


def main(path: str) -> None:
    asyncio.run(live(path))
