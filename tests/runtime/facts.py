"""Facts of a store and of a script that several tests wait for or start from."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from everyword.events import Chunk, Event, TurnEnded, decode_event
from everyword.ids import RequestId, Seq
from everyword.log.base import LogStore
from everyword.log.memory import MemoryLog
from everyword.testing import Gate, ManualClock, ScriptedResponder
from tests.runtime.kit import AGENT, PATIENCE, killed, submit


async def eventually(fact: Callable[[], Awaitable[bool]]) -> None:
    """Poll a fact that needs an await, and let other tasks run in between."""
    async with asyncio.timeout(PATIENCE):
        while not await fact():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0)


async def rounds(count: int = 50) -> None:
    """Let other tasks run this many times: long enough for a bug to show."""
    for _ in range(count):
        await asyncio.sleep(0)


async def written(store: LogStore) -> list[Event]:
    """Return the log."""
    return [decode_event(stored.body) for stored in await store.read(AGENT, Seq(0), 10_000)]


async def has_ended(store: LogStore, request: str = "r1") -> bool:
    row = await store.find_turn(AGENT, RequestId(request))
    return row is not None and not row.is_open


def ends(events: list[Event]) -> Counter[int]:
    """Return how often each turn ended."""
    return Counter(event.turn for event in events if isinstance(event, TurnEnded))


def says(words: bytes) -> Callable[[Event], bool]:
    return lambda event: isinstance(event, Chunk) and words in bytes(event.body)


def held(gate: Gate) -> ScriptedResponder:
    """Answer "Hello world", waiting between the words unless the first was said already."""
    return ScriptedResponder(lambda call: ["Hello ", gate, "world"] if call.partial is None else ["world"])


async def accepted(store: MemoryLog, clock: ManualClock, *requests: str, policy: str = "queue") -> None:
    """Let a process accept turns and go before any of them has begun to speak."""
    async with killed(store, ScriptedResponder([Gate()]), clock) as directory, directory.attach(AGENT) as loaded:
        for request in requests:
            await loaded.actor.ask(submit(request, policy=policy))
