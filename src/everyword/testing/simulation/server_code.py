"""Users of an agent other than tabs: readers of its log by cursor, and the server's own code."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from random import Random
from typing import Any

from ...errors import EverywordError
from ...ids import AgentId, RequestId, Seq
from ...messages.message import UIMessage
from ...runtime.agent_runtime.agent_runtime import AgentRuntime
from ...runtime.api import TurnResult
from ...server.event_streams import follow_log
from .server_run import ServerRun

__all__ = ["LogReader", "ServerCode"]

_EVENT_ID = re.compile(rb"^id: ?(\d+)", re.MULTILINE)


class LogReader:
    """Reads an agent's whole log as server-sent events, and reconnects by cursor. `seen` are the seqs, in order."""

    def __init__(self, agent: str, chance: Random) -> None:
        self.agent, self.seen = agent, list[int]()
        self._chance = chance
        self._task: asyncio.Task[Any] | None = None

    def connect(self, run: ServerRun) -> bool:
        """Start reading after the last seq; return False when it reads already."""
        if self._task is not None and not self._task.done():
            return False
        self._task = run.start(self._read(run))
        return True

    def drop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _read(self, run: ServerRun) -> None:
        cursor = Seq(self.seen[-1] if self.seen else 0)
        try:
            async with aclosing(follow_log(run.directory, run.slices, AgentId(self.agent), cursor)) as pieces:
                async for piece in pieces:
                    if run.is_dead:
                        return
                    self.seen += map(int, _EVENT_ID.findall(piece))
                    for _ in range(self._chance.choice((0, 0, 1, 5))):
                        await asyncio.sleep(0)
        except EverywordError:
            return  # the server stops


class ServerCode:
    """The server's own code: runs turns, puts messages, cancels. `results` are the results of its turns."""

    def __init__(self, chance: Random) -> None:
        self.results: list[TurnResult] = []
        self._chance, self._asked = chance, 0

    def act(self, run: ServerRun, agent: str) -> str:
        """Do something in a task of this server run; return its name."""
        self._asked += 1
        message = {"id": f"own-{self._asked}", "role": "user", "parts": [{"type": "text", "text": "well?"}]}
        runtime, name = AgentRuntime(run.directory, AgentId(agent)), f"own-{self._asked}"
        draw = self._chance.random()
        if draw < 0.4:
            _ = run.start(self._ask(run, lambda: runtime.run_turn([message], request=RequestId(name))))
        elif draw < 0.7:
            _ = run.start(self._ask(run, lambda: runtime.run_turn(_later(message), request=RequestId(name))))
        elif draw < 0.85:
            _ = run.start(self._ask(run, runtime.continue_turn))
        elif draw < 0.95:
            _ = run.start(_ignore_errors(lambda: runtime.put_messages([message])))
        else:
            _ = run.start(_ignore_errors(lambda: runtime.cancel(None)))
        return name

    async def _ask(self, run: ServerRun, ask: Callable[[], Awaitable[Any]]) -> None:
        try:
            result = await ask()
        except EverywordError:
            return  # the server stops
        if result is not None and not run.is_dead:
            self.results.append(result)


def _later(message: dict[str, Any]) -> Any:
    async def evaluate(messages: Sequence[UIMessage]) -> list[dict[str, Any]]:
        await asyncio.sleep(0)
        return [message]

    return evaluate


async def _ignore_errors(ask: Callable[[], Awaitable[Any]]) -> None:
    try:
        await ask()
    except EverywordError:
        return
