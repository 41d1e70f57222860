"""Only the owner of an agent replaces its rows: a tool that has lost the lease changes nothing."""

from __future__ import annotations

import pytest

from everyword.errors import Fenced
from everyword.ids import CallId, Millis, TurnId
from everyword.log.lists import ApprovalQuery
from everyword.log.postgres.store import PostgresLog
from everyword.rows import TEXT, WAITING, ApprovalRecord, KeptRow, encode_listed, encode_text
from tests.log.building import A, Owner, fact, message_row
from tests.log.postgres.takeover import declare_gone
from tests.postgres.server import Postgres

LEASE = 600.0
"""Seconds: no heartbeat comes between. A node learns that it is gone by writing."""

CALL = ApprovalRecord(CallId("k"), TurnId(1), "pay", Millis(1), status="waiting")
WAITING_ROW = KeptRow(WAITING, "k", encode_listed(CALL))
TEXT_ROW = KeptRow(TEXT, "1", encode_text(["tea"], "Tea"))
"""A call that waits, and a text that a search finds. The rows of lists are replaced, too."""


@pytest.mark.parametrize(
    "loss",
    [
        "update agent set epoch = epoch + 1",
        "update agent set term = term + 1",
        "update agent set node = null",
        "declare gone",
        "release",
    ],
)
async def test_an_owner_that_lost_its_lease_replaces_nothing(
    loss: str, postgres_server: Postgres, postgres_url: str
) -> None:
    schema = postgres_url.rpartition("schema=")[2]
    store = PostgresLog(postgres_url, lease=LEASE)
    await store.open()
    assert store.nodes is not None
    try:
        owner = await Owner.take(store)
        await owner.append(fact("x"), rows=[message_row(1)], wake=Millis(9))
        await store.replace_rows(A, [message_row(2), WAITING_ROW, TEXT_ROW], Millis(9))
        if loss == "release":
            await store.nodes.release([A])
        elif loss == "declare gone":
            await declare_gone(postgres_server, schema, store)
        else:
            connection = await postgres_server.connect(schema)
            await connection.execute(loss)
            await connection.close()
        with pytest.raises(Fenced):
            await store.replace_rows(A, [message_row(3)], None)
        assert (await store.conversation(A))[1] == [message_row(2)]
        assert store.lists is not None
        assert [each.key for each in await store.lists.approvals(ApprovalQuery())] == ["k"]
        assert await store.lists.texts(A) == [TEXT_ROW]
    finally:
        await store.aclose()
