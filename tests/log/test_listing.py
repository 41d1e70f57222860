"""List agents by id, page by page, in every store."""

from __future__ import annotations

from pathlib import Path

import pytest

from everyword.ids import AgentId
from everyword.log.memory import MemoryLog
from everyword.log.sqlite.store import SqliteLog
from tests.log.building import Owner, Store, chunk

NAMES = ["kind/b", "kind/a", "kind/ä", "kind/a/sub/k/x", "kind/a0", "kin/d", "kinder/e", "kind/\U0010ffff"]
LISTED = sorted(name for name in NAMES if name.startswith("kind/"))


async def listed(store: Store, prefix: str, size: int) -> list[str]:
    pages: list[str] = []
    while page := await store.agents_named(prefix, after=pages[-1] if pages else "", limit=size):
        assert len(page) <= size
        pages += page
    return pages


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_agents_are_listed_by_id_page_by_page(kind: str, tmp_path: Path) -> None:
    store: Store = MemoryLog() if kind == "memory" else SqliteLog(tmp_path / "log.db")
    await store.open()
    for name in NAMES:
        await (await Owner.take(store, AgentId(name))).append(chunk(1, 0))
    for name in ["kind/a-silent", "kind/zz"]:
        await Owner.take(store, AgentId(name))
    for _ in range(2):
        for size in (1, 2, 3, 500):
            assert await listed(store, "kind/", size) == LISTED
        assert await listed(store, "kind/a", 2) == [name for name in LISTED if name.startswith("kind/a")]
        assert await listed(store, "none/", 2) == []
        await store.aclose()
        store = store if isinstance(store, MemoryLog) else SqliteLog(tmp_path / "log.db")
        await store.open()
    await store.aclose()
