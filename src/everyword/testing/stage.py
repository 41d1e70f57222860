"""One run of a conversation: a server, everybody who watches, and what they must agree on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from ..core.state import State
from ..events import TurnKind
from ..ids import agent_id
from ..messages.message import UIMessage
from .local import LocalServer
from .observers import JsonObject, Sight, Stream, Tab, find_difference, plain, settled_since
from .pace import Pace
from .play import Act, Player

__all__ = ["Stage"]

NAME: Final = "parity"
PATIENT: Final = 50
"""How often somebody is asked again before what they see is taken for what they will see."""

Known = dict[str, tuple[str, str | None]]
"""Request → how it ended, and the error text; oldest first."""


class Stage:
    """One run: a server, and everybody who watches."""

    def __init__(self, where: str, server: LocalServer, kind: str, pace: Pace, script: list[str | Act]) -> None:
        self.where, self.server, self.pace = where, server, pace
        self.comparisons = 0
        self._kind, self._script = kind, script
        self._live = self._tab("the tab that asks")
        self._tabs = [self._live, self._tab("a second tab"), self._tab("a tab that reconnects")]
        self._streams = [
            Stream("an event stream", self._tab("an event stream")),
            Stream("an event stream that reconnects", self._tabs[2]),
        ]

    def _tab(self, label: str) -> Tab:
        return Tab(label, self.server, self._kind, NAME)

    async def open(self) -> None:
        for tab in self._tabs:
            await tab.open()
        self._live.chat.connection.listen(self._follow)

    def _follow(self) -> None:
        """Have the event streams follow every turn that has said something."""
        protocol = self._live.chat.protocol
        protocol.messages  # noqa: B018 - what streams is noticed when it is read
        for request in [*protocol.answers, *protocol.endings]:
            for stream in self._streams:
                stream.follow(request)

    async def played(self) -> None:
        await Player(self._live.chat, self.pace).play(self._script)

    async def interrupt(self) -> None:
        """While the answer stands still: cut somebody off, let others come, and compare what all of them see."""
        await asyncio.gather(*(tab.settle() for tab in self._tabs))
        self._tabs[2].network.cut()
        late = await self._tab("a late tab").open()
        self._tabs.append(late)
        self._streams.append(Stream("a late event stream", late))
        await asyncio.gather(*(tab.settle() for tab in self._tabs))
        if not await self._inspect(_is_continuing):  # that is its owner's to see, until it ends (B2)
            first = list(map(plain, self._live.sight().messages))
            for tab in self._tabs[1:]:
                await _until(tab, lambda sight: list(map(plain, sight.messages)) == first)
                self._same(tab.label, first, list(map(plain, tab.sight().messages)), norm=self._live.label)
        self._follow()
        self.pace.release()

    async def compare(self) -> list[JsonObject]:
        """Compare everybody with what is stored; return that."""
        await self._live.chat.connection.until(lambda: not self._live.sight().is_waiting)
        await self._idle()
        self._tabs.append(await self._tab("a tab that comes afterwards").open())
        stored = [message.to_dict() for message in await self._live.chat.history()]
        known = await self._rows()
        for tab in self._tabs:
            must_know = self._must_know(tab, known)
            await _until(tab, lambda sight: sight.messages == stored and must_know <= sight.endings.keys())  # noqa: B023
            self._check_tab(tab, stored, known, must_know)
        for stream in [*self._streams, Stream("an event stream that comes afterwards", self._tabs[-1])]:
            for request in known:
                stream.follow(request)
            await stream.rest()
            self._check_stream(stream, stored, known)
        return stored

    def compare_with_peace(self, peace: list[JsonObject], stored: list[JsonObject]) -> None:
        one, other = [_spoken(message) for message in peace], [_spoken(message) for message in stored]
        difference = find_difference(one, other, "messages")
        self.comparisons += 1
        if difference is not None:
            raise AssertionError(
                f"{self.where}: the answer is not the one of the run in which nothing happened.\n  {difference}\n"
                "An agent that is asked to go on (`turn.attempt` > 1) finds what was said as the last message."
            )

    def _must_know(self, tab: Tab, known: Known) -> set[str]:
        """Return the turns whose end the tab has to be told: its own, and the newest if that is an error."""
        newest = {request for request in list(known)[-1:] if known[request][0] == "error"}
        return newest | {request for request in known if request in tab.chat.protocol.questions}

    def _check_tab(self, tab: Tab, stored: list[JsonObject], known: Known, must_know: set[str]) -> None:
        sight = tab.sight()
        self._same(tab.label, stored, list(sight.messages))
        told = {request: end for request, end in sight.endings.items() if request in known}
        self._same(tab.label, [known[request] for request in told], list(told.values()), "endings")
        for request in must_know - told.keys():
            raise AssertionError(f"{self.where}: {tab.label} was not told that {known[request]} was the end")
        if sight.is_waiting:
            raise AssertionError(f"{self.where}: {tab.label} still waits for something, and nothing goes on")
        if sight.problems:
            raise AssertionError(f"{self.where}: {tab.label} was sent what cannot be used: {sight.problems[0]}")

    def _check_stream(self, stream: Stream, stored: list[JsonObject], known: Known) -> None:
        by_id = {message["id"]: message for message in stored}
        written: dict[str, UIMessage] = {}
        for request in known:
            if (message := stream.seen.get(request)) is not None:
                written[message.id] = message  # the last turn of a message has all of it
        for name, message in written.items():
            if name in by_id:
                is_last = name == stored[-1]["id"]
                seen = message.to_dict() if is_last else settled_since(by_id[name], message)
                self._same(stream.label, [plain(by_id[name])], [plain(seen)])
        for request, (outcome, error) in known.items():
            if outcome == "error" and request in stream.seen:
                self._same(stream.label, [error], [stream.failures.get(request)], "error text")

    def _same(
        self, label: str, expected: list[Any], found: list[Any], what: str = "messages", norm: str = "what is stored"
    ) -> None:
        self.comparisons += 1
        difference = find_difference(expected, found, what)
        if difference is not None:
            raise AssertionError(f"{self.where}: {label} differs from {norm}.\n  {difference}")

    async def _idle(self) -> None:
        """Wait until nothing runs; somebody else's word for it, not a client's."""
        while await self._inspect(lambda state: any(state.message_turns())):
            await self._live.chat.connection.change()

    async def _inspect(self, look: Callable[[State], bool]) -> bool:
        directory = (await self.server.app.start()).directory
        async with directory.attach(agent_id(self._kind, NAME)) as loaded:
            return await loaded.actor.inspect(look)

    async def _rows(self) -> Known:
        """Return how the turns that the asking tab knows really ended, and what went on from them, oldest first.

        A turn that went on while the tab was away is one that it need not have heard of.
        """
        store: Any = (await self.server.app.start()).directory.store
        protocol = self._live.chat.protocol
        heard_of = {*protocol.endings, *protocol.answers, *protocol.questions}
        return {
            str(row.request): (row.status, row.error)
            for row in await store.turns(agent_id(self._kind, NAME))
            if not row.is_open and (row.request in heard_of or row.kind is TurnKind.CONTINUATION)
        }

    def describe(self) -> str:
        return "\n".join(f"  {tab.label} sees {tab.sight()}" for tab in self._tabs)

    async def close(self) -> None:
        for stream in self._streams:
            await stream.close()
        for tab in {id(tab): tab for tab in [*self._tabs, *(stream.tab for stream in self._streams)]}.values():
            await tab.close()


def _is_continuing(state: State) -> bool:
    return state.current is not None and state.current.is_continuation


def _spoken(message: JsonObject) -> JsonObject:
    """Return what a death must not change: who said which words and called which tools. Their fate it may (R-17)."""
    shown = plain(message)
    text = "".join(part["text"] for part in shown["parts"] if part["type"] == "text")
    calls = [[part["type"], part["toolCallId"]] for part in shown["parts"] if "toolCallId" in part]
    return {"role": shown["role"], "text": text, "calls": calls}


async def _until(tab: Tab, fact: Callable[[Sight], bool]) -> None:
    """Give a tab the chance to hear of something: a replay takes a question and its answer, and is shown as a whole."""
    for _ in range(PATIENT):
        await tab.settle()
        if fact(tab.sight()):
            return
