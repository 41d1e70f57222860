"""`everyword tail`: one conversation, live, in the terminal."""

from __future__ import annotations

import argparse
import asyncio
from contextlib import aclosing
from typing import assert_never

import msgspec

from ..errors import UsageError
from ..events import AttemptStarted, Chunk, Outcome, TurnAccepted, TurnEnded, encode_event
from ..ids import Seq, TurnId
from .following import CaughtUp, Happened, Here, News, follow_file, follow_url
from .opening import find_agent, reading
from .screen import Screen, iso
from .telling import Teller

__all__ = ["run", "tail"]


def run(chosen: argparse.Namespace) -> int:
    """Follow an agent; 1 when `--until-idle` came to a turn that failed."""
    return asyncio.run(tail(Screen(is_json=chosen.json), chosen))


async def tail(screen: Screen, chosen: argparse.Namespace) -> int:
    """Follow an agent on a screen; returns the exit code, or never."""
    after = Seq(chosen.after) if chosen.after is not None else None
    if after is not None and after < 0:
        raise UsageError("unable to begin there; --after takes a seq, and 0 is before the first event")
    url, agent = (chosen.agent, "") if "://" in chosen.agent else (chosen.url, chosen.agent)
    if url is not None:
        return await _follow(screen, chosen, follow_url(url, agent, after, _pairs(chosen.header)))
    async with reading(chosen.db) as store:
        found = find_agent(await store.agents(), agent, chosen.db)
        return await _follow(screen, chosen, follow_file(store, found, after))


async def _follow(screen: Screen, chosen: argparse.Namespace, news: News) -> int:
    shown: Teller | _Lines = _Lines(screen) if screen.is_json else Teller(screen)
    is_behind = True
    async with aclosing(news) as pages:
        async for each in pages:
            match each:
                case Here():
                    shown.here(each, chosen.lines)
                case Happened():
                    shown.happened(each)
                case CaughtUp():
                    is_behind = False
                case _:
                    assert_never(each)
            if chosen.until_idle and not is_behind and not shown.open:
                break
    return 1 if shown.outcome is Outcome.ERROR else 0


class _Lines:
    """Writes what it is told as lines of JSON."""

    def __init__(self, screen: Screen) -> None:
        self.open: dict[TurnId, None] = {}
        self.outcome: Outcome | None = None
        self._screen = screen

    def here(self, here: Here, count: int) -> None:
        self.open = dict.fromkeys(here.open)
        messages = [message.to_dict() for message in list(here.messages)[-count:]] if count else []
        self._screen.line({"here": {"messages": messages, "open": {str(k): v for k, v in here.open.items()}}})

    def happened(self, news: Happened) -> None:
        match news.event:
            case TurnAccepted() as accepted if not accepted.kind.is_bare:
                self.open[accepted.turn] = None
            case AttemptStarted() | Chunk() as event:  # of a turn that was accepted before the reader came
                self.open.setdefault(event.turn)
            case TurnEnded() as ended:
                self.open.pop(ended.turn, None)
                self.outcome = ended.outcome
            case _:
                pass
        self._screen.line({"seq": news.seq, "at": iso(news.at), "event": msgspec.Raw(encode_event(news.event))})


def _pairs(given: list[str]) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in given]
    if any(not found for _, found, _ in pairs):
        raise UsageError("unable to use a header; write --header NAME=VALUE")
    return {name: value for name, _, value in pairs}
