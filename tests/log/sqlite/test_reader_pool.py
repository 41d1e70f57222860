"""Queries run on a few threads, not on the event loop, and each gets a result."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path
from typing import Any

from everyword.ids import Seq
from everyword.log.sqlite.store import SqliteLog
from tests.log.building import A, Owner, fact, seqs
from tests.log.sqlite.faults import opened


async def test_queries_that_wait_when_the_store_closes_are_answered(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await (await Owner.take(store)).append(*(fact("x") for _ in range(50)))
        questions = [asyncio.ensure_future(store.read(A, Seq(0))) for _ in range(30)]
        await asyncio.sleep(0)
        await store.aclose()
        answers = await asyncio.gather(*questions)
        assert [seqs(answer) for answer in answers] == [list(range(1, 51))] * 30


async def test_the_event_loop_never_uses_a_file_with_durability_power(tmp_path: Path) -> None:
    seen: set[str] = set()

    class Watched(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            seen.add(threading.current_thread().name)
            return super().execute(sql, *values)

    store = SqliteLog(tmp_path / "log.db", factory=Watched, durability="power")
    await store.open()
    owner = await Owner.take(store)
    await owner.append(fact("x"))
    await asyncio.gather(*(store.read(A, Seq(0)) for _ in range(20)))
    await store.prune(owner.batch().at)
    await store.aclose()
    assert threading.current_thread().name not in seen
    assert "everyword-writer" in seen
    assert len(seen) <= 3
