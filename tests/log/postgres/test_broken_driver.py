"""A connection of the driver that refuses everything, though it looks open, is given up; the store works on."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from everyword.errors import LogUnavailable
from everyword.log.postgres.store import PostgresLog
from tests.log.building import Owner, fact
from tests.log.postgres.takeover import LEASE
from tests.timeouts import PATIENCE


class BrokenConnection:
    """As asyncpg's after a connection was lost while it was being opened."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def is_closed(self) -> bool:
        return bool(self._real.is_closed())

    def terminate(self) -> None:
        self._real.terminate()

    async def fetchval(self, *arguments: object) -> Any:
        raise asyncpg.InternalClientError("cannot switch to state 12; another operation (2) is in progress")

    fetch = fetchrow = execute = fetchval


@pytest.mark.parametrize("is_appending", [False, True])
async def test_a_connection_that_refuses_everything_is_replaced(postgres_url: str, is_appending: bool) -> None:
    store = PostgresLog(postgres_url, lease=LEASE)
    await store.open()
    try:
        owner = await Owner.take(store)
        await owner.append(fact("first"))
        writer = store._writer
        writer._connection = BrokenConnection(writer._connection)
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(LogUnavailable, match="another operation"):
                await (owner.append(fact("lost")) if is_appending else Owner.take(store))
            again = await Owner.take(store)
            await again.append(fact("second"))
        assert again.head == 2
    finally:
        await store.aclose()
