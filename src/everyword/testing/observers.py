"""Observers of a conversation (tabs, event streams, pages of the AI SDK), and comparisons of what they show."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import httpx
import msgspec

from ..client import ChatClient
from ..client.protocol.unconfirmed_frames import MARK
from ..errors import CallFailed, ChatFailed, EverywordError, FoldError
from ..messages.fold import MessageFold
from ..messages.message import UIMessage
from ..messages.sse import SseParser
from ..messages.tool_calls import is_open, is_tool_part
from .local_server import LocalServer
from .network import Network

__all__ = ["PATIENT", "AiSdkPage", "Screen", "Stream", "Tab", "find_difference", "in_stream", "plain", "settled_since"]

PATIENT: Final = 50
"""How often an observer is looked at before what it shows counts as final."""

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Screen:
    """What an observer shows: the messages, the outcomes of turns, and whether it waits for an answer."""

    messages: Sequence[JsonObject]
    endings: Mapping[str, tuple[str, str | None]]
    """Request → outcome and error text."""
    is_waiting: bool = False
    problems: Sequence[str] = ()


class Tab:
    """One socket on the conversation, with a network of its own; it reconnects by itself after a cut."""

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
        """Wait until the tab has received everything sent so far: the reply to a call arrives behind it."""
        while True:
            try:
                await self.chat.agent.call(MARK)
            except CallFailed:
                return
            except EverywordError:
                await asyncio.sleep(0)  # cut meanwhile: call again after the reconnect

    async def handled(self) -> None:
        """Wait until the server has handled all frames of this tab: commands are handled in order (P-48)."""
        await self.chat.stop(MARK)  # no turn has this name

    async def until(self, fact: Callable[[], bool]) -> bool:
        """Wait for a condition of the tab, at most `PATIENT` times until it has settled; return whether it came true.

        Once is not enough: a replay takes a request and its response, and is shown as a whole.
        """
        for _ in range(PATIENT):
            await self.settle()
            if fact():
                return True
        return False

    @property
    def messages(self) -> list[JsonObject]:
        return [dict(message) for message in self.chat.protocol.messages]

    def screen(self) -> Screen:
        protocol = self.chat.protocol
        endings = {request: (end.outcome, end.error) for request, end in protocol.endings.items()}
        return Screen(self.messages, endings, self.chat.status in ("submitted", "streaming"), list(protocol.problems))


@dataclass
class Stream:
    """Follows turns as server-sent events; each resumes from its cursor after a cut."""

    label: str
    tab: Tab
    seen: dict[str, UIMessage | None] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    def follow(self, request: str) -> None:
        """Follow a turn, unless it is followed already."""
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
        """Wait for the end of all followed turns."""
        await asyncio.gather(*self._tasks.values())

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)


class AiSdkPage:
    """A page of the AI SDK: reads the messages when it opens, then one event stream of the running and waiting turns.

    It folds the stream as `useChat` does: a `start` with another id begins another message, which takes the place of
    the one with its id, or else stands last.
    """

    def __init__(self, label: str, server: LocalServer, kind: str, name: str) -> None:
        self.label = label
        self.told: set[str] = set()
        """The ids of the messages in the stream."""
        self.failure: str | None = None
        """The text of an error with which the stream ended."""
        self.problem: str | None = None
        """The error for a chunk that does not fit; the AI SDK throws there."""
        self._messages: list[JsonObject] = []
        self._http = server.http(kind, name)
        self._reading: asyncio.Task[None] | None = None

    async def open(self) -> AiSdkPage:
        self._messages = (await self._http.get("get-messages", params={"reserve": "1"})).json()
        answer = await self._http.send(self._http.build_request("GET", "chat/stream"), stream=True)
        self._reading = asyncio.create_task(self._read(answer), name=self.label)
        return self

    @property
    def messages(self) -> list[JsonObject]:
        """The messages on the page; a reserved place for an answer shows nothing."""
        return [message for message in self._messages if message["parts"]]

    async def rest(self) -> None:
        """Wait for the end of the stream."""
        if self._reading is not None:
            await self._reading

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        await self._http.aclose()

    async def _read(self, answer: httpx.Response) -> None:
        parser, fold = SseParser(), MessageFold("")
        async with aclosing(answer):
            async for piece in answer.aiter_bytes():
                for event in parser.feed(piece):
                    try:
                        fold = self._take(msgspec.json.decode(event.data), fold) if event.data != "[DONE]" else fold
                    except FoldError as error:
                        self.problem = str(error)
                        return

    def _take(self, chunk: JsonObject, fold: MessageFold) -> MessageFold:
        if chunk["type"] == "error":
            self.failure = chunk["errorText"]
            return fold
        if chunk["type"] == "start" and chunk.get("messageId") not in (None, fold.message().id):
            fold = MessageFold(chunk["messageId"])
        fold.apply(chunk)
        message = fold.message().to_dict()
        self.told.add(message["id"])
        places = [place for place, each in enumerate(self._messages) if each["id"] == message["id"]]
        place = places[-1] if places else len(self._messages)
        self._messages[place : place + 1] = [message]
        return fold


# -- comparing ----------------------------------------------------------------------------------------------------


def plain(message: JsonObject) -> JsonObject:
    """Return the visible content of a message: its id, texts and calls, with adjacent texts joined.

    Leaves out what a replay cannot contain: answered approvals, and the state of streamed parts.
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
    return {"id": message["id"], "role": message["role"], "parts": kept}


def in_stream(message: JsonObject) -> JsonObject:
    """Return the visible content of a message while it streams: no chunk says that a call was approved."""
    shown = plain(message)
    parts = [
        {**part, "state": "input-available"} if part.get("state") == "approval-responded" else part
        for part in shown["parts"]
    ]
    return {**shown, "parts": parts}


def settled_since(stored: JsonObject, streamed: JsonObject) -> JsonObject:
    """Return a streamed message with the calls that were open when its stream ended as they are stored.

    A call that is answered after the next answer has begun is in no stream: clients receive the message instead.
    """
    by_call = {part["toolCallId"]: part for part in stored["parts"] if is_tool_part(part)}
    parts = [
        by_call.get(part["toolCallId"], part) if is_tool_part(part) and is_open(part) else part
        for part in streamed["parts"]
    ]
    return {**streamed, "parts": parts}


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
