"""Who else uses an agent: readers of its log by cursor, and the server's own code that asks it things."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import aclosing
from random import Random
from typing import Any

from ...errors import EverywordError
from ...ids import AgentId, RequestId, Seq
from ...messages.message import UIMessage
from ...runtime.agent_runtime.agent_runtime import AgentRuntime
from ...runtime.api import TurnResult
from ...server.event_streams import follow_log
from .life import Life

__all__ = ["Follower", "Insider"]

_EVENT_ID = re.compile(rb"^id: ?(\d+)", re.MULTILINE)


class Follower:
    """Reads an agent's whole log as server-sent events, and comes back by cursor. `seen` are the seqs, in order."""

    def __init__(self, agent: str, chance: Random) -> None:
        self.agent, self.seen = agent, list[int]()
        self._chance = chance
        self._task: asyncio.Task[Any] | None = None

    def connect(self, life: Life) -> bool:
        """Read on; False when it is reading already."""
        if self._task is not None and not self._task.done():
            return False
        self._task = life.start(self._read(life))
        return True

    def drop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _read(self, life: Life) -> None:
        cursor = Seq(self.seen[-1] if self.seen else 0)
        try:
            async with aclosing(follow_log(life.directory, life.sharing, AgentId(self.agent), cursor)) as pieces:
                async for piece in pieces:
                    if life.is_dead:
                        return
                    self.seen += map(int, _EVENT_ID.findall(piece))
                    for _ in range(self._chance.choice((0, 0, 1, 5))):
                        await asyncio.sleep(0)
        except EverywordError:
            return  # the server stops


class Insider:
    """The server's own code: saves messages and waits for the answer, puts, cancels. `results` is what it was told."""

    def __init__(self, chance: Random) -> None:
        self.results: list[TurnResult] = []
        self._chance, self._asked = chance, 0

    def act(self, life: Life, agent: str) -> str:
        """Do something in a task of this life; return what it was."""
        self._asked += 1
        message = {"id": f"own-{self._asked}", "role": "user", "parts": [{"type": "text", "text": "well?"}]}
        runtime, name = AgentRuntime(life.directory, AgentId(agent)), f"own-{self._asked}"
        draw = self._chance.random()
        if draw < 0.4:
            _ = life.start(self._ask(life, runtime.run_turn([message], request=RequestId(name))))
        elif draw < 0.7:
            _ = life.start(self._ask(life, runtime.run_turn(_later(message), request=RequestId(name))))
        elif draw < 0.85:
            _ = life.start(self._ask(life, runtime.continue_turn()))
        elif draw < 0.95:
            _ = life.start(_quietly(runtime.put_messages([message])))
        else:
            _ = life.start(_quietly(runtime.cancel(None)))
        return name

    async def _ask(self, life: Life, asking: Any) -> None:
        try:
            result = await asking
        except EverywordError:
            return  # the server stops
        if result is not None and not life.is_dead:
            self.results.append(result)


def _later(message: dict[str, Any]) -> Any:
    async def evaluate(messages: Sequence[UIMessage]) -> list[dict[str, Any]]:
        await asyncio.sleep(0)
        return [message]

    return evaluate


async def _quietly(asking: Any) -> None:
    try:
        await asking
    except EverywordError:
        return
