"""`holdfast rebuild`: everything beside the log, computed anew."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from ..errors import LogCorrupt, UsageError
from ..ids import AgentId
from ..log.sqlite.store import SqliteLog
from ..runtime.clock import SystemClock
from ..runtime.rebuild import Rebuilt, rebuild

__all__ = ["run_rebuild"]

PATIENCE = 1.0
"""Seconds to wait for a process that has the file: whoever rebuilds is there to be told."""


def run_rebuild(db: str, agents: Sequence[str]) -> int:
    """Rebuild the agents, all if none is named, and say what was not as the log says; 1 when one could not be."""
    if not Path(db).is_file():
        raise UsageError(f"unable to rebuild {db!r}; there is no such file. Name it: --db PATH")
    return asyncio.run(_rebuild(db, [AgentId(agent) for agent in agents]))


async def _rebuild(db: str, agents: Sequence[AgentId]) -> int:
    store = SqliteLog(db, lock_timeout=PATIENCE)
    try:
        await store.open()
        known = await store.agents()
        unknown = [agent for agent in agents if agent not in set(known)]
        if unknown:
            raise UsageError(f"unable to rebuild {unknown[0]!r}; {db} has no such agent. Agents are named kind/name")
        return await _rebuild_all(store, agents or known)
    finally:
        await store.aclose()


async def _rebuild_all(store: SqliteLog, agents: Sequence[AgentId]) -> int:
    now = SystemClock().now()
    events = changed = failed = 0
    for number, agent in enumerate(agents, 1):
        _progress(f"rebuilding {number} of {len(agents)}: {agent}")
        try:
            rebuilt = await rebuild(store, agent, now)
        except LogCorrupt as exc:
            failed += 1
            _tell(f"{exc}; its rows were left as they were")
            continue
        events += rebuilt.events
        if rebuilt.changes:
            changed += 1
            _tell(_sentence(rebuilt))
    _progress("")
    print(f"{len(agents)} agents, {events} events: {changed} changed, {failed} failed")
    return 1 if failed else 0


def _sentence(rebuilt: Rebuilt) -> str:
    return f"{rebuilt.agent}: {', '.join(rebuilt.changes)}"


def _progress(text: str) -> None:
    """Show how far it is, on one line that is written over; only where somebody looks."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text[:100]}", end="", file=sys.stderr, flush=True)


def _tell(sentence: str) -> None:
    _progress("")
    print(sentence)
