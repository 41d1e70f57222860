"""`everyword nodes`: the nodes that share a database, and what each of them owns."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING, Any

from ...errors import UsageError
from ...log.postgres.address import is_postgres
from ...runtime.clock import SystemClock
from ..arguments import add_json
from ..output import Output
from ..store_access import reading_postgres, shown_address
from ..text import age, count_of, iso, one_line

if TYPE_CHECKING:
    from ..postgres_reader import OwningNode

__all__ = ["HELP", "add_arguments", "run"]

HELP = """\
List the nodes that share a PostgreSQL database: the servers, and commands that are writing. Each has a lease, which it
renews four times in its length; when the lease is over, another node takes over its agents.

  up        it serves
  draining  it is about to stop, and takes no more agents
  late      its lease is over, and no other node has noticed yet

examples:
  everyword nodes postgresql://everyword@db.internal/everyword
  everyword nodes postgresql:///everyword?schema=chat --json | jq '.[] | select(.openTurns > 0) | .name'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("db", metavar="STORE", help="address of the database: postgresql://…")
    add_json(parser)


COLOURS = {"up": "green", "draining": "yellow", "late": "red"}


def run(chosen: argparse.Namespace) -> int:
    """List the nodes of a database."""
    if not is_postgres(chosen.db):
        raise UsageError(
            "unable to list nodes; only a PostgreSQL database has some, and a file has one server. "
            "Give its address: everyword nodes postgresql://…"
        )
    return asyncio.run(_list(Output(is_json=chosen.json), chosen.db))


async def _list(output: Output, db: str) -> int:
    async with reading_postgres(db) as reader:
        nodes = await reader.nodes()
    if output.is_json:
        output.json([_as_json(node) for node in nodes])
        return 0
    if not nodes:
        output.print(f"no node uses {shown_address(db)}; agents continue when a server is started")
        return 0
    now = SystemClock().now()
    rows = [
        [
            one_line(node.name),
            str(node.id),
            _state(node),
            one_line(node.url) or "-",
            age(node.since, now),
            f"{node.remaining / 1000:.1f} s",
            str(node.agents),
            str(node.open_turns),
        ]
        for node in nodes
    ]
    heads = ["NODE", "INCARNATION", "STATE", "ADDRESS", "STARTED", "LEASE LEFT", "AGENTS", "OPEN TURNS"]
    output.table(heads, rows, [["bold", "", COLOURS[_state(node)]] for node in nodes])
    agents, turns = sum(node.agents for node in nodes), sum(node.open_turns for node in nodes)
    owned = f"{count_of(agents, 'agent')} and {count_of(turns, 'open turn')}"
    output.note(f"{count_of(len(nodes), 'node')} in {shown_address(db)}; {owned} loaded")
    return 0


def _state(node: OwningNode) -> str:
    return node.state if node.remaining > 0 else "late"


def _as_json(node: OwningNode) -> dict[str, Any]:
    return {
        "name": node.name,
        "incarnation": node.id,
        "state": _state(node),
        "address": node.url or None,
        "since": iso(node.since),
        "leaseLeft": node.remaining,
        "agents": node.agents,
        "openTurns": node.open_turns,
        "version": node.version,
    }
