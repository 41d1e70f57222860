"""One run of `assert_parity`: a server, its observers, and the comparison of what they show."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from ..core.state import State
from ..events import TurnKind
from ..ids import agent_id
from ..messages.message import UIMessage
from .actions import ScriptAction
from .hold_points import HoldPoints
from .local_server import LocalServer
from .observers import PATIENT, AiSdkPage, JsonObject, Stream, Tab, find_difference, in_stream, plain, settled_since
from .script_player import ScriptPlayer

__all__ = ["ParityRun"]

T = TypeVar("T")

NAME: Final = "parity"

Known = dict[str, tuple[str, str | None]]
"""Request → how it ended, and the error text; oldest first."""


class ParityRun:
    """One run of a script, with a server and its observers."""

    def __init__(
        self,
        where: str,
        server: LocalServer,
        kind: str,
        points: HoldPoints,
        script: list[str | ScriptAction],
        *,
        is_strict: bool = False,
    ) -> None:
        self.where, self.server, self.points = where, server, points
        self.comparisons = 0
        self._kind, self._script = kind, script
        self._live, self._other = self._tab("the tab that asks"), self._tab("a second tab")
        self._tabs = [self._live, self._other, self._tab("a tab that reconnects")]
        self._streams = [
            Stream("an event stream", self._tab("an event stream")),
            Stream("an event stream that reconnects", self._tabs[2]),
        ]
        self._player = ScriptPlayer(self._live, self._other, points, is_strict=is_strict)
        self._pages: dict[AiSdkPage, list[str]] = {}
        """Pages of the AI SDK, each with the ids of the messages that its stream must contain."""

    def _tab(self, label: str) -> Tab:
        return Tab(label, self.server, self._kind, NAME)

    async def open(self) -> None:
        for tab in self._tabs:
            await tab.open()
        for tab in (self._live, self._other):
            tab.chat.connection.listen(self._follow)

    def _follow(self) -> None:
        """Let the event streams follow every turn that has begun its answer or has ended."""
        for protocol in (self._live.chat.protocol, self._other.chat.protocol):
            for request in list(protocol.requests.values()):
                if request.answer_id is not None or request.ending is not None:
                    for stream in self._streams:
                        stream.follow(request.id)

    async def played(self) -> None:
        await self._player.play(self._script)

    async def interrupt(self, *, cuts_acting_tab: bool) -> None:
        """While the run is held: cut a tab, connect late observers, and compare what all of them show."""
        await asyncio.gather(*(tab.settle() for tab in self._tabs))
        for tab in [self._live, self._tabs[2]] if cuts_acting_tab else [self._tabs[2]]:
            tab.network.cut()
        await self.look()

    async def look(self) -> None:
        """While the run is held: connect late observers, compare what all of them show, and release the run."""
        await self._wait_until_held()
        begun = self._player.actions_begun
        late = await self._tab("a late tab").open()
        self._tabs.append(late)
        self._streams.append(Stream("a late event stream", late))
        while True:
            done = self._player.actions_begun
            page = await self._open_page()
            difference = await self._find_disagreement(page, is_late_new=begun == done)
            if difference is None:
                break
            if self._player.actions_begun == done:
                raise AssertionError(f"{self.where}: {difference}")
            await self._close_page(
                page
            )  # a question was sent after the page had opened; its stream does not contain it
        self._follow()
        self.points.release()

    async def _wait_until_held(self) -> None:
        """Wait until the script waits, and the server has handled all its frames."""
        while not self._player.is_waiting.is_set():  # the script may continue before this task runs
            await self._player.is_waiting.wait()
        await asyncio.gather(self._live.handled(), self._other.handled())

    async def _open_page(self) -> AiSdkPage:
        await self._wait_until_held()
        page = AiSdkPage("a page of the AI SDK", self.server, self._kind, NAME)
        self._pages[page] = []
        await page.open()
        self._pages[page] = await self._inspect(_answers_due)
        return page

    async def _close_page(self, page: AiSdkPage) -> None:
        del self._pages[page]
        await page.close()

    async def _find_disagreement(self, page: AiSdkPage, *, is_late_new: bool) -> str | None:
        """Wait until all tabs and the page show the same messages in the same order, and as much of them.

        Returns the difference that remains, or None. Only the tab that started a continuation sees it until it ends
        (B2): meanwhile only the order is compared. A tab that showed the beginning of an answer before its branch was
        left receives the rest of it, and only then the new branch (R-5).
        """
        is_continuing, left = await self._inspect(_is_continuing), await self._inspect(_left)
        early = {tab.label for tab in (self._tabs[:-1] if is_late_new else self._tabs)}

        def shown() -> dict[str, list[JsonObject]]:
            seen = {tab.label: list(map(in_stream, tab.messages)) for tab in self._tabs}
            seen[page.label] = list(map(in_stream, page.messages))
            current = {name: each for name, each in seen.items() if name not in early or not left & _ids(each)}
            return {label: list(map(_named, each)) if is_continuing else each for label, each in current.items()}

        found: list[str | None] = []
        for _ in range(PATIENT):
            await asyncio.gather(*(tab.settle() for tab in self._tabs))
            stored = [message.to_dict() for message in await self._live.chat.history()]
            (norm, expected), *others = shown().items()
            # A last answer that is still written is not stored but streamed (P-44).
            is_writing = len(stored) < len(expected) and expected[-1]["role"] == "assistant"
            found = [self._differ(label, expected, messages, norm) for label, messages in others]
            found.append(self._differ_in_order("what is stored", expected[: -1 if is_writing else None], stored, norm))
            if page.problem is not None:
                return f"{page.label} was sent what it cannot use: {page.problem}"
            if not any(found):
                return None
        return next(filter(None, found))

    async def compare(self) -> list[JsonObject]:
        """Compare all observers with the stored messages; return those."""
        await self._live.chat.connection.until(lambda: not self._live.screen().is_waiting)
        await self._idle()
        self._tabs.append(await self._tab("a tab that comes afterwards").open())
        stored = [message.to_dict() for message in await self._live.chat.history()]
        known = await self._rows()
        for tab in self._tabs:
            must_know = self._must_know(tab, known)
            await tab.until(lambda: tab.screen().messages == stored and must_know <= tab.screen().endings.keys())  # noqa: B023
            self._check_tab(tab, stored, known, must_know)
        for stream in [*self._streams, Stream("an event stream that comes afterwards", self._tabs[-1])]:
            for request in known:
                stream.follow(request)
            await stream.rest()
            self._check_stream(stream, stored, known)
        for page in self._pages:
            await page.rest()
            await self._check_page(page, stored)
        return stored

    def compare_with_undisturbed(self, undisturbed: list[JsonObject], stored: list[JsonObject]) -> None:
        one, other = [_spoken(message) for message in undisturbed], [_spoken(message) for message in stored]
        difference = find_difference(one, other, "messages")
        self.comparisons += 1
        if difference is not None:
            raise AssertionError(
                f"{self.where}: the answer is not the one of the run in which nothing happened.\n  {difference}\n"
                "An agent that is asked to go on (`turn.attempt` > 1) finds what was said as the last message."
            )

    def _must_know(self, tab: Tab, known: Known) -> set[str]:
        """Return the turns whose end the tab must know: its own, and the newest if that is an error."""
        newest = {request for request in list(known)[-1:] if known[request][0] == "error"}
        requests = tab.chat.protocol.requests
        return newest | {request for request in known if request in requests and requests[request].is_mine}

    def _check_tab(self, tab: Tab, stored: list[JsonObject], known: Known, must_know: set[str]) -> None:
        screen = tab.screen()
        self._same(tab.label, stored, list(screen.messages))
        told = {request: end for request, end in screen.endings.items() if request in known}
        self._same(tab.label, [known[request] for request in told], list(told.values()), "endings")
        for request in must_know - told.keys():
            raise AssertionError(f"{self.where}: {tab.label} was not told that {known[request]} was the end")
        if screen.is_waiting:
            raise AssertionError(f"{self.where}: {tab.label} still waits for something, and nothing goes on")
        if screen.problems:
            raise AssertionError(f"{self.where}: {tab.label} was sent what cannot be used: {screen.problems[0]}")

    def _check_stream(self, stream: Stream, stored: list[JsonObject], known: Known) -> None:
        by_id = {message["id"]: message for message in stored}
        written: dict[str, UIMessage] = {}
        for request in known:
            if (message := stream.seen.get(request)) is not None:
                written[message.id] = message  # the last turn of a message has all of it
        for name, message in written.items():
            if name in by_id:
                seen = message.to_dict() if name == stored[-1]["id"] else settled_since(by_id[name], message.to_dict())
                self._same(stream.label, [plain(by_id[name])], [plain(seen)])
        for request, (outcome, error) in known.items():
            if outcome == "error" and request in stream.seen:
                self._same(stream.label, [error], [stream.failures.get(request)], "error text")

    async def _check_page(self, page: AiSdkPage, stored: list[JsonObject]) -> None:
        """Check what a page shows of the final conversation; questions that were sent later are not in its stream."""
        if page.problem is not None:
            raise AssertionError(f"{self.where}: {page.label} was sent what it cannot use: {page.problem}")
        there = _ids(stored)
        shown = [message for message in page.messages if message["id"] in there]
        known = [message for message in stored if message["id"] in _ids(shown)]
        self._check(self._differ_in_order(page.label, known, shown))
        for name in self._pages[page]:
            if name in there and name not in page.told:
                raise AssertionError(f"{self.where}: {page.label} was not told of the answer {name}")
        by_id = {message["id"]: message for message in stored}
        extended = await self._inspect(_extended)
        for message in (message for message in shown if message["id"] in page.told):
            whole = by_id[message["id"]]
            if message["id"] not in extended:
                self._same(page.label, [plain(whole)], [plain(settled_since(whole, message))])
            elif not _spoken(whole)["text"].startswith(_spoken(message)["text"]):
                self._same(page.label, [_spoken(whole)], [_spoken(message)])

    def _same(
        self, label: str, expected: list[Any], found: list[Any], what: str = "messages", norm: str = "what is stored"
    ) -> None:
        self._check(self._differ(label, expected, found, norm, what))

    def _check(self, difference: str | None) -> None:
        if difference is not None:
            raise AssertionError(f"{self.where}: {difference}")

    def _differ(
        self, label: str, expected: list[Any], found: list[Any], norm: str = "what is stored", what: str = "messages"
    ) -> str | None:
        """Return in words how an observer differs from the norm; None if it does not."""
        self.comparisons += 1
        if what == "messages" and (difference := self._differ_in_order(label, expected, found, norm)) is not None:
            return difference
        difference = find_difference(expected, found, what)
        return f"{label} differs from {norm}.\n  {difference}" if difference is not None else None

    def _differ_in_order(
        self, label: str, expected: list[JsonObject], found: list[JsonObject], norm: str = "what is stored"
    ) -> str | None:
        self.comparisons += 1
        if [message["id"] for message in expected] == [message["id"] for message in found]:
            return None
        return (
            f"{label} differs from {norm} in which messages there are, or in their order.\n"
            f"  {norm}: {_outline(expected)}\n  {label}: {_outline(found)}"
        )

    async def _idle(self) -> None:
        """Wait until no turn runs or waits on the server, whatever the clients show."""
        directory = (await self.server.app.start()).directory
        async with directory.attach(agent_id(self._kind, NAME)) as loaded, loaded.subscribe() as subscription:
            while await loaded.actor.inspect(_is_busy):
                await subscription.next()

    async def _inspect(self, look: Callable[[State], T]) -> T:
        directory = (await self.server.app.start()).directory
        async with directory.attach(agent_id(self._kind, NAME)) as loaded:
            return await loaded.actor.inspect(look)

    async def _rows(self) -> Known:
        """Return the stored outcomes of the turns that the acting tabs know, and of continuations, oldest first.

        A turn that ran while both tabs were disconnected may be unknown to them.
        """
        store: Any = (await self.server.app.start()).directory.store
        heard_of: set[str] = set()
        for protocol in (self._live.chat.protocol, self._other.chat.protocol):
            for request in protocol.requests.values():
                if request.is_mine or request.answer_id is not None or request.ending is not None:
                    heard_of.add(request.id)
        return {
            str(row.request): (row.status, row.error)
            for row in await store.turns(agent_id(self._kind, NAME))
            if not row.is_open and (row.request in heard_of or row.kind is TurnKind.CONTINUATION)
        }

    def describe(self) -> str:
        """Return in words how far the script is, and what every tab shows."""
        shown = {tab.label + " waits, and" * tab.screen().is_waiting: _outline(tab.messages) for tab in self._tabs}
        lines = [f"the play is at {self._player.doing}", *(f"{label} shows: {each}" for label, each in shown.items())]
        return "\n".join(f"  {line}" for line in lines)

    async def close(self) -> None:
        for stream in self._streams:
            await stream.close()
        for page in self._pages:
            await page.close()
        for tab in {id(tab): tab for tab in [*self._tabs, *(stream.tab for stream in self._streams)]}.values():
            await tab.close()


def _is_continuing(state: State) -> bool:
    return state.current is not None and state.current.is_continuation


def _left(state: State) -> set[str]:
    """Return the ids of the running answers on branches that are not shown."""
    path = set(state.tree.active_path())
    return {str(state.tree.nodes[turn.node].id) for turn in state.chat_turns() if turn.node not in path}


def _is_busy(state: State) -> bool:
    return any(not turn.accepted.kind.is_bare for turn in state.open.values())


def _answers_due(state: State) -> list[str]:
    """Return the ids of the running and queued answers, oldest first."""
    return [str(state.tree.nodes[turn.node].id) for turn in state.chat_turns() if not turn.is_continuation]


def _extended(state: State) -> set[str]:
    """Return the ids of the messages that more than one turn has written."""
    turns = [*state.open.values(), *state.ended.values()]
    return {str(state.tree.nodes[turn.node].id) for turn in turns if turn.extends and turn.node in state.tree.nodes}


def _ids(messages: Iterable[JsonObject]) -> set[str]:
    return {message["id"] for message in messages}


def _named(message: JsonObject) -> JsonObject:
    return {"id": message["id"], "role": message["role"], "parts": []}


def _outline(messages: Iterable[JsonObject]) -> str:
    """Return role and beginning of every message, from top to bottom."""
    return " | ".join(f"{message['role']} {_spoken(message)['text'][:30]!r}" for message in messages) or "nothing"


def _spoken(message: JsonObject) -> JsonObject:
    """Return what a crash must not change: role, text and tool calls. It may change the results of calls (R-17)."""
    shown = plain(message)
    text = "".join(part["text"] for part in shown["parts"] if part["type"] == "text")
    calls = [[part["type"], part["toolCallId"]] for part in shown["parts"] if "toolCallId" in part]
    return {"role": shown["role"], "text": text, "calls": calls}
