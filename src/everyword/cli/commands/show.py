"""`everyword show`: one conversation, its turns and how each of them ended."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from ...core.restore import restore
from ...core.state import State
from ...core.tree import Node
from ...errors import BadMessage
from ...events import Event, decode_event
from ...ids import AgentId, Millis, NodeId, children_prefix
from ...log.base import Activation
from ...messages.message import UIMessage
from ...rows import TurnRow
from ...runtime.clock import SystemClock
from ..agent_status import COLOURS, AgentStatus, status_of
from ..arguments import add_agent, add_store, parse_count
from ..log_reader import AgentSummary
from ..message_lines import brief, render_message
from ..output import Output
from ..store_access import find_agent, reading
from ..text import age, count_of, iso, one_line

__all__ = ["HELP", "add_arguments", "restore_loaded", "run"]

HELP = """\
Show one conversation: its status, the messages that clients see, and its turns with how each of them ended. Works
while a server is running.

examples:
  everyword show chat/ann
  everyword show ann -n 4             the name alone, if it is unique
  everyword show chat/ann --turns
  everyword show chat/ann --json | jq '.turns[] | select(.status == "error")'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_agent(parser)
    parser.add_argument("-n", "--last", type=parse_count, metavar="N", help="only the last N messages")
    parser.add_argument("--all", action="store_true", help="all versions and turns, and every value at full length")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--turns", action="store_true", help="only the turns")
    chosen.add_argument("--messages", action="store_true", help="only the messages")
    chosen.add_argument("--state", action="store_true", help="only the agent's state, as JSON")
    add_store(parser)


OUTCOMES = {"completed": "green", "error": "red", "aborted": "yellow", "skipped": "dim", "running": "cyan"}


ROOMY, NARROW = 130, 9
"""Columns from which on a request id is shown in full, and the length to which it is cut otherwise."""


def run(chosen: argparse.Namespace) -> int:
    """Show one agent."""
    return asyncio.run(_show(Output(is_json=chosen.json), chosen))


async def _show(output: Output, chosen: argparse.Namespace) -> int:
    async with reading(chosen.db) as store:
        agent = find_agent(await store.agents(), chosen.agent, chosen.db)
        summary = next(summary for summary in await store.summaries() if summary.id == agent)
        loaded = await store.load(agent)
        turns = await store.turns(agent)
        status = status_of(summary, SystemClock().now(), is_served=await store.is_served())
        children = await store.agents(children_prefix(agent))
    state, problems = restore_loaded(loaded)
    if output.is_json:
        output.json(_as_json(agent, state, loaded, turns, status, children))
        return 0
    if chosen.state:
        output.print(msgspec.json.format(state.value or b"null", indent=2).decode())
        return 0
    _print_head(output, summary, state, status, children)
    if not chosen.turns:
        _print_messages(output, state, chosen)
    if not chosen.messages:
        _print_turns(output, turns if chosen.all or chosen.turns else turns[-10:], len(turns))
    for problem in problems:
        output.note(f"{problem}; run `everyword doctor`")
    return 0


def restore_loaded(loaded: Activation) -> tuple[State, Sequence[str]]:
    """Return the state that a loaded agent has, and a sentence for each row that could not be read."""
    streamed: list[tuple[Millis, Event]] = []
    problems: list[str] = []
    for stored in loaded.chunks:
        try:
            streamed.append((stored.at, decode_event(stored.body)))
        except msgspec.DecodeError as exc:
            problems.append(f"unable to read event {stored.seq}; {exc}")
    state, others = restore(loaded.agent, loaded.turns, loaded.messages, streamed, loaded.kept)
    return state, [*problems, *others]


def _print_head(
    output: Output, summary: AgentSummary, state: State, status: AgentStatus, children: Sequence[str]
) -> None:
    word = output.style(status.word, *filter(None, [COLOURS[status.word], "bold"]))
    why = f": {one_line(status.why)}" if status.why else ""
    output.print(f"{output.style(one_line(summary.id), 'bold')}  {word}{why}")
    counts = [count_of(len(state.tree.shown_path()), "message"), count_of(summary.turns, "turn")]
    if state.generation:
        counts.append(f"cleared {count_of(state.generation, 'time')}")
    if state.jobs:
        counts.append(count_of(len(state.jobs), "job"))
    counts.append(f"active {age(summary.active_at, SystemClock().now())}")
    output.print(output.style(", ".join(counts), "dim"))
    if state.value is not None:
        output.print(f"{output.style('state', 'dim')} {brief(msgspec.json.decode(state.value))}")
    for child in children:
        output.print(f"{output.style('child', 'dim')} {one_line(child)}")


def _print_messages(output: Output, state: State, chosen: argparse.Namespace) -> None:
    path = state.tree.shown_path()
    shown = path if chosen.all or chosen.last is None else path[len(path) - min(chosen.last, len(path)) :]
    if len(shown) < len(path):
        output.print(output.style(f"\n… {count_of(len(path) - len(shown), 'message')} earlier", "dim"))
    places = list(state.tree.nodes.items()) if chosen.all else shown
    active = set(state.tree.active_path())
    for number, place in ((number, place) for number, place in places if place.shown is not None):
        output.print()
        output.print(_message_head(output, state, number, place, is_left=number not in active))
        for line in _lines(output, place, is_whole=chosen.all):
            output.print(line)
    for turn in state.chat_turns():
        if turn.fold is not None and not turn.fold.is_empty and state.tree.nodes[turn.node].draft is None:
            output.print()
            output.print(f"{output.style('assistant', 'green', 'bold')}  {output.style('in progress', 'yellow')}")
            for line in render_message(output, turn.fold.message()):
                output.print(line)


def _message_head(output: Output, state: State, number: NodeId, place: Node, *, is_left: bool) -> str:
    colour = {"user": "blue", "assistant": "green"}.get(place.role, "dim")
    there = state.tree.versions(number)
    version = f"version {there.index(number) + 1} of {len(there)}" if len(there) > 1 and number in there else ""
    marks = [version, "not shown" if is_left else "", "draft" if place.draft is not None else ""]
    about = "  ".join([one_line(place.id), _clock_time(place.at), *filter(None, marks)])
    return f"{output.style(place.role, colour, 'bold')}  {output.style(about, 'dim')}"


def _lines(output: Output, place: Node, *, is_whole: bool) -> list[str]:
    try:
        return list(render_message(output, UIMessage.decode(place.shown or b""), is_whole=is_whole))
    except BadMessage as exc:
        return [f"  {output.style(str(exc), 'red')}"]


def _print_turns(output: Output, turns: Sequence[TurnRow], total: int) -> None:
    if not turns:
        return
    output.print()
    if len(turns) < total:
        output.print(output.style(f"the newest {len(turns)} of {total} turns; --turns shows all", "dim"))
    rows = [
        [
            str(row.turn),
            row.status,
            row.kind.value,
            str(row.attempt),
            str(row.chunks) if not row.is_open else "-",
            _clock_time(row.accepted_at),
            f"{(row.ended_at - row.accepted_at) / 1000:.1f} s" if row.ended_at is not None else "-",
            _cut(one_line(row.request), NARROW if output.width < ROOMY else len(row.request)),
            one_line(" ".join(filter(None, [row.error or row.reason or row.finish_reason, row.detail]))),
        ]
        for row in turns
    ]
    styles = [["", OUTCOMES.get(row.status, "cyan")] for row in turns]
    heads = ["TURN", "STATUS", "KIND", "ATTEMPTS", "CHUNKS", "ACCEPTED", "DURATION", "REQUEST", "RESULT"]
    output.table(heads, rows, styles)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _clock_time(at: Millis) -> str:
    """Return a local time, without the day if it is today."""
    then, now = (datetime.fromtimestamp(each / 1000, tz=UTC).astimezone() for each in (at, SystemClock().now()))
    return then.strftime("%H:%M:%S" if then.date() == now.date() else "%Y-%m-%d %H:%M:%S")


def _as_json(
    agent: AgentId,
    state: State,
    loaded: Activation,
    turns: Sequence[TurnRow],
    status: AgentStatus,
    children: Sequence[str],
) -> dict[str, Any]:
    active = set(state.tree.active_path())
    return {
        "agent": agent,
        "standing": status.word,
        "why": status.why,
        "epoch": loaded.epoch,
        "head": loaded.head,
        "generation": state.generation,
        "state": _raw(state.value),
        "messages": [
            {
                "node": number,
                "parent": place.parent,
                "isShown": number in active,
                "isDraft": place.draft is not None,
                "at": iso(place.at),
                "message": _raw(place.shown),
            }
            for number, place in state.tree.nodes.items()
            if place.shown is not None
        ],
        "turns": [turn_as_json(row) for row in turns],
        "jobs": [
            {"job": job, "callback": each.added.callback, "due": iso(each.due)} for job, each in state.jobs.items()
        ],
        "children": list(children),
    }


def turn_as_json(row: TurnRow) -> dict[str, Any]:
    """Return a turn as JSON."""
    return {
        "turn": row.turn,
        "request": row.request,
        "kind": row.kind.value,
        "status": row.status,
        "attempt": row.attempt,
        "chunks": row.chunks if not row.is_open else None,
        "messageId": row.message_id,
        "acceptedAt": iso(row.accepted_at),
        "endedAt": iso(row.ended_at),
        "finishReason": row.finish_reason,
        "reason": row.reason,
        "error": row.error,
        "detail": row.detail,
        "usage": _raw(row.usage),
    }


def _raw(value: bytes | None) -> msgspec.Raw | None:
    """Return stored JSON unchanged, or None if it is damaged: the document must stay valid JSON."""
    if value is None:
        return None
    try:
        msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return msgspec.Raw(value)
