"""`everyword tail`: follow a conversation live."""

from __future__ import annotations

import argparse
import asyncio
from contextlib import aclosing
from typing import assert_never

import msgspec

from ...errors import UsageError
from ...events import AttemptStarted, Chunk, Outcome, TurnAccepted, TurnEnded, encode_event
from ...ids import Seq, TurnId
from ...log.postgres.address import is_postgres
from ..arguments import add_agent, add_store, parse_count
from ..event_printer import EventPrinter
from ..event_source import CaughtUp, ConnectionLost, CurrentState, LogUpdates, SourceEvent, follow_log, follow_url
from ..output import Output
from ..store_access import find_agent, reading
from ..text import iso

__all__ = ["HELP", "add_arguments", "run", "tail"]

HELP = """\
Follow a conversation live: text as it grows, tool calls as they run, how turns end. Reads the database while a server
is running, or a server by its URL. Ctrl+C quits. --json writes the events themselves, one per line. When a PostgreSQL
database or a server cannot be reached for a while, the command goes on from the last event that it has printed.

examples:
  everyword tail chat/ann
  everyword tail chat/ann --url http://localhost:8787
  everyword tail https://example.org/agents/chat/ann --header 'authorization=Bearer …'
  everyword tail chat/ann --after 0 --until-idle --json > ann.jsonl
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_agent(parser, "kind/name, or the agent's URL")
    parser.add_argument("--url", metavar="URL", help="read from this server instead of a file")
    parser.add_argument("--header", action="append", default=[], metavar="NAME=VALUE", help="header for the server")
    parser.add_argument(
        "-n",
        "--lines",
        type=parse_count,
        default=4,
        metavar="N",
        help="number of earlier messages to show first (default: %(default)s)",
    )
    parser.add_argument("--after", type=int, metavar="SEQ", help="start after this event; 0 shows the whole log")
    parser.add_argument(
        "--until-idle", action="store_true", help="quit when no turn is open; exit code 1 if the last turn failed"
    )
    add_store(parser)


def run(chosen: argparse.Namespace) -> int:
    """Follow an agent; return 1 when the last turn before `--until-idle` quit has failed."""
    return asyncio.run(tail(Output(is_json=chosen.json), chosen))


async def tail(output: Output, chosen: argparse.Namespace) -> int:
    """Follow an agent; return the exit code, if ever."""
    after = Seq(chosen.after) if chosen.after is not None else None
    if after is not None and after < 0:
        raise UsageError("unable to start there; --after takes the seq of an event, or 0 for the whole log")
    url, agent = (chosen.agent, "") if "://" in chosen.agent else (chosen.url, chosen.agent)
    if url is not None:
        return await _follow(output, chosen, follow_url(url, agent, after, _pairs(chosen.header)))
    async with reading(chosen.db) as store:
        found = find_agent(await store.agents(), agent, chosen.db)
        if not is_postgres(chosen.db):
            return await _follow(output, chosen, follow_log(store, found, after))
        from ..postgres_reader import is_connection_lost

        return await _follow(output, chosen, follow_log(store, found, after, is_lost=is_connection_lost))


async def _follow(output: Output, chosen: argparse.Namespace, news: LogUpdates) -> int:
    shown: EventPrinter | _Lines = _Lines(output) if output.is_json else EventPrinter(output)
    is_behind = True
    async with aclosing(news) as pages:
        async for each in pages:
            match each:
                case CurrentState():
                    shown.here(each, chosen.lines)
                case SourceEvent():
                    shown.happened(each)
                case CaughtUp():
                    is_behind = False
                case ConnectionLost():
                    output.note(f"{each.why}. Going on from here when it can be read again")
                case _:
                    assert_never(each)
            if chosen.until_idle and not is_behind and not shown.open:
                break
    return 1 if shown.outcome is Outcome.ERROR else 0


class _Lines:
    """Prints events as lines of JSON."""

    def __init__(self, output: Output) -> None:
        self.open: dict[TurnId, None] = {}
        self.outcome: Outcome | None = None
        self._output = output

    def here(self, here: CurrentState, count: int) -> None:
        self.open = dict.fromkeys(here.open)
        messages = [message.to_dict() for message in list(here.messages)[-count:]] if count else []
        self._output.json_line({"here": {"messages": messages, "open": {str(k): v for k, v in here.open.items()}}})

    def happened(self, news: SourceEvent) -> None:
        match news.event:
            case TurnAccepted() as accepted if not accepted.kind.is_bare:
                self.open[accepted.turn] = None
            case AttemptStarted() | Chunk() as event:  # of a turn that was accepted before the reader started
                self.open.setdefault(event.turn)
            case TurnEnded() as ended:
                self.open.pop(ended.turn, None)
                self.outcome = ended.outcome
            case _:
                pass
        self._output.json_line({"seq": news.seq, "at": iso(news.at), "event": msgspec.Raw(encode_event(news.event))})


def _pairs(given: list[str]) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in given]
    if any(not found for _, found, _ in pairs):
        raise UsageError("unable to use a header; write --header NAME=VALUE")
    return {name: value for name, _, value in pairs}
