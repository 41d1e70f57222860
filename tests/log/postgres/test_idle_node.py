"""What a node asks of the database while nothing happens."""

from __future__ import annotations

from everyword.ids import Millis
from everyword.log.postgres.store import PostgresLog
from tests.log.building import A, Owner, fact
from tests.log.postgres.takeover import LEASE
from tests.postgres.server import Postgres


async def test_a_node_looks_for_wake_times_of_agents_without_owner_up_to_a_time(postgres_url: str) -> None:
    store = PostgresLog(postgres_url, lease=LEASE)
    await store.open()
    try:
        assert store.nodes is not None
        owner = await Owner.take(store)
        await owner.append(fact("first"), wake=Millis(1_000))
        assert await store.nodes.next_claim(Millis(0), Millis(5_000)) is None, "this node owns it"
        await store.nodes.release([A])
        found = [await store.nodes.next_claim(Millis(0), Millis(until)) for until in (999, 1_000, 5_000)]
        assert found == [None, 1_000, 1_000]
        assert await store.nodes.next_claim(Millis(1_000), Millis(5_000)) is None, "it is due already"
    finally:
        await store.aclose()


async def test_a_read_is_one_statement(postgres_server: Postgres, postgres_url: str) -> None:
    store = PostgresLog(postgres_url, lease=LEASE)
    await store.open()
    try:
        await store.agents("one statement")
        connection = await postgres_server.connect()
        last = await connection.fetch("select query from pg_stat_activity where application_name = 'everyword'")
        await connection.close()
        assert any("starts_with" in row["query"] and postgres_url.rpartition("=")[2] in row["query"] for row in last)
    finally:
        await store.aclose()
