"""Pages of a log are limited in bytes: the memory of a reader does not depend on the size of events."""

from __future__ import annotations

import pytest

from everyword.ids import Seq
from tests.log.building import A, Owner, chunk, fact
from tests.log.stores import STORES, Stores

pytestmark = pytest.mark.parametrize("kind", STORES)

SIZES = (10, 100, 5000, 10, 10, 3000, 10) * 60


async def test_a_page_ends_at_its_size_and_has_at_least_one_event(stores: Stores) -> None:
    async with stores.opened() as store:
        owner = await Owner.take(store)
        bodies = [b'"%b"' % (b"x" * (size - 2)) for size in SIZES]
        for body in bodies:
            await owner.append(fact("fact", None, body))
        for size in (1, 10, 119, 120, 5110, 5120, 10**9):
            found: list[bytes] = []
            while page := [each.body for each in await store.read(A, Seq(len(found)), 100, size=size)]:
                rest = bodies[len(found) + len(page) :]
                assert len(page) == 1 or sum(map(len, page)) <= size
                assert not rest or len(page) == 100 or sum(map(len, page)) + len(rest[0]) > size
                found += page
            assert found == bodies


async def test_pages_limited_by_size_return_the_same_events_from_every_cursor(stores: Stores) -> None:
    async with stores.opened() as store:
        owner = await Owner.take(store)
        for number in range(400):
            await owner.append(chunk(1, number), at=number)
        whole = await store.read(A, Seq(0), 1000)
        assert len(whole) == 400
        for after in (0, 1, 63, 64, 255, 256, 257, 399, 400):
            for limit in (1, 7, 300):
                assert await store.read(A, Seq(after), limit, size=10**9) == whole[after : after + limit]
