"""Open a node, and let it be declared gone as another node does when its lease is over."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from everyword.log.postgres.store import PostgresLog
from tests.postgres.server import Postgres

__all__ = ["LEASE", "declare_gone", "expire", "node_of", "opened_node"]

LEASE = 600.0
"""Seconds: no heartbeat comes between. A node learns that it is gone by writing."""


@asynccontextmanager
async def opened_node(url: str, lease: float = LEASE) -> AsyncIterator[PostgresLog]:
    """Open a store, and close it at the end of the block."""
    store = PostgresLog(url, lease=lease)
    await store.open()
    try:
        yield store
    finally:
        await store.aclose()


def node_of(store: PostgresLog) -> int:
    """Return the id under which the store's node is registered."""
    assert store.nodes is not None
    return store.nodes.incarnation


async def expire(server: Postgres, schema: str, store: PostgresLog) -> None:
    """End the lease of a node, which does not notice before its next heartbeat."""
    connection = await server.connect(schema)
    await connection.execute("UPDATE node SET until = clock_timestamp() - interval '1 s' WHERE id = $1", node_of(store))
    await connection.close()


async def declare_gone(server: Postgres, schema: str, store: PostgresLog) -> None:
    """Do what another node does: its agents are free, and it can write nothing."""
    await expire(server, schema, store)
    connection = await server.connect(schema)
    assert await connection.fetchval("SELECT declare_gone_1($1)", node_of(store))
    await connection.close()
