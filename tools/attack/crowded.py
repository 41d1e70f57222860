"""The app that is killed and stopped: the agents of tests/chaos, and agents with jobs, fibers and a tool that hangs.

`ATTACK_GRACE` is the grace period in seconds. `ATTACK_FAULT` seeds a bug, to see that the attack reports it.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from starlette.responses import JSONResponse, Response

from everyword import Agent, AIChatAgent, ChatError, Connecting, Everyword, FiberContext, Limits, Principal, Turn, tool
from tests.chaos.agents import AGENTS, Notes, Speaker, pause
from tests.chaos.serving import EFFECTS, STORE
from tools.attack.settings import NEVER, STEPS

FAULT: Final = os.environ.get("ATTACK_FAULT", "")
MANY: Final = 10_000_000


class ForgetfulNotes(Notes):
    """Notes as the app would write them with the bug that is seeded."""

    def add(self, *words: str) -> None:
        if FAULT == "lost" and words[0] == "job":
            return
        for _ in range(2 if FAULT == "twice" and words[:2] == ("effect", "send") else 1):
            super().add(*words)


NOTES: Final = ForgetfulNotes(Path(EFFECTS))
Speaker.notes = NOTES


class Errand(Agent):
    """Does jobs and fibers. A job may be run again when its process died, a step of a fiber as well."""

    async def work(self, what: str) -> None:
        NOTES.add("job", what)
        await pause(0.01)

    async def count(self, fiber: FiberContext) -> None:
        for number in range(fiber.snapshot or 0, STEPS):
            NOTES.add("step", fiber.id, f"{number}")
            await pause(0.01)
            await fiber.stash(number + 1)

    async def on_fiber_recovered(self, ctx: FiberContext) -> None:
        await self.fibers.start(ctx.name, self.count)

    async def on_request(self, request: Any) -> Response:
        *_, what, name = request.url.path.split("/")
        match what:
            case "job":
                await self.queue("work", name, max_attempts=1000)
            case "fiber":
                await self.fibers.start("count", self.count, fiber_id=name)
        running = await self.fibers.list(status="running")
        return JSONResponse({"open": len(await self.jobs.list(queued=True)) + len(running)})


class Sleeper(AIChatAgent):
    """Calls a tool that hangs in its thread."""

    async def on_chat_message(self, turn: Turn) -> AsyncIterator[Any]:
        with suppress(ChatError):
            await turn.call_tool("nap")
        yield "awake"

    @tool
    def nap(self) -> str:
        """Hang for longer than any stop may take."""
        NOTES.add("nap", self.name)
        time.sleep(600)
        return "awake"


async def authorize(connecting: Connecting) -> Principal:
    if connecting.name == NEVER:
        await asyncio.Event().wait()
    return Principal("crowd")


limits = Limits(requests_per_minute=MANY, frames_per_minute=MANY, calls_per_minute=MANY, queued_turns=1000)
app = Everyword([*AGENTS, Errand, Sleeper], store=STORE, limits=limits, authorize=authorize)
app.grace = float(os.environ.get("ATTACK_GRACE", "0.2")) + (60 if FAULT == "late" else 0)
