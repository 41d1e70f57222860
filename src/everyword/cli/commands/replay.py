"""`everyword replay`: print the frames of a stored turn as a client received them."""

from __future__ import annotations

import argparse
import asyncio
from asyncio import sleep
from typing import Any

import msgspec

from ...errors import UsageError
from ...messages.message import UIMessage
from ...rows import TurnRow
from ..arguments import add_agent, add_store, parse_count
from ..event_printer import EventPrinter
from ..event_source import SourceEvent
from ..message_lines import brief
from ..output import Output
from ..store_access import find_agent, find_turn, reading
from ..text import clean, count_of
from ..turn_replay import Frame, Play, read_play

__all__ = ["HELP", "add_arguments", "run"]

HELP = """\
Replay a stored turn to a client and print every frame in short form; with --json, as it is on the wire.

  live          the client that asked and stayed connected
  watching      another tab, connected all the time
  late          a client that connects after --at chunks, or after the turn
  reconnecting  the client that asked, lost its connection after --at chunks and reconnected after --back chunks

The last line says whether the client shows the stored message; if not, the exit code is 1.

examples:
  everyword replay chat/ann
  everyword replay chat/ann 3 --as reconnecting --at 10 --back 40
  everyword replay chat/ann --text --speed 1
  everyword replay chat/ann --as late --json | jq -c .frame
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_agent(parser)
    parser.add_argument("turn", nargs="?", metavar="TURN", help="turn number or request id (default: the newest turn)")
    roles = ["live", "watching", "late", "reconnecting"]
    parser.add_argument("--as", dest="role", choices=roles, default="live", help="which client (default: %(default)s)")
    parser.add_argument(
        "--at", type=parse_count, metavar="N", help="the client connects, or is cut off, after N chunks"
    )
    parser.add_argument(
        "--back", type=parse_count, metavar="N", help="the client reconnects after N chunks (default: at once)"
    )
    parser.add_argument(
        "--speed", type=float, metavar="X", help="1 is real time, 10 is ten times as fast (default: no pauses)"
    )
    parser.add_argument("--text", action="store_true", help="print the turn as `tail` does instead of frames")
    add_store(parser)


ARROWS = {"in": ("←", ""), "out": ("→", "cyan"), "opened": ("○", "green"), "lost": ("✗", "red")}
SAID = {"opened": "the client connects", "lost": "the connection is lost"}

LONGEST_WAIT = 5.0
"""Longest pause in seconds: a turn may have waited for an hour."""


def run(chosen: argparse.Namespace) -> int:
    """Replay a turn; return 1 when the client would show another message than the stored one."""
    return asyncio.run(_replay(Output(is_json=chosen.json), chosen))


async def _replay(output: Output, chosen: argparse.Namespace) -> int:
    async with reading(chosen.db) as store:
        agent = find_agent(await store.agents(), chosen.agent, chosen.db)
        row = await find_turn(store, agent, chosen.turn)
        play = await read_play(store, agent, row.turn, row.request)
        _check(chosen, play, row)
        if chosen.text:
            await _tell(output, play, chosen.speed)
            return 0
        begun = before = play.events[play.first].at
        async for frame in play.frames(chosen.role, chosen.at, chosen.back):
            await _wait(frame.at - before, chosen.speed)
            before = frame.at
            _print(output, frame, frame.at - begun, row.request)
        return _compare(output, play, row)


def _check(chosen: argparse.Namespace, play: Play, row: TurnRow) -> None:
    if chosen.speed is not None and chosen.speed <= 0:
        raise UsageError("unable to replay at that speed; 1 is real time, 10 is ten times as fast")
    if not row.is_open and play.chunks < row.chunks and (chosen.role != "late" or chosen.at or chosen.text):
        raise UsageError(
            f"unable to replay turn {row.turn} chunk by chunk; retention has deleted {row.chunks - play.chunks} of its "
            f"{count_of(row.chunks, 'chunk')}. To see what a client receives now: --as late"
        )


async def _tell(output: Output, play: Play, speed: float | None) -> None:
    """Print the turn as `tail` does, at the given speed."""
    printer, before = EventPrinter(output), play.events[play.first].at
    for committed in play.events[play.first : play.last + 1]:
        await _wait(committed.at - before, speed)
        before = committed.at
        printer.happened(SourceEvent(committed.seq, committed.event, committed.at))


async def _wait(milliseconds: int, speed: float | None) -> None:
    if speed is not None and milliseconds > 0:
        await sleep(min(milliseconds / 1000 / speed, LONGEST_WAIT))


def _print(output: Output, frame: Frame, after: int, request: str) -> None:
    if output.is_json:
        body = msgspec.Raw(frame.body) if frame.body else None
        output.json_line({"at": frame.at, "way": frame.way, "frame": body})
        return
    arrow, colour = ARROWS[frame.way]
    text = SAID.get(frame.way) or clean(_brief(msgspec.json.decode(frame.body), request))
    room = output.width - 12
    text = text if len(text) <= room else f"{text[: room - 1]}…"
    output.write(f"{output.style(f'{after / 1000:7.3f} s', 'dim')} {output.style(f'{arrow} {text}', colour)}\n")


def _brief(frame: dict[str, Any], request: str) -> str:
    """Return a frame on one line, with the distinguishing fields first."""
    kind = str(frame.pop("type")).removeprefix("cf_agent_")
    match kind:
        case "use_chat_response":
            body, other = frame.pop("body"), frame.pop("id")
            index = [f"seq {frame.pop('seq')}"] if "seq" in frame else []
            flags = [name for name, value in frame.items() if value is True]
            told = [f"{name} {brief(value)}" for name, value in frame.items() if not isinstance(value, bool)]
            of_another = [f"of {other}"] if other != request else []
            return " ".join(["response", *of_another, *index, *flags, *told, body]).rstrip()
        case "chat_messages":
            flags = [name for name, value in frame.items() if value is True]
            return " ".join([kind, *flags, count_of(len(frame["messages"]), "message")])
        case _:
            return " ".join([kind, *(f"{name} {brief(value)}" for name, value in frame.items())])


def _compare(output: Output, play: Play, row: TurnRow) -> int:
    """Report whether the client shows the stored message; an open turn has none yet."""
    if row.is_open:
        output.note(f"turn {row.turn} is still open; these are its frames so far")
        return 0
    told, stored = f"turn {row.turn} ended {row.status}", play.stored
    if stored is None:
        output.note(f"{told}; it stored no message")
        return 0
    seen = next((message for message in play.messages if message["id"] == stored.id), None)
    if seen is not None and UIMessage.from_dict(seen).to_dict() == stored.to_dict():
        output.note(f"{told}; the client shows the stored message")
        return 0
    output.note(f"{told}; the client shows another message than the stored one")
    return 1
