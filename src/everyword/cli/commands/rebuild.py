"""`everyword rebuild`: recompute the tables that are derived from the log."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from typing import Any

from ...errors import LogCorrupt, LogLocked, UsageError
from ...ids import AgentId, Seq
from ...log.features import SEARCH, is_usable
from ...runtime.clock import SystemClock
from ...runtime.rebuild import AdminStore, rebuild
from ..arguments import add_store
from ..log_reader import LogReader
from ..output import Output
from ..store_access import find_agent, leased_if_shared, reading, writing
from ..text import count_of

__all__ = ["HELP", "add_arguments", "run"]

HELP = """\
Recompute the tables that are derived from each agent's log: turns, messages, state and jobs. The log itself is never
changed. Also upgrades a store of an older everyword version.

examples:
  everyword rebuild
  everyword rebuild chat/ann chat/bob
  everyword rebuild --search on
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("agents", nargs="*", metavar="AGENT", help="kind/name (default: all)")
    parser.add_argument(
        "--search",
        choices=("on", "off"),
        help="index the texts of all conversations for searches, or drop the index (default: leave it as it is)",
    )
    add_store(parser)


def run(chosen: argparse.Namespace) -> int:
    """Rebuild the given agents, or all, and report differences from the log; return 1 when an agent failed."""
    is_searchable = None if chosen.search is None else chosen.search == "on"
    return asyncio.run(_rebuild(Output(is_json=chosen.json), chosen.db, chosen.agents, is_searchable))


async def _rebuild(output: Output, db: str, given: Sequence[str], is_searchable: bool | None) -> int:
    async with writing(db, "rebuild") as store:
        if is_searchable and not await is_usable(SEARCH, store.nodes):
            raise UsageError(
                "unable to index texts; a node of an older release uses this store, and would leave texts of removed "
                "messages in the index. Try again when every node runs this release"
            )
        known = await store.agents()
        agents = [find_agent(known, agent, db) for agent in given] or known
        async with reading(db) as reader:
            return await _rebuild_all(output, store, reader, agents, is_searchable)


async def _rebuild_all(
    output: Output, store: AdminStore, reader: LogReader, agents: Sequence[AgentId], is_searchable: bool | None
) -> int:
    now = SystemClock().now()
    events = changed = failed = 0
    told: list[dict[str, Any]] = []
    with output.progress("rebuilding", len(agents)) as bar:
        for agent in agents:
            bar.step(agent)
            try:
                async with leased_if_shared(store, agent, "rebuild"):
                    await _check_end(reader, agent)
                    rebuilt = await rebuild(store, agent, now, is_searchable=is_searchable)
            except (LogCorrupt, LogLocked, ValueError) as exc:  # stored bytes may be damaged, even invalid UTF-8
                failed += 1
                error = f"unable to rebuild {agent!r}; {exc}" if isinstance(exc, ValueError) else str(exc)
                told.append({"agent": agent, "changes": [], "error": error})
                continue
            events += rebuilt.events
            changed += bool(rebuilt.changes)
            if rebuilt.changes:
                told.append({"agent": agent, "changes": list(rebuilt.changes), "error": None})
    if output.is_json:
        counts = {"agents": len(agents), "events": events, "changed": changed, "failed": failed}
        output.json({**counts, "told": told})
        return 1 if failed else 0
    for each in told:
        output.print(f"{each['error']}; its rows were not changed" if each["error"] else _sentence(each))
    counted = f"{count_of(len(agents), 'agent')}, {count_of(events, 'event')}"
    output.print(f"{counted}: {changed} changed, {failed} failed")
    return 1 if failed else 0


async def _check_end(reader: LogReader, agent: AgentId) -> None:
    """Refuse a log whose end is missing: its result would replace newer rows."""
    head = await reader.head(agent)
    if not await reader.read(agent, Seq(head - 1)):
        raise LogCorrupt(f"unable to rebuild {agent!r}; event {head}, the last of its log, is missing")


def _sentence(told: dict[str, Any]) -> str:
    return f"{told['agent']}: {', '.join(told['changes'])}"
