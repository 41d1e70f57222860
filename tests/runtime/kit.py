"""Small words for the runtime's tests: ask, watch, and wait for facts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from everyword.core.commands import Policy, Submit
from everyword.core.state import State
from everyword.events import Event, TurnEnded
from everyword.ids import AgentId, MessageId, RequestId, Seq
from everyword.log.base import Batch, LogStore
from everyword.log.memory import MemoryLog
from everyword.messages.message import UIMessage
from everyword.runtime.directory import Directory, LoadedAgent, Settings
from everyword.runtime.tail import Committed
from everyword.testing import CrashingLog, Gate, ManualClock, ScriptedResponder
from tests.timeouts import PATIENCE

AGENT = AgentId("chat/ann")
QUICK = Settings(grace=0.0)


class SlowDisk(MemoryLog):
    """A disk that is done with an append when the gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate()
        self.appends = 0

    async def append_one(self, batch: Batch) -> None:
        self.appends += 1
        await self.gate.wait()
        await super().append_one(batch)


def user(message_id: str, text: str = "hi") -> dict[str, Any]:
    return {"id": message_id, "role": "user", "parts": [{"type": "text", "text": text}]}


def submit(request: str, *messages: dict[str, Any], policy: str = "queue", **more: Any) -> Submit:
    asked = messages or (user(f"u-{request}"),)
    return Submit(RequestId(request), MessageId(f"a-{request}"), list(asked), policy=Policy(policy), **more)  # type: ignore[arg-type]


@asynccontextmanager
async def running(
    store: LogStore, responder: ScriptedResponder, clock: ManualClock | None = None, settings: Settings = QUICK
) -> AsyncIterator[Directory]:
    async with Directory(store, responder, clock=clock or ManualClock(), settings=settings) as directory:
        yield directory


async def kill_everything() -> None:
    """Cancel every task but this one until none is left, without closing anything."""
    while doomed := asyncio.all_tasks() - {asyncio.current_task()}:
        for task in doomed:
            task.cancel()
        await asyncio.sleep(0)


@asynccontextmanager
async def killed(
    store: LogStore, responder: ScriptedResponder, clock: ManualClock | None = None, settings: Settings = QUICK
) -> AsyncIterator[Directory]:
    """As `running`, but at the end of the block the process dies without closing anything."""
    log = CrashingLog(store)
    directory = Directory(log, responder, clock=clock or ManualClock(), settings=settings)
    await directory.open()
    yield directory
    log.crashed.set()
    await kill_everything()
    await store.aclose()


class Watcher:
    """An observer that reads by cursor and keeps what it saw."""

    def __init__(self, loaded: LoadedAgent, cursor: int = 0) -> None:
        self.seen: list[Committed] = []
        self._subscription = loaded.subscribe(Seq(cursor))

    @property
    def events(self) -> list[Event]:
        return [committed.event for committed in self.seen]

    async def until(self, fact: Callable[[Event], bool]) -> Event:
        """Read on until an event makes it true; what was seen before counts."""
        checked = 0
        async with asyncio.timeout(PATIENCE):
            while True:
                for event in self.events[checked:]:
                    if fact(event):
                        return event
                checked = len(self.seen)
                self.seen += await self._subscription.next()

    async def ended(self, turn: int) -> TurnEnded:
        event = await self.until(lambda event: isinstance(event, TurnEnded) and event.turn == turn)
        assert isinstance(event, TurnEnded)
        return event

    def close(self) -> None:
        self._subscription.close()


@asynccontextmanager
async def watching(loaded: LoadedAgent, cursor: int = 0) -> AsyncIterator[Watcher]:
    watcher = Watcher(loaded, cursor)
    try:
        yield watcher
    finally:
        watcher.close()


def texts(state: State) -> list[tuple[str, str]]:
    """Role and text of what is shown."""
    bodies = [node.shown for _, node in state.tree.shown_path()]
    messages = [UIMessage.decode(body) for body in bodies if body is not None]
    return [(message.role, message.text) for message in messages]


async def soon(fact: Callable[[], bool]) -> None:
    """Poll a fact that has no event, and let other tasks run in between."""
    async with asyncio.timeout(PATIENCE):
        while not fact():  # noqa: ASYNC110 - no event tells it
            await asyncio.sleep(0)
