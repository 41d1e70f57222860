"""`everyword export` and `everyword import`: an agent with all below it, from one store to another."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from ..errors import LogCorrupt, UsageError
from ..events import decode_event
from ..ids import AgentId, can_name_a_root, children_prefix
from ..log.base import Stored
from ..runtime.clock import SystemClock
from .copying import fold_events, read_log, without_detail, write_agent
from .opening import find_agent, reading, writing
from .packing import Packed, opened_to_write, pack, unpack
from .screen import Screen, count_of, iso

__all__ = ["run_export", "run_import"]


def run_export(chosen: argparse.Namespace) -> int:
    """Write an agent to a file."""
    return asyncio.run(_export(Screen(is_json=chosen.json), chosen))


async def _export(screen: Screen, chosen: argparse.Namespace) -> int:
    async with reading(chosen.db) as store:
        agent = find_agent(await store.agents(), chosen.agent, chosen.db)
        family = [agent, *await store.agents(children_prefix(agent))]
        logs: list[tuple[AgentId, Sequence[Stored]]] = []
        left_out = 0
        with screen.progress("reading", len(family)) as bar:
            for member in family:
                log = _checked(member, await read_log(store, member))
                kept = log if chosen.with_details else [_without_detail(each) for each in log]
                left_out += sum(one is not other for one, other in zip(log, kept, strict=True))
                logs.append((member, kept))
                bar.step(member)
    if left_out:
        screen.note(f"left out: {count_of(left_out, 'exception text')}. Keep them with --with-details")
    now = iso(SystemClock().now()) or ""
    if chosen.output == "-":
        pack(sys.stdout.buffer, logs, now)
        sys.stdout.flush()
        return 0
    path = chosen.output or f"{agent.replace('/', '-')}.everyword.gz"
    with opened_to_write(path, may_replace=chosen.force) as out:
        events = pack(out, logs, now)
    if screen.is_json:
        screen.document({"file": path, "agents": family, "events": events})
    else:
        below = f" and {count_of(len(family) - 1, 'sub-agent')}" if len(family) > 1 else ""
        screen.say(f"{path}: {agent}{below}, {count_of(events, 'event')}")
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


def run_import(chosen: argparse.Namespace) -> int:
    """Read an agent from a file."""
    return asyncio.run(_import(Screen(is_json=chosen.json), chosen))


async def _import(screen: Screen, chosen: argparse.Namespace) -> int:
    packed = _renamed(unpack(chosen.file), chosen.new)
    counts: dict[AgentId, int] = {}
    is_open = 0
    async with writing(chosen.db, "import into", may_make=True) as store:
        with screen.progress("writing", sum(map(len, packed.agents.values()))) as bar:
            for agent, events in packed.agents.items():
                counts[agent] = await write_agent(store, agent, events)
                is_open += len(fold_events(events, agent).open)
                bar.step(agent, len(events))
    written = sum(counts.values())
    if screen.is_json:
        screen.document({"agents": list(counts), "events": written, "openTurns": is_open})
        return 0
    names = ", ".join(counts)
    screen.say(
        f"{names}: {count_of(written, 'event')} written" if written else f"{names}: there already, nothing written"
    )
    if is_open:
        screen.note(f"{count_of(is_open, 'turn')} had not ended, and will go on when a server is started")
    return 0


def _renamed(packed: Packed, given: str | None) -> Packed:
    """Return the agents under another name; what is below the first moves with it."""
    if given is None:
        return packed
    kind, _, name = given.partition("/")
    if not kind or not name or not can_name_a_root(name):
        raise UsageError(f"unable to name an agent {given!r}; write kind/name")
    old, new = next(iter(packed.agents)), AgentId(given)
    prefix, replacement = children_prefix(old), children_prefix(new)
    agents = {
        new if agent == old else AgentId(replacement + agent.removeprefix(prefix)): events
        for agent, events in packed.agents.items()
    }
    return Packed(agents, packed.exported_at)
