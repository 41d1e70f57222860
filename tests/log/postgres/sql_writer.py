"""A process that writes its agent's database, one statement after another, and prints how many were acknowledged."""

from __future__ import annotations

import asyncio
import sys
from itertools import count

from everyword.log.postgres.store import PostgresLog
from tests.log.building import A

__all__ = ["CREATE", "main"]

CREATE = (
    "create table if not exists total (entries)",
    "create table if not exists entry (n integer primary key, text)",
    "create trigger if not exists counting after insert on entry begin update total set entries = entries + 1; end",
    "insert into total select 0 where not exists (select * from total)",
)


def main(url: str) -> None:
    asyncio.run(_write(url))


async def _write(url: str) -> None:
    store = PostgresLog(url, lease=600.0)
    await store.open()
    await store.activate(A)
    assert store.databases is not None
    for statement in CREATE:
        store.databases.submit(A, statement, ())
    for number in count(1):
        submitted = store.databases.submit(A, "insert into entry (text) values (hex(zeroblob(3000)))", ())
        await asyncio.wrap_future(submitted)
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
