"""An agent whose turns are started by a call, a webhook, a schedule or the queue, never by a chat request."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse

from everyword import callable
from tests.browser.scripted_agents import BOOK, Chat, Script

__all__ = ["DRIVEN", "Driven"]


class Driven(Chat):
    """Plays the scripts that calls, webhooks and jobs give it."""

    async def play(self, script: Script) -> None:
        """Start a turn whose question is the script."""
        message = {
            "id": f"u-{len(self.messages)}",
            "role": "user",
            "parts": [{"type": "text", "text": json.dumps(script)}],
        }
        await self.save_messages([message])

    @callable
    async def play_now(self, script: list[Any]) -> str:
        await self.play(script)
        return "played"

    @callable
    async def play_soon(self, script: list[Any]) -> None:
        await self.queue("play", script)

    @callable
    async def play_later(self, script: list[Any]) -> None:
        await self.schedule(0.2, "play", script)

    @callable
    async def count_to(self, number: int) -> None:
        await self.fibers.start("count", self.count, fiber_id=f"to-{number}")

    async def count(self, fiber: Any) -> None:
        """Count in the state, and wait at a gate in the middle."""
        goal = int(fiber.id.removeprefix("to-"))
        for number in range(fiber.snapshot or 0, goal):
            if number == goal // 2:
                await BOOK.stand_at(f"{self.name}/count")
            await fiber.stash(number + 1)
            await self.set_state({"count": number + 1, "attempts": fiber.attempts})

    async def on_fiber_recovered(self, ctx: Any) -> None:
        await self.fibers.start(ctx.name, self.count)

    @callable
    async def vanish(self) -> str:
        await self.destroy()
        return "vanished"

    async def on_request(self, request: Request) -> JSONResponse:
        await self.queue("play", await request.json())
        return JSONResponse({"accepted": True}, 202)


DRIVEN = (Driven,)
