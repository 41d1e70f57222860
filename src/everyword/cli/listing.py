"""`everyword ls`: every conversation in one line, those that want something first to be seen."""

from __future__ import annotations

import argparse
import asyncio
import fnmatch
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..core.restore import restore
from ..errors import BadMessage
from ..messages.message import UIMessage
from ..runtime.clock import SystemClock
from .opening import parse_duration, reading
from .readonly import Glance, ReadOnlyLog, holder_of
from .rendering import title_of
from .screen import Screen, age, count_of, iso, one_line
from .standing import COLOURS, WORDS, Standing, standing_of

__all__ = ["run"]

Listed = tuple[Glance, Standing]

TITLE = 60


def run(chosen: argparse.Namespace) -> int:
    """List the agents of a file."""
    return asyncio.run(_list(Screen(is_json=chosen.json), chosen))


async def _list(screen: Screen, chosen: argparse.Namespace) -> int:
    now, silent = SystemClock().now(), parse_duration(chosen.stuck_after)
    async with reading(chosen.db) as store:
        is_served = holder_of(store.path) is not None
        glances = await store.glances()
        listed = [(glance, standing_of(glance, now, is_served=is_served, silent_after=silent)) for glance in glances]
        found = _sorted(_wanted(listed, chosen), chosen.sort, is_reversed=chosen.reverse)
        shown = found[: chosen.limit] if chosen.limit else found
        paths = [await _path(store, glance) for glance, _ in shown]
    if screen.is_json:
        pairs = zip(shown, paths, strict=True)
        screen.document([_as_json(glance, standing, path) for (glance, standing), path in pairs])
        return 0
    if shown:
        _print(screen, shown, paths, now)
    _sum_up(screen, listed, found, shown, db=chosen.db, is_served=is_served)
    return 0


def _wanted(listed: Sequence[Listed], chosen: argparse.Namespace) -> list[Listed]:
    words = [word for word in WORDS if getattr(chosen, word)]
    return [
        (glance, standing)
        for glance, standing in listed
        if (not words or standing.word in words)
        and (not chosen.pattern or any(_matches(glance.id, pattern) for pattern in chosen.pattern))
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
            listed.sort(key=lambda pair: (WORDS.index(pair[1].word), -(pair[0].active_at or 0)))
        case _:
            listed.sort(key=lambda pair: -(pair[0].active_at or 0))
    return listed[::-1] if is_reversed else listed


async def _path(store: ReadOnlyLog, glance: Glance) -> list[UIMessage]:
    """Return the messages that are shown; those that cannot be read are for `doctor` to tell of."""
    row, messages = await store.conversation(glance.id)
    state, _ = restore(row, [], messages, [])
    found: list[UIMessage] = []
    for _, node in state.tree.shown_path():
        try:
            found.append(UIMessage.decode(node.shown or b""))
        except BadMessage:
            continue
    return found


def _print(screen: Screen, shown: Sequence[Listed], paths: Sequence[list[UIMessage]], now: int) -> None:
    rows = [
        [
            standing.word,
            one_line(glance.id),
            str(len(path)),
            str(glance.turns),
            age(glance.active_at, now),
            one_line(standing.why) or (title_of(path[-1]) if path else ""),
        ]
        for (glance, standing), path in zip(shown, paths, strict=True)
    ]
    styles = [[COLOURS[standing.word], "bold", "", "", "dim", "" if standing.why else "dim"] for _, standing in shown]
    screen.table(["STATE", "AGENT", "MESSAGES", "TURNS", "ACTIVE", "WHY, OR WHAT WAS SAID LAST"], rows, styles)


def _sum_up(
    screen: Screen,
    listed: Sequence[Listed],
    found: Sequence[Listed],
    shown: Sequence[Listed],
    *,
    db: str,
    is_served: bool,
) -> None:
    counts = Counter(standing.word for _, standing in listed)
    words = ", ".join(f"{counts[word]} {word}" for word in WORDS if counts[word])
    server = "a server runs" if is_served else "no server runs"
    summary = f"{count_of(len(listed), 'agent')} in {db}; {server}"
    if not listed:
        screen.note(f"{summary}. They come into being when somebody talks to them")
    elif not found:
        screen.note(f"{summary}: {words}; none as asked for")
    else:
        left = f"; {len(found) - len(shown)} more with --limit 0" if len(found) > len(shown) else ""
        screen.note(f"{summary}: {words}{left}")


def _as_json(glance: Glance, standing: Standing, path: Sequence[UIMessage]) -> dict[str, Any]:
    return {
        "agent": glance.id,
        "state": standing.word,
        "why": standing.why,
        "messages": len(path),
        "turns": glance.turns,
        "activeAt": iso(glance.active_at),
        "head": glance.head,
        "epoch": glance.epoch,
        "openTurn": glance.open_turn,
        "lastOutcome": glance.last_status,
        "error": glance.last_error,
        "wakeAt": iso(glance.wake) if glance.wake else None,
        "title": title_of(path[-1])[:TITLE] if path else "",
    }
