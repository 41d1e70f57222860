"""`everyword doctor`: check a database file and an app, and say how to repair them."""

from __future__ import annotations

import argparse
import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...errors import LogCorrupt, LogLocked, UsageError
from ...ids import AgentId
from ...runtime.clock import SystemClock
from ...runtime.rebuild import rebuild
from ...runtime.stored_ids import doubles
from ...server import Everyword
from ..agent_check import CheckedAgent, examine
from ..app_check import check_setup
from ..app_import import DEFAULT_APP
from ..arguments import add_store
from ..attachments import CheckedAttachments, add_attachments, attachments_of, check_attachments
from ..log_reader import LogReader
from ..output import Output
from ..store_access import find_agent, leased_if_shared, reading, shown_address, writing
from ..text import count_of, one_line

__all__ = ["HELP", "add_arguments", "run"]

HELP = """\
Check a store: the file or database is not damaged; each event of every agent can be decoded and follows from the
events before it; no event is missing except those that retention deleted; the chunks of each turn add up to its stored
message; turns, messages and state match the log; and work that is due has a wake-up time. Works while a server is
running.

Check an app: it can be imported, the models of its agents have their packages and API keys, and no agent is stored
under two kinds of one class, its own and an alias. Run it with the same environment variables as the server.

The exit code is 1 when there is a problem. --fix recomputes what is derived from the log; it cannot repair the log
itself.

examples:
  everyword doctor
  everyword doctor chat/ann --json
  everyword doctor --fix
  everyword doctor --app my.package:app
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("agents", nargs="*", metavar="AGENT", help="kind/name (default: all)")
    parser.add_argument(
        "--fix", action="store_true", help="recompute what is derived from the log; no server may use these agents"
    )
    app = parser.add_mutually_exclusive_group()
    app.add_argument("--app", metavar="APP", help="also check this app (default: app.py, if it exists)")
    app.add_argument("--no-app", dest="app", action="store_const", const="", help="check no app")
    add_attachments(parser)
    add_store(parser)


def run(chosen: argparse.Namespace) -> int:
    """Check a file and an app; return 1 when a problem remains."""
    log = logging.getLogger("everyword.log")
    before = log.level
    named, setup, apps = _named_app(chosen.app), list[str](), list[Everyword]()
    output = Output(is_json=chosen.json)
    if named is not None:
        setup, apps = check_setup(named)
        if chosen.app and not apps and not setup:
            raise UsageError(
                f"unable to check {named!r}; it is not an Everyword, and none is mounted in it. "
                f"Name the one that serves the agents: {named.partition(':')[0]}:name"
            )
        for line in setup if not output.is_json else ():
            output.print(f"{output.style('✗', 'red')} {one_line(named)}: {one_line(line)}")
    # The store logs the rows that it skips; the findings below report them in full.
    log.setLevel(logging.CRITICAL)
    try:
        return asyncio.run(_doctor(output, chosen, named, setup, apps))
    finally:
        log.setLevel(before)


def _named_app(given: str | None) -> str | None:
    """Return the app to import: the given one, none for an empty name, by default the one of this folder."""
    if given is not None:
        return given or None
    return DEFAULT_APP if Path(DEFAULT_APP).is_file() else None


async def _doctor(
    output: Output, chosen: argparse.Namespace, named: str | None, setup: Sequence[str], apps: Sequence[Everyword]
) -> int:
    if chosen.fix:
        async with writing(chosen.db, "repair"):
            pass  # fails at once when a process uses the file
    async with reading(chosen.db) as store:
        noun, damage = store.noun, await _damage(store)
        known = await store.agents()
        twice = [agents for app in apps for agents in doubles(known, app.kinds_of)]
        agents = [find_agent(known, agent, chosen.db) for agent in chosen.agents] or known
        examined = await _examine(output, store, agents)
        blobs = attachments_of(chosen.db, chosen.attachments)
        files = await check_attachments(blobs, store, agents, known) if blobs is not None else CheckedAttachments()
    fixed: list[AgentId] = []
    if chosen.fix and not damage:
        fixed = await _fix(output, chosen.db, [each for each in examined if each.findings and each.is_curable])
        async with reading(chosen.db) as store:
            again = {each.agent: each for each in await _examine(output, store, fixed)}
        examined = [again.get(each.agent, each) for each in examined]
    is_healthy = not damage and not setup and not twice and not any(each.findings for each in examined)
    if output.is_json:
        found = _as_json(shown_address(chosen.db), damage, examined, fixed, is_healthy=is_healthy)
        output.json({**found, "app": named, "setup": list(setup), "doubles": twice, "attachments": files.as_json()})
    else:
        for line in files.lines():
            output.note(one_line(line))
        for agents in twice:
            output.print(
                f"{output.style('✗', 'red')} {one_line(' and '.join(agents))}: two agents with kinds of the same class"
            )
            output.print(
                "    each URL leads to the agent with that kind: keep one of them, or remove the alias from the class"
            )
        _print(output, noun, damage, examined, fixed)
    return 0 if is_healthy else 1


async def _damage(store: LogReader) -> list[str]:
    try:
        found = await store.damage()
        strays = (await store.stored_counts()).get(None)
    except LogCorrupt as exc:
        return [str(exc)]
    return [*found, *([f"{count_of(strays[0], 'event')} without an agent"] if strays is not None else [])]


async def _examine(output: Output, store: LogReader, agents: Sequence[AgentId]) -> list[CheckedAgent]:
    now = SystemClock().now()
    try:
        counts = await store.stored_counts()
    except LogCorrupt:
        counts = {}
    examined: list[CheckedAgent] = []
    with output.progress("checking", len(agents)) as bar:
        for agent in agents:
            bar.step(agent)
            examined.append(await examine(store, agent, now, counts.get(agent, (0, 0))[0] or None))
    return examined


async def _fix(output: Output, db: str, examined: Sequence[CheckedAgent]) -> list[AgentId]:
    if not examined:
        return []
    fixed: list[AgentId] = []
    async with writing(db, "repair") as store:
        for each in examined:
            try:
                async with leased_if_shared(store, each.agent, "repair"):
                    await rebuild(store, each.agent, SystemClock().now())
            except LogLocked as exc:
                output.note(str(exc))
                continue
            fixed.append(each.agent)
    return fixed


def _print(
    output: Output, noun: str, damage: Sequence[str], examined: Sequence[CheckedAgent], fixed: Sequence[AgentId]
) -> None:
    for line in damage:
        output.print(f"{output.style('✗', 'red')} the {noun}: {one_line(line)}")
        output.print("    restore it from a backup; `everyword export` may still read some agents")
    for each in examined:
        if each.agent in fixed and not each.findings:
            output.print(f"{output.style('✓', 'green')} {one_line(each.agent)}: repaired")
        for finding in each.findings:
            output.print(f"{output.style('✗', 'red')} {one_line(each.agent)}: {one_line(finding.what)}")
        if each.findings:
            output.print(output.style(f"    {_cure(noun, each)}", "dim"))
        if each.is_busy:
            output.note(f"{each.agent} grew faster than it could be checked; try again when it is idle")
    sick = sum(1 for each in examined if each.findings)
    turns, events = sum(each.turns for each in examined), sum(each.events for each in examined)
    counted = f"{count_of(len(examined), 'agent')}, {count_of(turns, 'turn')}, {count_of(events, 'event')}"
    if sick or damage:
        problems = f"{count_of(sick, 'agent')} with problems" if sick else f"the {noun} is damaged"
        output.print(f"{counted}: {output.style(problems, 'red')}")
    else:
        output.print(f"{counted}: {output.style('no problems found', 'green')}")


def _cure(noun: str, each: CheckedAgent) -> str:
    if not each.is_curable:
        return "the log itself is damaged: restore this agent from a backup, or continue without it"
    if noun == "file":
        return "to repair: stop the server and run `everyword doctor --fix`"
    return "to repair: run `everyword doctor --fix` while no node has the agent loaded"


def _as_json(
    db: str, damage: Sequence[str], examined: Sequence[CheckedAgent], fixed: Sequence[AgentId], *, is_healthy: bool
) -> dict[str, Any]:
    return {
        "file": db,
        "isHealthy": is_healthy,
        "agents": len(examined),
        "turns": sum(each.turns for each in examined),
        "events": sum(each.events for each in examined),
        "damage": list(damage),
        "findings": [
            {"agent": each.agent, "what": finding.what, "cure": finding.cure}
            for each in examined
            for finding in each.findings
        ],
        "fixed": list(fixed),
        "notExamined": [each.agent for each in examined if each.is_busy],
    }
