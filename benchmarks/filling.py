"""A store that has grown: one real conversation is recorded, then appended again and again under other names."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import msgspec

from everyword.core.commands import Submit
from everyword.events import TurnEnded
from everyword.ids import AgentId, MessageId, Millis, RequestId, Seq
from everyword.log.base import Batch
from everyword.log.memory import MemoryLog
from everyword.log.sqlite.store import SqliteLog
from everyword.runtime.directory import Directory, Settings
from everyword.testing import ManualClock, ScriptedResponder

__all__ = ["CHUNKS", "DAY", "fill", "prune", "record"]

DAY = 24 * 60 * 60 * 1000
CHUNKS = 100
"""Chunks of each stored conversation."""
TOGETHER = 200
"""Conversations that grow at the same time, so that their events lie interleaved as they do in life."""
PIECE = 10
"""Chunks of one append."""


class _Recorder(MemoryLog):
    """Keeps what was appended."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[Batch] = []

    async def append_one(self, batch: Batch) -> None:
        self.batches.append(batch)
        await super().append_one(batch)


async def record(at: int) -> list[Batch]:
    """Return the appends of a conversation of one turn that was held at that time."""
    store, agent = _Recorder(), AgentId("chat/recorded")
    words = ScriptedResponder(["some words of an answer "] * CHUNKS)
    async with (
        Directory(store, lambda _: words, clock=ManualClock(at), settings=Settings(grace=0.0)) as directory,
        directory.attach(agent) as loaded,
        loaded.subscribe() as subscription,
    ):
        question = {"id": "u", "role": "user", "parts": [{"type": "text", "text": "Tell me something."}]}
        await loaded.actor.ask(Submit(RequestId("r"), MessageId("a"), [question]))
        while not any(isinstance(each.event, TurnEnded) for each in await subscription.next()):
            pass
    return list(_in_pieces(store.batches))


def _in_pieces(batches: list[Batch]) -> Iterator[Batch]:
    """Cut what lies between two changes of rows into appends of the same size."""
    first = 1
    for has_rows, group in groupby(batches, key=lambda batch: bool(batch.rows)):
        if has_rows:
            for batch in group:
                yield msgspec.structs.replace(batch, first=Seq(first))
                first += len(batch.entries)
            continue
        members = list(group)
        entries = [entry for batch in members for entry in batch.entries]
        for start in range(0, len(entries), PIECE):
            piece = entries[start : start + PIECE]
            yield msgspec.structs.replace(members[0], first=Seq(first), entries=piece)
            first += len(piece)


async def fill(path: Path, names: range, template: list[Batch]) -> float:
    """Append a copy of the template for each number in `names`; return the seconds it took."""
    store = SqliteLog(path)
    await store.open()
    began = time.monotonic()
    try:
        for start in range(names.start, names.stop, TOGETHER):
            agents = [AgentId(f"chat/stored{number}") for number in range(start, min(start + TOGETHER, names.stop))]
            loaded = await asyncio.gather(*(store.activate(agent) for agent in agents))
            for batch in template:
                batches = [
                    msgspec.structs.replace(batch, agent=agent, epoch=each.epoch)
                    for agent, each in zip(agents, loaded, strict=True)
                ]
                await asyncio.gather(*store.append(batches))
    finally:
        await store.aclose()
    return time.monotonic() - began


async def prune(path: Path, before: int, most: int) -> tuple[int, float, float]:
    """Delete up to `most` chunks of what ended before; return how many, and the seconds and CPU seconds it took."""
    store = SqliteLog(path)
    await store.open()
    began, cpu, count = time.monotonic(), time.process_time(), 0
    try:
        while count < most:
            step = await store.prune(Millis(before))
            count += step.chunks
            if not step.more:
                break
        return count, time.monotonic() - began, time.process_time() - cpu
    finally:
        await store.aclose()
