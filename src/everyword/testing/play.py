"""Plays the script of `assert_parity`: does what a person does, in one tab and now and then in another."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar, assert_never

from ..client import ChatClient, Reply
from ..errors import ChatFailed, UsageError
from ..messages.message import Part
from ..messages.repair_tool_calls import INTERRUPTED
from ..messages.tool_calls import is_open, tool_name, tool_parts
from . import acts
from .observers import Tab
from .pace import Pace, Standstill, comes

__all__ = ["Player"]

T = TypeVar("T")

Ending = Coroutine[Any, Any, None]
"""Waits for everything that an act has caused."""


class Player:
    """Does what a script says: in `tab`, and in `other` what is to be done in another one.

    In a strict play, the script is refused if an answer ends before what is to be done meanwhile. A death may make an
    answer end earlier.
    """

    def __init__(self, tab: Tab, other: Tab, pace: Pace, *, is_strict: bool = False) -> None:
        self._tab, self._other, self._pace, self._is_strict = tab, other, pace, is_strict
        self.is_waiting = asyncio.Event()
        """Set while nothing is being done: before the next act, something has to happen."""
        self.doing: acts.Act | None = None
        """The part of the script that is being played."""
        self.acts = 0
        """How many acts were begun."""

    async def play(self, script: Sequence[str | acts.Act]) -> None:
        for each in script:
            self.doing = act = acts.as_act(each)
            match act:
                case acts.Meanwhile():
                    await self._overlap(act)
                case acts.AskAndStop():
                    await self._overlap(acts.Meanwhile(acts.Ask(act.text), acts.StopAnswer(), after=act.after))
                case _:
                    await self._wait(await self._begin(*self._whose(act)))
            await self._wait(self._tab.chat.connection.until(lambda: not self._tab.sight().is_waiting))

    async def _wait(self, something: Awaitable[T]) -> T:
        self.is_waiting.set()
        try:
            return await something
        finally:
            self.is_waiting.clear()

    def _whose(self, act: acts.Act) -> tuple[acts.Act, Tab]:
        """Return what is to be done, and in which tab."""
        return (acts.as_act(act.act), self._other) if isinstance(act, acts.InAnotherTab) else (act, self._tab)

    async def _overlap(self, act: acts.Meanwhile) -> None:
        standstill = self._pace.hold_answer(act.after)
        endings: list[asyncio.Task[None]] = []
        try:
            first, tab = self._whose(act.first)
            endings.append(asyncio.create_task(await self._begin(first, tab)))
            if act.after:
                await self._reach(standstill, endings[0], act)
            else:
                await tab.noted()
                await self._wait(self._pace.place(f"after {first}"))
            for each in act.acts:
                one, tab = self._whose(each)
                endings.append(asyncio.create_task(await self._begin(one, tab, standstill)))
                await tab.noted()
                await self._wait(self._pace.place(f"after {one}"))
            standstill.end()
            await self._wait(asyncio.gather(*endings))
        finally:
            standstill.end()
            for ending in endings:
                ending.cancel()

    async def _reach(self, standstill: Standstill, ending: asyncio.Task[None], act: acts.Meanwhile) -> None:
        """Wait until the answer stands still, or has ended."""
        if not await self._wait(comes(standstill.reached, ending)) and self._is_strict:
            raise UsageError(f"unable to do {act.acts[0]} meanwhile; the answer ended before item {act.after}")

    async def _begin(self, act: acts.Act, tab: Tab, standstill: Standstill | None = None) -> Ending:
        """Do something, as the tab shows the conversation; return what waits for its end."""
        self.acts += 1
        await tab.settle()
        match act:
            case acts.Ask():
                return _ended(tab.chat.send(act.text, body=act.body))
            case acts.Regenerate():
                return _ended(tab.chat.regenerate())
            case acts.Edit():
                return _ended(tab.chat.edit(_question(tab.chat, act.question), act.text))
            case acts.StopAnswer():
                return await self._stop(tab)
            case acts.Approve() | acts.Deny() | acts.Give():
                return await self._answer(act, tab, standstill)
            case _:
                raise UsageError(f"unable to do {act}; it is not an act of a script")

    async def _stop(self, tab: Tab) -> Ending:
        """Stop what runs, once this tab knows of it: after a death it has to hear of it again."""
        protocol = tab.chat.protocol
        await tab.until(lambda: bool(protocol.running))
        if self._is_strict and not protocol.running:
            raise UsageError(f"unable to stop the answer; {tab.label} knows of none that is being given")
        for request in protocol.running[:1]:
            await tab.chat.stop(request)
        return _nothing()

    async def _answer(
        self, act: acts.Approve | acts.Deny | acts.Give, tab: Tab, standstill: Standstill | None
    ) -> Ending:
        chat = tab.chat
        if standstill is not None and not await tab.until(lambda: bool(_waiting_calls(chat, act))):
            if self._is_strict:
                raise UsageError(f"unable to do {act} meanwhile; {tab.label} shows no call of {act.tool} that waits")
            standstill.end()  # a death has cut the call off; what becomes of it is seen at the end
        call = await self._waiting(chat, act)
        if call is None:
            return _nothing()
        match act:
            case acts.Approve():
                await chat.approve(call)
            case acts.Deny():
                await chat.deny(call, act.reason)
            case acts.Give():
                await chat.answer(call, act.output, error=act.error)
            case _:
                assert_never(act)
        return _nothing() if _has_open_call(chat, call) else _ended(chat.follow())

    async def _waiting(self, chat: ChatClient, act: acts.Approve | acts.Deny | acts.Give) -> str | None:
        """Return the call that waits for this answer, once there is one; None when a death has cut it off."""
        found: list[str | None] = []

        def look() -> bool:
            found[:] = _waiting_calls(chat, act)
            if not found and not chat.protocol.running:
                found[:] = [None for part in _calls(chat, act.tool)[-1:] if part.get("errorText") == INTERRUPTED]
            return bool(found)

        await self._wait(chat.connection.until(look))
        return found[-1]


def _calls(chat: ChatClient, tool: str) -> list[Part]:
    return [part for message in chat.messages for part in tool_parts(message) if tool_name(part) == tool]


def _waiting_calls(chat: ChatClient, act: acts.Approve | acts.Deny | acts.Give) -> list[str]:
    state = "input-available" if isinstance(act, acts.Give) else "approval-requested"
    return [str(part["toolCallId"]) for part in _calls(chat, act.tool) if part.get("state") == state]


def _has_open_call(chat: ChatClient, answered: str) -> bool:
    """Tell whether another call of the same message waits: then the answer does not go on yet (R-3)."""
    for message in chat.messages:
        parts = {str(part["toolCallId"]): part for part in tool_parts(message)}
        if answered in parts:
            return any(is_open(part) for call, part in parts.items() if call != answered)
    return False


def _question(chat: ChatClient, place: int) -> str:
    ids = [message.id for message in chat.messages if message.role == "user"]
    try:
        return ids[place]
    except IndexError:
        raise UsageError(f"unable to edit question {place}; there are {len(ids)} on the page") from None


async def _ended(reply: Reply) -> None:
    with suppress(ChatFailed):
        await reply


async def _nothing() -> None:
    """There is nothing to wait for."""
