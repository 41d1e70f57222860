"""`everyword copy`: copy all agents of a database file into a PostgreSQL database."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ...attachments.base import BlobStore
from ...attachments.keys import folder_of, hash_in
from ...core.wanted import wanted
from ...errors import LogLocked, OwnedElsewhere, UsageError
from ...ids import AgentId, root_id
from ...log.base import Stored
from ...log.postgres.address import DatabaseAddress, is_postgres
from ...runtime.clock import SystemClock
from ...runtime.rebuild import AdminStore, fold_log
from ..arguments import add_json
from ..attachments import attachments_of, copy_conversation
from ..log_comparison import Comparison, compare_logs, read_pages
from ..log_reader import LogReader
from ..output import Output, Progress
from ..store_access import open_postgres, owner_sentence, reading, shown_address, writing
from ..text import attached, count_of, one_line, own_databases

if TYPE_CHECKING:
    from ...log.postgres.store import PostgresLog

__all__ = ["HELP", "add_arguments", "run"]

HELP = """\
Copy all agents of a database file into a PostgreSQL database, with their own SQL databases. Stop the server of the file
first; servers of the database may run. Each agent is copied in one transaction and can be used as soon as it is there:
turns that have not ended continue there, so do not start the server of the file again.

Reports of erasures of people are copied, too, and an erasure that was cut off goes on there.

If the copy is interrupted, run it again: it continues, and copies nothing twice. At the end the logs of both stores are
compared event by event; the exit code is 1 if they differ. A database that has an agent of the same name with another
log is refused before anything is written. For the way back, use `everyword export` and `everyword import`.

Attachments are copied with --attachments, the place that the app on the database uses; a copy that is made again copies
those that are missing there.

examples:
  everyword copy everyword.db postgresql://everyword@db.internal/everyword
  everyword copy old.db 'postgresql:///everyword?schema=chat' --json
"""

NAMED = 5
"""Agents that a refusal names."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="FILE", help="database file")
    parser.add_argument("target", metavar="STORE", help="address of the database: postgresql://…")
    parser.add_argument(
        "--attachments", metavar="PLACE", help="folder or s3://bucket/prefix for the attachments of the target"
    )
    parser.add_argument(
        "--from-attachments",
        metavar="PLACE",
        help="folder or s3://bucket/prefix with the attachments of FILE (default: the folder beside it)",
    )
    add_json(parser)


def run(chosen: argparse.Namespace) -> int:
    """Copy a file into a database; return 1 when they differ afterwards."""
    if is_postgres(chosen.source) or not is_postgres(chosen.target):
        raise UsageError(
            "unable to copy; this command copies a file into a PostgreSQL database: "
            "everyword copy old.db postgresql://…. For the way back, use `everyword export` and `everyword import`"
        )
    output = Output(is_json=chosen.json)
    source, target = (
        attachments_of(chosen.source, chosen.from_attachments),
        attachments_of(chosen.target, chosen.attachments),
    )
    return asyncio.run(_copy(output, chosen.source, chosen.target, _Places(source, target)))


@dataclass(frozen=True, slots=True)
class _Source:
    """The file: open for itself alone, so that no server changes it meanwhile."""

    store: AdminStore
    reader: LogReader


class _Places(NamedTuple):
    """Where the attachments of both stores are; the target's is not known without --attachments."""

    source: BlobStore | None
    target: BlobStore | None


@asynccontextmanager
async def _opened(db: str) -> AsyncIterator[_Source]:
    async with writing(db, "copy") as store, reading(db) as reader:
        yield _Source(store, reader)


async def _copy(output: Output, source_db: str, target_db: str, places: _Places) -> int:
    copied: dict[AgentId, bytes | None] = {}
    attachments = 0
    async with _opened(source_db) as source:
        target = open_postgres(target_db, "copy")
        await target.open()
        try:
            agents = await source.store.agents()
            present = await _compare(output, source, target, [each for each in agents if await target.has(each)])
            _refuse_others(present, target_db)
            for agent in present:
                attachments += await _copy_attachments(places, agent)
            missing = [agent for agent in agents if agent not in present]
            counts = await source.reader.stored_counts()
            with output.progress("copying", sum(counts.get(agent, (0, 0))[0] for agent in missing)) as bar:
                for agent in missing:
                    attachments += await _copy_attachments(places, agent)
                    copied[agent] = await _copy_agent(source, target, agent, bar)
            await _copy_erasures(source.store, target)
            compared = await _compare(output, source, target, missing)
        finally:
            await target.aclose()
    await _compare_databases(target_db, copied, compared)
    left_out = attachments if places.target is None else 0
    _report(output, target_db, present, compared, copied, attachments - left_out)
    if left_out:
        output.note(
            f"{count_of(left_out, 'attachment')} left out; name the place that the app on the database uses with "
            "--attachments, and copy again"
        )
    return 0 if all(each.is_same for each in compared.values()) else 1


async def _copy_erasures(source: AdminStore, target: PostgresLog) -> None:
    """Copy the notes of erasures, after the agents: one that was cut off goes on there, and finds them all."""
    if source.erasure is not None and target.erasure is not None:
        await target.erasure.put_notes(await source.erasure.notes())


async def _copy_attachments(places: _Places, agent: AgentId) -> int:
    """Copy the contents of a conversation that the target does not have, before its messages.

    Returns how many; without a place for them, how many there are.
    """
    if places.source is None or agent != root_id(agent):
        return 0
    keys = {blob.key async for blob in places.source.list(f"{folder_of(agent)}/")}
    if places.target is not None:
        keys -= {blob.key async for blob in places.target.list(f"{folder_of(agent)}/")}
    names = sorted(filter(None, map(hash_in, keys)))
    if places.target is None:
        return len(names)
    return await copy_conversation(places.source, places.target, agent, agent, names)


def _refuse_others(present: dict[AgentId, Comparison], target_db: str) -> None:
    others = [each for each in present.values() if not each.is_same]
    if others:
        named = ", ".join(f"{each.agent!r} ({each.why})" for each in others[:NAMED])
        more = f" and {len(others) - NAMED} more" if len(others) > NAMED else ""
        raise UsageError(
            f"unable to copy into {shown_address(target_db)}; it has {count_of(len(others), 'agent')} of the same name "
            f"with another log: {named}{more}. Destroy them there, or copy into another `schema=`. Nothing was copied"
        )


async def _copy_agent(source: _Source, target: PostgresLog, agent: AgentId, bar: Progress) -> bytes | None:
    """Copy one agent; return its own database."""
    from ...log.postgres.agent_transfer import TransferredAgent

    state, rows, _ = await fold_log(source.store, agent)
    record = await source.reader.agent_record(agent)
    database = await source.reader.database(agent)

    async def events() -> AsyncIterator[Sequence[Stored]]:
        async for page in read_pages(source.store, agent):
            yield page
            bar.step(agent, len(page))

    given = TransferredAgent(
        agent,
        record.epoch,
        events(),
        rows.rows(),
        wanted(state, SystemClock().now()).wake,
        record.states_gone,
        database,
    )
    try:
        await target.put_agent(given)
    except OwnedElsewhere as exc:
        raise LogLocked(f"unable to copy {agent!r}; {owner_sentence(target, exc.node)}") from exc
    return database


async def _compare(
    output: Output, source: _Source, target: PostgresLog, agents: Sequence[AgentId]
) -> dict[AgentId, Comparison]:
    found: dict[AgentId, Comparison] = {}
    with output.progress("comparing", len(agents)) as bar:
        for agent in agents:
            found[agent] = await compare_logs(source.store, target, agent)
            bar.step(agent)
    return found


async def _compare_databases(
    target_db: str, copied: dict[AgentId, bytes | None], compared: dict[AgentId, Comparison]
) -> None:
    """Compare the own databases of agents that were copied now; an agent that has gone on may have changed its own."""
    async with reading(target_db) as reader:
        for agent, database in copied.items():
            if not compared[agent].later and await reader.database(agent) != database:
                compared[agent].differ("its own SQL database differs")


def _report(
    output: Output,
    target_db: str,
    present: dict[AgentId, Comparison],
    compared: dict[AgentId, Comparison],
    copied: dict[AgentId, bytes | None],
    attachments: int,
) -> None:
    wrong = [each for each in compared.values() if not each.is_same]
    events = sum(each.events for each in compared.values())
    databases = sum(database is not None for database in copied.values())
    if output.is_json:
        output.json(
            {
                "copied": len(compared),
                "present": len(present),
                "events": events,
                "databases": databases,
                "attachments": attachments,
                "isSame": not wrong,
                "agents": [_as_json(each, is_new=each.agent in compared) for each in (present | compared).values()],
            }
        )
        return
    for each in wrong:
        output.print(f"{output.style('✗', 'red')} {one_line(each.agent)}: {each.why}")
    own = own_databases(databases) + attached(attachments)
    before = f"; {count_of(len(present), 'agent')} had been copied before" if present else ""
    result = f"{count_of(len(wrong), 'agent')} differ from the file" if wrong else "both stores have the same logs"
    counted = f"{count_of(len(compared), 'agent')}, {count_of(events, 'event')}{own} copied{before}"
    output.print(f"{counted}: {output.style(result, 'red' if wrong else 'green')}")
    went_on = sum(each.later > 0 for each in (present | compared).values())
    if went_on:
        output.note(f"{count_of(went_on, 'agent')} went on in {shown_address(target_db)} since")
    limit = DatabaseAddress.parse(target_db).sql_limit
    for agent, database in copied.items():
        if database is not None and len(database) > limit * 1024 * 1024:
            output.note(
                f"the SQL database of {one_line(agent)} is larger than {limit} MB, so it cannot grow; raise "
                "`sql_limit=` in the address that your app uses"
            )
    output.note("do not start the server of the file again: the agents continue in the database")


def _as_json(each: Comparison, *, is_new: bool) -> dict[str, Any]:
    return {
        "agent": each.agent,
        "isNew": is_new,
        "events": each.events,
        "sha256": each.sha256,
        "laterEvents": each.later,
        "prunedEvents": each.pruned,
        "difference": each.why or None,
    }
