"""Let a node be declared gone, as another node does when its lease is over."""

from __future__ import annotations

from everyword.log.postgres.store import PostgresLog
from tests.postgres.server import Postgres

__all__ = ["declare_gone", "expire", "node_of"]


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
