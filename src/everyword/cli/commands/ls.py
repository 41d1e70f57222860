"""`everyword ls`: list the agents with their status."""

from __future__ import annotations

import argparse
import asyncio
import fnmatch
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ...core.restore import restore
from ...errors import BadMessage
from ...messages.message import UIMessage
from ...runtime.clock import SystemClock
from ..agent_status import COLOURS, STATUSES, AgentStatus, status_of
from ..arguments import add_store, parse_count, parse_duration
from ..log_reader import AgentSummary, LogReader
from ..message_lines import title_of
from ..output import Output
from ..store_access import reading, shown_address
from ..text import age, count_of, iso, one_line

__all__ = ["HELP", "add_arguments", "run"]

HELP = """\
List the agents of a store, most recently active first. Works while a server is running.

  running   a turn is in progress
  stuck     work should continue but does not: no server is running, or no event for --stuck-after
  failed    the last turn ended with an error
  asking    a tool call waits for an approval or for an answer from the page
  waiting   a turn or a job is scheduled for later
  idle      none of these

examples:
  everyword ls
  everyword ls --failed --stuck
  everyword ls 'chat/*' --sort name --limit 0
  everyword ls --stuck --json | jq -r '.[].agent'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pattern", nargs="*", metavar="PATTERN", help="part of the name, or a pattern with * and ?")
    for status in STATUSES:
        parser.add_argument(f"--{status}", action="store_true", help=f"only agents that are {status}")
    parser.add_argument(
        "--sort", choices=["active", "name", "turns", "state"], default="active", help="(default: %(default)s)"
    )
    parser.add_argument("--reverse", action="store_true", help="reverse the order")
    parser.add_argument(
        "--limit", type=parse_count, default=50, metavar="N", help="maximum number, 0 for all (default: %(default)s)"
    )
    parser.add_argument(
        "--stuck-after",
        default="5m",
        metavar="TIME",
        help="time without an event before a turn counts as stuck (default: %(default)s)",
    )
    add_store(parser)


Listed = tuple[AgentSummary, AgentStatus]

TITLE = 60


def run(chosen: argparse.Namespace) -> int:
    """List the agents of a file."""
    return asyncio.run(_list(Output(is_json=chosen.json), chosen))


async def _list(output: Output, chosen: argparse.Namespace) -> int:
    now, silent = SystemClock().now(), parse_duration(chosen.stuck_after)
    async with reading(chosen.db) as store:
        is_served = await store.is_served()
        summaries = await store.summaries()
        listed = [(summary, status_of(summary, now, is_served=is_served, stuck_after=silent)) for summary in summaries]
        found = _sorted(_wanted(listed, chosen), chosen.sort, is_reversed=chosen.reverse)
        shown = found[: chosen.limit] if chosen.limit else found
        paths = [await _path(store, summary) for summary, _ in shown]
    if output.is_json:
        pairs = zip(shown, paths, strict=True)
        output.json([_as_json(summary, status, path) for (summary, status), path in pairs])
        return 0
    if shown:
        _print(output, shown, paths, now)
    _sum_up(output, listed, found, shown, db=chosen.db, is_served=is_served)
    return 0


def _wanted(listed: Sequence[Listed], chosen: argparse.Namespace) -> list[Listed]:
    words = [word for word in STATUSES if getattr(chosen, word)]
    return [
        (summary, status)
        for summary, status in listed
        if (not words or status.word in words)
        and (not chosen.pattern or any(_matches(summary.id, pattern) for pattern in chosen.pattern))
    ]


def _matches(agent: str, pattern: str) -> bool:
    has_wildcard = any(letter in pattern for letter in "*?[")
    return fnmatch.fnmatchcase(agent, pattern) if has_wildcard else pattern in agent


def _sorted(listed: list[Listed], by: str, *, is_reversed: bool) -> list[Listed]:
    match by:
        case "name":
            listed.sort(key=lambda pair: pair[0].id)
        case "turns":
            listed.sort(key=lambda pair: (-pair[0].turns, pair[0].id))
        case "state":
            listed.sort(key=lambda pair: (STATUSES.index(pair[1].word), -(pair[0].active_at or 0)))
        case _:
            listed.sort(key=lambda pair: -(pair[0].active_at or 0))
    return listed[::-1] if is_reversed else listed


async def _path(store: LogReader, summary: AgentSummary) -> list[UIMessage]:
    """Return the messages that clients see, without those that cannot be decoded: `doctor` reports them."""
    row, messages = await store.conversation(summary.id)
    state, _ = restore(row, [], messages, [])
    found: list[UIMessage] = []
    for _, node in state.tree.shown_path():
        try:
            found.append(UIMessage.decode(node.shown or b""))
        except BadMessage:
            continue
    return found


def _print(output: Output, shown: Sequence[Listed], paths: Sequence[list[UIMessage]], now: int) -> None:
    rows = [
        [
            status.word,
            one_line(summary.id),
            str(len(path)),
            str(summary.turns),
            age(summary.active_at, now),
            one_line(status.why) or (title_of(path[-1]) if path else ""),
        ]
        for (summary, status), path in zip(shown, paths, strict=True)
    ]
    styles = [[COLOURS[status.word], "bold", "", "", "dim", "" if status.why else "dim"] for _, status in shown]
    output.table(["STATE", "AGENT", "MESSAGES", "TURNS", "ACTIVE", "REASON OR LAST MESSAGE"], rows, styles)


def _sum_up(
    output: Output,
    listed: Sequence[Listed],
    found: Sequence[Listed],
    shown: Sequence[Listed],
    *,
    db: str,
    is_served: bool,
) -> None:
    counts = Counter(status.word for _, status in listed)
    words = ", ".join(f"{counts[word]} {word}" for word in STATUSES if counts[word])
    server = "a server is running" if is_served else "no server is running"
    summary = f"{count_of(len(listed), 'agent')} in {shown_address(db)}; {server}"
    if not listed:
        output.note(f"{summary}. An agent is created by its first message")
    elif not found:
        output.note(f"{summary}: {words}; none of them match")
    else:
        left = f"; {len(found) - len(shown)} more; --limit 0 shows all" if len(found) > len(shown) else ""
        output.note(f"{summary}: {words}{left}")


def _as_json(summary: AgentSummary, status: AgentStatus, path: Sequence[UIMessage]) -> dict[str, Any]:
    return {
        "agent": summary.id,
        "state": status.word,
        "why": status.why,
        "messages": len(path),
        "turns": summary.turns,
        "activeAt": iso(summary.active_at),
        "head": summary.head,
        "epoch": summary.epoch,
        "openTurn": summary.open_turn,
        "lastOutcome": summary.last_status,
        "error": summary.last_error,
        "wakeAt": iso(summary.wake) if summary.wake else None,
        "title": title_of(path[-1])[:TITLE] if path else "",
    }
