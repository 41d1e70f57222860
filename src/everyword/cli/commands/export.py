"""`everyword export`: write an agent and its sub-agents to a file."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from ...errors import LogCorrupt
from ...events import decode_event
from ...ids import AgentId, children_prefix
from ...log.base import Stored
from ...runtime.clock import SystemClock
from ..agent_copy import read_log, without_detail
from ..agent_file import opened_to_write, pack
from ..arguments import add_agent, add_store
from ..output import Output
from ..store_access import find_agent, reading
from ..text import count_of, iso, own_databases

__all__ = ["HELP", "add_arguments", "run"]

HELP = """\
Write an agent and all its sub-agents to one file, with their own SQL databases: lines of JSON with a checksum,
compressed if the name ends in .gz. `everyword import` reads it into a file or a PostgreSQL database. Works while a
server is running. Exception texts may contain secrets and are left out unless you pass --with-details.

examples:
  everyword export chat/ann
  everyword export chat/ann -o - | head -1
  everyword export chat/ann -o ann.jsonl --force
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_agent(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="(default: kind-name.everyword.gz; - is standard output)"
    )
    parser.add_argument("--force", action="store_true", help="overwrite FILE")
    parser.add_argument("--with-details", action="store_true", help="keep the texts of exceptions")
    add_store(parser)


def run(chosen: argparse.Namespace) -> int:
    """Write an agent to a file."""
    return asyncio.run(_export(Output(is_json=chosen.json), chosen))


async def _export(output: Output, chosen: argparse.Namespace) -> int:
    async with reading(chosen.db) as store:
        agent = find_agent(await store.agents(), chosen.agent, chosen.db)
        family = [agent, *await store.agents(children_prefix(agent))]
        logs: list[tuple[AgentId, Sequence[Stored]]] = []
        databases: dict[AgentId, bytes] = {}
        left_out = 0
        with output.progress("reading", len(family)) as bar:
            for member in family:
                log = _checked(member, await read_log(store, member))
                kept = log if chosen.with_details else [_without_detail(each) for each in log]
                left_out += sum(one is not other for one, other in zip(log, kept, strict=True))
                logs.append((member, kept))
                database = await store.database(member)
                if database is not None:
                    databases[member] = database
                bar.step(member)
    if left_out:
        output.note(f"{count_of(left_out, 'exception text')} left out; --with-details keeps them")
    now = iso(SystemClock().now()) or ""
    if chosen.output == "-":
        pack(sys.stdout.buffer, logs, now, databases)
        sys.stdout.flush()
        return 0
    path = chosen.output or f"{agent.replace('/', '-')}.everyword.gz"
    with opened_to_write(path, may_replace=chosen.force) as out:
        events = pack(out, logs, now, databases)
    if output.is_json:
        output.json({"file": path, "agents": family, "events": events, "databases": len(databases)})
    else:
        below = f" and {count_of(len(family) - 1, 'sub-agent')}" if len(family) > 1 else ""
        output.print(f"{path}: {agent}{below}, {count_of(events, 'event')}{own_databases(len(databases))}")
    return 0


def _checked(agent: AgentId, log: Sequence[Stored]) -> Sequence[Stored]:
    for stored in log:
        try:
            decode_event(stored.body)
        except msgspec.DecodeError as exc:
            raise LogCorrupt(f"unable to export {agent!r}; event {stored.seq} cannot be read ({exc})") from exc
    return log


def _without_detail(stored: Stored) -> Stored:
    body = without_detail(stored.body)
    return stored if body is stored.body else replace(stored, body=body)
