"""List agents by id, page by page, in every store."""

from __future__ import annotations

import pytest

from everyword.ids import AgentId
from tests.log.building import Owner, Store, chunk
from tests.log.stores import STORES, Stores

NAMES = ["kind/b", "kind/a", "kind/ä", "kind/a/sub/k/x", "kind/a0", "kin/d", "kinder/e", "kind/\U0010ffff"]
LISTED = sorted(name for name in NAMES if name.startswith("kind/"))


async def listed(store: Store, prefix: str, size: int) -> list[str]:
    pages: list[str] = []
    while page := await store.agents_named(prefix, after=pages[-1] if pages else "", limit=size):
        assert len(page) <= size
        pages += page
    return pages


@pytest.mark.parametrize("kind", STORES)
async def test_agents_are_listed_by_id_page_by_page(stores: Stores) -> None:
    async with stores.opened() as store:
        for name in NAMES:
            await (await Owner.take(store, AgentId(name))).append(chunk(1, 0))
        for name in ["kind/a-silent", "kind/zz"]:
            await Owner.take(store, AgentId(name))
        await expect_pages(store)
    async with stores.opened() as store:
        await expect_pages(store)


async def expect_pages(store: Store) -> None:
    for size in (1, 2, 3, 500):
        assert await listed(store, "kind/", size) == LISTED
    assert await listed(store, "kind/a", 2) == [name for name in LISTED if name.startswith("kind/a")]
    assert await listed(store, "none/", 2) == []
