"""A connection of the driver that refuses everything, though it looks open, is given up; the store works on."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from everyword.errors import LogUnavailable
from everyword.log.erasing import ErasureNote
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


class TerminatedConnection(BrokenConnection):
    """As asyncpg's after a connection was terminated between two steps of a statement: the node lost its lease."""

    async def fetchval(self, *arguments: object) -> Any:
        self._real.terminate()
        return await self._real._protocol.query(*arguments)

    fetch = fetchrow = execute = fetchval


@pytest.mark.parametrize("doing", ["append", "load", "take the fence", "note"])
async def test_a_connection_that_is_terminated_in_the_middle_of_a_statement_is_replaced(
    postgres_url: str, doing: str
) -> None:
    store = PostgresLog(postgres_url, lease=LEASE)
    await store.open()
    try:
        owner = await Owner.take(store)
        writer = store._writer
        writer._connection = TerminatedConnection(writer._connection)
        if doing == "take the fence":
            writer._fence = (0, 0)
        assert store.erasure is not None
        acts = {
            "append": lambda: owner.append(fact("lost")),
            "load": lambda: Owner.take(store),
            "note": lambda: store.erasure.put_notes([ErasureNote("one", "", b"{}")]),
        }
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(LogUnavailable, match="no attribute"):
                await acts.get(doing, acts["append"])()
            again = await Owner.take(store)
            await again.append(fact("next"))
        assert again.head == 1
    finally:
        await store.aclose()


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
