"""Agents with recovery settings and hooks of their own, for pages whose server is killed.

As a process, this is `tests.browser.server_app` with these agents added. The effects of tools are written to a file
beside the log, because the `BOOK` of a killed process is gone.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

from everyword import Continue, Recovery, Retry, Stop, Turn, TurnLimits, Wait
from everyword.agents.tools import ToolContext, tool
from tests.browser import server_app
from tests.browser.scripted_agents import BOOK, Chat, Script
from tests.browser.tool_agents import Tooled

__all__ = ["RECOVERING", "Brittle", "Fickle", "Lasting", "main"]


class Brittle(Chat):
    """Is given up at the third death."""

    turn_limits = TurnLimits(max_attempts=3, failed_text="We lost it. Please ask again.")


class Fickle(Chat):
    """Has its recovery decided by the question's second line: `retry`, `wait` until the test has opened a gate that
    is named behind it, or `stop` or `forget` with what follows as the text."""

    async def on_chat_recovery(self, ctx: Recovery) -> Continue | Retry | Stop | Wait:
        word, _, text = self.messages[-1].text.partition("\n")[2].partition(" ")
        match word:
            case "retry":
                return Retry()
            case "wait":
                is_open = BOOK.opened[f"{self.name}/{text}"].is_set()
                return Continue() if is_open else Wait(0.05)
            case "stop" | "forget":
                return Stop(text or None, forget=word == "forget")
            case _:
                return Continue()


class Lasting(Tooled):
    """Has a tool that must not happen twice, and one that may."""

    @tool
    async def send(self, to: str, context: ToolContext) -> str:
        """Send something."""
        return await self._do("send", to, context)

    @tool(idempotent=True)
    async def look(self, to: str, context: ToolContext) -> str:
        """Look something up."""
        return await self._do("look", to, context)

    async def _do(self, what: str, to: str, context: ToolContext) -> str:
        _note_effect(what, context.idempotency_key)
        await BOOK.stand_at(f"{self.name}/{what}")
        return f"{what} {to}: done"


def _note_effect(what: str, key: str) -> None:
    with Path(os.environ["EFFECTS"]).open("a", encoding="utf-8") as effects:
        effects.write(f"{what} {key}\n")


class Drowsy(Chat):
    """Is asked again when it falls silent; `{"gate": …}` is its silence, which it keeps once."""

    turn_limits = TurnLimits(stall_timeout=0.4)

    async def _play(self, steps: Script, turn: Turn, said: int) -> AsyncIterator[Any]:
        spoken = steps if turn.attempt == 1 else [step for step in steps if isinstance(step, str)]
        async for piece in super()._play(spoken, turn, said):
            yield piece


class Forgetful(Drowsy):
    """Begins anew when it fell silent."""

    async def on_chat_recovery(self, ctx: Recovery) -> Retry:
        return Retry()


class Resigned(Drowsy):
    """Forgets what it said when it fell silent, and stops."""

    async def on_chat_recovery(self, ctx: Recovery) -> Stop:
        return Stop(forget=True)


RECOVERING: Final = (Brittle, Fickle, Lasting, Drowsy, Forgetful, Resigned)


def main(file: str, port: str) -> None:
    """Serve these agents too, until the process is killed."""
    server_app.main(file, port, more_agents=RECOVERING)
