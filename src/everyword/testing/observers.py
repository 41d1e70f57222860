"""Everybody who can watch a conversation, and what each of them saw: for comparing them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ..client import ChatClient
from ..errors import CallFailed, ChatFailed, EverywordError
from ..messages.calls import is_open, is_tool_part
from ..messages.message import UIMessage
from ..wire.client_unheard import MARK
from .local import LocalServer
from .network import Network

__all__ = ["Sight", "Stream", "Tab", "find_difference", "plain", "settled_since"]

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sight:
    """What somebody has on the screen: the messages, how turns ended, and whether something still seems to go on."""

    messages: Sequence[JsonObject]
    endings: Mapping[str, tuple[str, str | None]]
    """Request → outcome and error text."""
    is_waiting: bool = False
    problems: Sequence[str] = ()


class Tab:
    """One socket on the conversation, with a network of its own; comes back by itself when that is cut."""

    def __init__(self, label: str, server: LocalServer, kind: str, name: str) -> None:
        self.label = label
        self.network: Network = server.network()
        self.chat: ChatClient = server.client(kind, name, network=self.network)

    async def open(self) -> Tab:
        await self.chat.__aenter__()
        return self

    async def close(self) -> None:
        await self.chat.aclose()
        await self.network.aclose()

    async def settle(self) -> None:
        """Wait until everything that the server has for this tab is here: its answer to a call comes behind it."""
        while True:
            try:
                await self.chat.agent.call(MARK)
            except CallFailed:
                return
            except EverywordError:
                await asyncio.sleep(0)  # cut off meanwhile: asked again once it is back

    def sight(self) -> Sight:
        protocol = self.chat.protocol
        endings = {request: (end.outcome, end.error) for request, end in protocol.endings.items()}
        messages = [dict(message) for message in protocol.messages]
        return Sight(messages, endings, self.chat.status in ("submitted", "streaming"), list(protocol.problems))


@dataclass
class Stream:
    """Somebody who follows turns as server-sent events; each goes on behind its cursor when the network is cut."""

    label: str
    tab: Tab
    seen: dict[str, UIMessage | None] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    def follow(self, request: str) -> None:
        """Begin to follow a turn, unless that was begun before."""
        if request not in self._tasks:
            self._tasks[request] = asyncio.create_task(self._follow(request), name=f"{self.label} of {request}")

    async def _follow(self, request: str) -> None:
        self.seen[request] = None
        with suppress(EverywordError):
            try:
                async for message in self.tab.chat.follow_sse(request):
                    self.seen[request] = message
            except ChatFailed as failure:
                self.failures[request] = str(failure)

    async def rest(self) -> None:
        """Wait for the end of everything that is followed."""
        await asyncio.gather(*self._tasks.values())

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)


# -- comparing ----------------------------------------------------------------------------------------------------


def plain(message: JsonObject) -> JsonObject:
    """Return what people can tell apart of a message: its texts and calls, however they were cut into parts.

    Leaves out what a replay cannot carry: approvals that were answered, and marks of streaming.
    """
    parts = [part for part in message["parts"] if part["type"] != "step-start"]
    kept: list[JsonObject] = []
    for part in parts:
        if part["type"] in ("text", "reasoning"):
            if kept and kept[-1]["type"] == part["type"]:
                kept[-1]["text"] += part.get("text", "")
            elif part.get("text"):
                kept.append({"type": part["type"], "text": part["text"]})
        elif is_tool_part(part):
            names = ("type", "toolCallId", "state", "input", "output", "errorText")
            kept.append({name: part[name] for name in names if part.get(name) is not None})
        else:
            kept.append(dict(part))
    return {"role": message["role"], "parts": kept}


def settled_since(stored: JsonObject, streamed: UIMessage) -> JsonObject:
    """Return a streamed message with the calls that were open when its stream ended as they are stored.

    What is answered after the next answer has begun is in no stream: clients are sent the message.
    """
    by_call = {part["toolCallId"]: part for part in stored["parts"] if is_tool_part(part)}
    message = streamed.to_dict()
    parts = [by_call.get(part["toolCallId"], part) if _is_left_open(part) else part for part in message["parts"]]
    return {**message, "parts": parts}


def _is_left_open(part: JsonObject) -> bool:
    return is_tool_part(part) and is_open(part)


def find_difference(expected: Any, found: Any, path: str = "") -> str | None:
    """Return where two JSON values first differ, as a sentence; None when they do not."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in [*expected, *(key for key in found if key not in expected)]:
            if key not in found or key not in expected:
                which = "is missing" if key not in found else f"should not be there: {_short(found[key])}"
                return f"{path}.{key} {which}".lstrip(".")
            if (difference := find_difference(expected[key], found[key], f"{path}.{key}")) is not None:
                return difference
        return None
    if isinstance(expected, list) and isinstance(found, list):
        for place, (one, other) in enumerate(zip(expected, found, strict=False)):
            if (difference := find_difference(one, other, f"{path}[{place}]")) is not None:
                return difference
        if len(expected) != len(found):
            return f"{path} has {len(found)} entries instead of {len(expected)}".lstrip(".")
        return None
    return None if expected == found else f"{path} is {_short(found)} instead of {_short(expected)}".lstrip(".")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:80]} … {text[-70:]}"
