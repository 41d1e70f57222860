"""What the spine costs: one stream flat out, a late reader, an activation; each against the same without the framework.

    python benchmarks/bench_spine.py

Ratios are what counts; absolute figures are this machine's.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from time import perf_counter

import msgspec

from everyword.core.commands import Submit
from everyword.events import TurnEnded
from everyword.ids import AgentId, MessageId, Millis, RequestId, Seq, TurnId
from everyword.log.base import Batch, Entry, LogStore
from everyword.log.memory import MemoryLog
from everyword.log.sqlite.store import SqliteLog
from everyword.messages.message import Chunk
from everyword.runtime.api import TurnCall
from everyword.runtime.directory import Directory, Settings
from everyword.testing import ScriptedResponder

CHUNKS = 20_000
WORD = "some words "
AGENT = AgentId("chat/bench")


class Flood(ScriptedResponder):
    """Answers with as many words as there are, yielding to the loop before each if told so."""

    def __init__(self, *, yields: bool) -> None:
        super().__init__([])
        self._yields = yields

    async def stream(self, call: TurnCall) -> AsyncIterator[str | Chunk | msgspec.Struct]:
        for _ in range(CHUNKS):
            if self._yields:
                await asyncio.sleep(0)
            yield WORD


async def floor(store: LogStore) -> float:
    """Append the same bytes in batches of a hundred, with no agent: what the store alone costs."""
    await store.open()
    epoch = (await store.activate(AGENT)).epoch
    body = b'{"t":"chunk","turn":1,"attempt":1,"index":9999,"body":{"type":"text-delta","id":"t","delta":"some words"}}'
    entries = [Entry("chunk", TurnId(1), body)] * 100
    began = perf_counter()
    for first in range(1, CHUNKS, 100):
        await store.append([Batch(AGENT, epoch, Seq(first), Millis(0), entries)])[0]
    taken = perf_counter() - began
    await store.aclose()
    return CHUNKS / taken


async def flat_out(
    store: LogStore, again: Callable[[], LogStore], *, yields: bool, watchers: int
) -> tuple[float, float, float]:
    """Stream one answer; return chunks/s, then events/s of a late reader, then milliseconds of an activation."""
    settings = Settings(grace=0.0)
    async with (
        Directory(store, Flood(yields=yields), settings=settings) as directory,
        directory.attach(AGENT) as loaded,
    ):
        question = {"id": "u", "role": "user", "parts": [{"type": "text", "text": "go"}]}
        live = [asyncio.create_task(_read(loaded)) for _ in range(watchers)]
        await asyncio.sleep(0)
        began = perf_counter()
        await loaded.actor.ask(Submit(RequestId("r"), MessageId("a"), [question]))
        await asyncio.gather(*live)
        streaming = CHUNKS / (perf_counter() - began)
        began = perf_counter()
        seen = await _read(loaded, Seq(0))
        replaying = seen / (perf_counter() - began)
    async with Directory(again(), Flood(yields=False), settings=settings) as directory:
        began = perf_counter()
        async with directory.attach(AGENT):
            activating = (perf_counter() - began) * 1000
    return streaming, replaying, activating


async def _read(loaded: object, cursor: Seq | None = None) -> int:
    seen = 0
    async with loaded.subscribe(cursor) as subscription:  # type: ignore[attr-defined]
        while True:
            page = await subscription.next()
            seen += len(page)
            if any(isinstance(committed.event, TurnEnded) for committed in page):
                return seen


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        base = asyncio.run(floor(SqliteLog(f"{folder}/floor.db")))
        print(f"{CHUNKS:,} chunks of one answer; ratios to the store alone\n")
        print(f"{'':44}{'chunks/s':>12}{'ratio':>8}{'replay/s':>12}{'activate ms':>13}")
        print(f"{'the SQLite store alone, 100 per batch':44}{base:>12,.0f}{1:>8.2f}")
        memory = MemoryLog()
        rows: list[tuple[str, Callable[[], LogStore], bool, int]] = [
            ("memory, one watcher", lambda: memory, False, 1),
            ("SQLite, one watcher", lambda: SqliteLog(f"{folder}/one.db"), False, 1),
            ("SQLite, one watcher, yielding source", lambda: SqliteLog(f"{folder}/yielding.db"), True, 1),
            ("SQLite, 20 watchers", lambda: SqliteLog(f"{folder}/many.db"), False, 20),
        ]
        for name, make, yields, watchers in rows:
            measured = asyncio.run(flat_out(make(), make, yields=yields, watchers=watchers))
            streaming, replaying, activating = measured
            print(f"{name:44}{streaming:>12,.0f}{streaming / base:>8.2f}{replaying:>12,.0f}{activating:>13.2f}")


if __name__ == "__main__":
    main()
