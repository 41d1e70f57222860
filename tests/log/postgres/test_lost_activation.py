"""With `durability="process"` a crash of the database may forget who took an agent; nothing is written twice."""

from __future__ import annotations

import pytest

from everyword.errors import Fenced
from everyword.log.postgres.store import PostgresLog
from tests.log.building import A, Owner, fact
from tests.log.postgres.takeover import LEASE
from tests.postgres.server import Postgres


@pytest.mark.parametrize("is_taken_again", [False, True])
async def test_a_node_whose_activation_the_database_forgot_appends_nothing(
    postgres_server: Postgres, postgres_url: str, is_taken_again: bool
) -> None:
    first, second = PostgresLog(postgres_url, lease=LEASE), PostgresLog(postgres_url, lease=LEASE)
    await first.open()
    await second.open()
    try:
        owner = await Owner.take(first)
        await owner.append(fact("first"))
        assert first.nodes is not None
        await first.nodes.release([A])
        forgetful = await Owner.take(first)
        crash = await postgres_server.connect(postgres_url.rpartition("schema=")[2])
        await crash.execute("UPDATE agent SET node = NULL, term = term - 1, epoch = epoch - 1")
        await crash.close()
        if is_taken_again:
            again = await Owner.take(second)
            assert again.epoch == forgetful.epoch, "the epoch is the same; the node tells them apart"
            await again.append(fact("second"))
        with pytest.raises(Fenced):
            await forgetful.append(fact("zombie"))
        newest = await Owner.take(second)
        assert newest.head == (2 if is_taken_again else 1)
    finally:
        await first.aclose()
        await second.aclose()
