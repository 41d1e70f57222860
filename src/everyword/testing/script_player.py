"""Plays the script of `assert_parity`: the actions of a person, in one tab and sometimes in another."""

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
from . import actions
from .hold_points import AnswerHold, HoldPoints, happens_before_end
from .observers import Tab

__all__ = ["ScriptPlayer"]

T = TypeVar("T")

Ending = Coroutine[Any, Any, None]
"""Waits until an action has had its full effect."""


class ScriptPlayer:
    """Does the actions of a script in `tab`, and those of `InAnotherTab` in `other`.

    With `is_strict`, a script is refused if an answer ends before the actions of its `Meanwhile`. Runs with a crash
    are not strict, because a crash may end an answer earlier.
    """

    def __init__(self, tab: Tab, other: Tab, points: HoldPoints, *, is_strict: bool = False) -> None:
        self._tab, self._other, self._points, self._is_strict = tab, other, points, is_strict
        self.is_waiting = asyncio.Event()
        """Set while the next action waits for an event."""
        self.doing: actions.ScriptAction | None = None
        """The current action."""
        self.actions_begun = 0
        """How many actions were begun."""

    async def play(self, script: Sequence[str | actions.ScriptAction]) -> None:
        for each in script:
            self.doing = act = actions.as_action(each)
            match act:
                case actions.Meanwhile():
                    await self._play_overlapping(act)
                case actions.AskAndStop():
                    await self._play_overlapping(
                        actions.Meanwhile(actions.Ask(act.text), actions.StopAnswer(), after=act.after)
                    )
                case _:
                    await self._wait(await self._begin(*self._tab_for(act)))
            await self._wait(self._tab.chat.connection.until(lambda: not self._tab.screen().is_waiting))

    async def _wait(self, something: Awaitable[T]) -> T:
        self.is_waiting.set()
        try:
            return await something
        finally:
            self.is_waiting.clear()

    def _tab_for(self, act: actions.ScriptAction) -> tuple[actions.ScriptAction, Tab]:
        """Return the action itself, and the tab to do it in."""
        return (actions.as_action(act.act), self._other) if isinstance(act, actions.InAnotherTab) else (act, self._tab)

    async def _play_overlapping(self, act: actions.Meanwhile) -> None:
        hold = self._points.hold_answer(act.after)
        endings: list[asyncio.Task[None]] = []
        try:
            first, tab = self._tab_for(act.first)
            endings.append(asyncio.create_task(await self._begin(first, tab)))
            if act.after:
                await self._wait_for_hold(hold, endings[0], act)
            else:
                await tab.handled()
                await self._wait(self._points.point(f"after {first}"))
            for each in act.acts:
                one, tab = self._tab_for(each)
                endings.append(asyncio.create_task(await self._begin(one, tab, hold)))
                await tab.handled()
                await self._wait(self._points.point(f"after {one}"))
            hold.end()
            await self._wait(asyncio.gather(*endings))
        finally:
            hold.end()
            for ending in endings:
                ending.cancel()

    async def _wait_for_hold(self, hold: AnswerHold, ending: asyncio.Task[None], act: actions.Meanwhile) -> None:
        """Wait until the answer is held, or has ended."""
        if not await self._wait(happens_before_end(hold.reached, ending)) and self._is_strict:
            raise UsageError(f"unable to do {act.acts[0]} meanwhile; the answer ended before item {act.after}")

    async def _begin(self, act: actions.ScriptAction, tab: Tab, hold: AnswerHold | None = None) -> Ending:
        """Begin an action in a tab; return a coroutine that waits for its full effect."""
        self.actions_begun += 1
        await tab.settle()
        match act:
            case actions.Ask():
                return _ended(tab.chat.send(act.text, body=act.body))
            case actions.Regenerate():
                return _ended(tab.chat.regenerate())
            case actions.Edit():
                return _ended(tab.chat.edit(_question(tab.chat, act.question), act.text))
            case actions.StopAnswer():
                return await self._stop(tab)
            case actions.Approve() | actions.Deny() | actions.Give():
                return await self._answer(act, tab, hold)
            case _:
                raise UsageError(f"unable to do {act}; it is not an act of a script")

    async def _stop(self, tab: Tab) -> Ending:
        """Stop the running answer, once this tab knows of it: after a crash the tab has to learn of it again."""
        protocol = tab.chat.protocol
        await tab.until(lambda: bool(protocol.running))
        if self._is_strict and not protocol.running:
            raise UsageError(f"unable to stop the answer; {tab.label} knows of none that is being given")
        for request in protocol.running[:1]:
            await tab.chat.stop(request)
        return _nothing()

    async def _answer(
        self, act: actions.Approve | actions.Deny | actions.Give, tab: Tab, hold: AnswerHold | None
    ) -> Ending:
        chat = tab.chat
        if hold is not None and not await tab.until(lambda: bool(_waiting_calls(chat, act))):
            if self._is_strict:
                raise UsageError(f"unable to do {act} meanwhile; {tab.label} shows no call of {act.tool} that waits")
            hold.end()  # a crash has interrupted the call; its result is compared at the end
        call = await self._waiting(chat, act)
        if call is None:
            return _nothing()
        match act:
            case actions.Approve():
                await chat.approve(call)
            case actions.Deny():
                await chat.deny(call, act.reason)
            case actions.Give():
                await chat.answer(call, act.output, error=act.error)
            case _:
                assert_never(act)
        return _nothing() if _has_open_call(chat, call) else _ended(chat.follow())

    async def _waiting(self, chat: ChatClient, act: actions.Approve | actions.Deny | actions.Give) -> str | None:
        """Wait for the call that this action answers and return its id; None when a crash has interrupted it."""
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


def _waiting_calls(chat: ChatClient, act: actions.Approve | actions.Deny | actions.Give) -> list[str]:
    state = "input-available" if isinstance(act, actions.Give) else "approval-requested"
    return [str(part["toolCallId"]) for part in _calls(chat, act.tool) if part.get("state") == state]


def _has_open_call(chat: ChatClient, answered: str) -> bool:
    """Return whether another call of the same message is open: then the answer does not continue yet (R-3)."""
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
    """Do nothing: the action has no further effect."""
