"""Put a whole agent of another store into the database, in one transaction: it is there as a whole, or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ...errors import Fenced, OwnedElsewhere, UsageError
from ...ids import AgentId, Millis, root_id
from ...rows import Row
from ..base import Entry, Stored
from ..chunk_packing import pack
from .connection import Connector
from .days import Days
from .pending_write import PostgresPendingRows
from .writer import Fence

__all__ = ["TransferredAgent", "transfer_agent"]

PAGES_AT_ONCE: Final = 4096
"""Pages of an agent's own database that one statement writes."""


@dataclass(frozen=True, slots=True)
class TransferredAgent:
    """What is stored of an agent."""

    agent: AgentId
    epoch: int
    """The agent's epoch in the other store; here it has a higher one."""
    events: AsyncIterator[Sequence[Stored]]
    """Its log, in parts. Events keep their numbers: clients have cursors."""
    rows: Iterable[Row]
    """The rows that the log implies."""
    wake: Millis | None
    states_gone: int = 0
    """How many states retention has deleted from the log."""
    database: bytes | None = None
    """The image of its own SQL database, in rollback mode."""


async def transfer_agent(
    connector: Connector, days: Days, connection: Any, fence: Fence, given: TransferredAgent
) -> None:
    """Write an agent that is not there yet. No node owns it afterwards.

    Raises:
        UsageError: an agent with this name has a log.
        OwnedElsewhere: another node owns the agent's root.
    """
    sql, agent = connector.sql, given.agent
    async with connection.transaction():
        found = await connection.fetchrow(sql["activate"], *fence, agent, root_id(agent), 0, [], True)
        if found["key"] is None:
            raise OwnedElsewhere(f"unable to write {agent!r}; node {found['owner']} owns it", node=found["owner"] or 0)
        if found["head"]:
            raise UsageError(f"unable to write {agent!r}; an agent with this name exists")
        key, epoch = found["key"], max(found["epoch"], given.epoch + 1)
        lease = [key], [epoch], [found["root"]], [found["term"]]
        await connection.execute(sql["set_epoch"], key, epoch)
        pending = PostgresPendingRows(days)
        async for events in given.events:
            columns = _columns(key, epoch, events)
            if await connection.fetchval(sql["append"], *fence, *lease, *columns) is not None:
                raise Fenced(f"unable to write {agent!r}; it has another owner now")
            pending.heads[key] = events[-1].seq
        for row in given.rows:
            pending.put(key, row, 0)
        pending.wake(key, given.wake)
        proof = key, epoch, found["root"], found["term"]
        if not await connection.fetchval(sql["replace_rows"], *fence, *proof, *pending.arguments()):
            raise Fenced(f"unable to write {agent!r}; it has another owner now")
        await connection.execute(sql["note_replaced_states"], key)
        if given.states_gone:
            await connection.execute(sql["set_pruned_states"], key, given.states_gone)
        if given.database is not None:
            await _write_database(connector, connection, key, given.database)
        await connection.execute(sql["release"], *fence, *lease[2:])


def _columns(key: int, epoch: int, events: Sequence[Stored]) -> list[list[Any]]:
    """Return the columns of events. All lie in partition 0: retention deletes them one by one when they are old."""
    rows: list[tuple[Any, ...]] = []
    for first, run in _runs(events):
        seq = first.seq - 1
        for kind, turn, more, body in pack([Entry(each.kind, each.turn, each.body) for each in run]):
            seq += more + 1
            rows.append((key, seq, 0, epoch, first.at, kind, turn, more, body))
    return [list(column) for column in zip(*rows, strict=True)]


def _runs(events: Sequence[Stored]) -> Iterable[tuple[Stored, list[Stored]]]:
    """Yield runs of events that follow each other without a gap and have the same time, each with its first one."""
    run: list[Stored] = []
    for event in events:
        if run and (event.seq != run[-1].seq + 1 or event.at != run[0].at):
            yield run[0], run
            run = []
        run.append(event)
    if run:
        yield run[0], run


async def _write_database(connector: Connector, connection: Any, key: int, image: bytes) -> None:
    size = int.from_bytes(image[16:18], "big")
    size = 65536 if size == 1 else size
    pages = [image[at : at + size] for at in range(0, len(image), size)]
    for start in range(0, len(pages), PAGES_AT_ONCE):
        part = pages[start : start + PAGES_AT_ONCE]
        await connection.execute(connector.sql["add_pages"], key, list(range(start, start + len(part))), part)
