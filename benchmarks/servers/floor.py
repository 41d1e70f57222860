"""A chat with no agent: reads a question, streams the answer to whoever watches, remembers the last one.

With `BENCH_STORE`, what it sends is committed first.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from benchmarks.servers.frames import Question, as_replay, body_frame, chunk_frame, control_frame, resuming_frame
from benchmarks.servers.source import ask_of, deltas
from benchmarks.servers.storage import Storage

__all__ = ["Chat", "Floor", "Watcher"]

Watcher = Callable[[bytes], Awaitable[None]]

ROOM = 512
"""Chunks of one stream that may wait for a commit."""

_question = msgspec.json.Decoder(Question).decode


@dataclass(slots=True)
class Chat:
    """One conversation, in memory."""

    name: str
    watchers: list[Watcher] = field(default_factory=list)
    request: str = ""
    frames: list[bytes] = field(default_factory=list)
    messages: list[bytes] = field(default_factory=list)
    task: asyncio.Task[None] | None = None


class Floor:
    """All conversations, and the storage if there is one."""

    def __init__(self) -> None:
        self.chats: dict[str, Chat] = {}
        path = os.environ.get("BENCH_STORE")
        self.storage = Storage(path) if path else None

    def chat(self, name: str) -> Chat:
        if name not in self.chats:
            self.chats[name] = Chat(name)
        return self.chats[name]

    async def received(self, chat: Chat, watcher: Watcher, text: str | bytes) -> None:
        """Do what a client's frame asks for."""
        question = _question(text)
        match question.type:
            case "cf_agent_use_chat_request":
                body = msgspec.json.decode(question.init.body)
                chat.task = asyncio.create_task(self._answer(chat, question.id, body))
            case "cf_agent_stream_resume_request":
                await watcher(resuming_frame(chat.request))
            case "cf_agent_stream_resume_ack":
                await self._replay(chat, watcher)
            case "cf_agent_chat_request_cancel":
                if chat.task is not None:
                    chat.task.cancel()
                await self._tell(chat, [control_frame(question.id, done=True)])
            case _:
                pass

    async def transcript(self, chat: Chat) -> bytes:
        messages = self.storage.read(chat.name, "message") if self.storage else chat.messages
        return b"[" + b",".join(messages) + b"]"

    async def keep(self, chat: Chat, messages: list[dict[str, Any]]) -> None:
        """Add messages to the conversation."""
        encoded = [msgspec.json.encode(message) for message in messages]
        if self.storage is None:
            chat.messages += encoded
        else:
            await self.storage.write([(chat.name, "message", each) for each in encoded])

    async def _answer(self, chat: Chat, request: str, body: dict[str, Any]) -> None:
        chat.request, chat.frames = request, []
        await self.keep(chat, body["messages"][-1:])
        stream = _Stream(self, chat)
        pieces = []
        await stream.put(chunk_frame(request, 0, {"type": "start", "messageId": f"a-{request}"}))
        await stream.put(chunk_frame(request, 1, {"type": "text-start", "id": "t"}))
        index = 2
        async for delta in deltas(ask_of(body)):
            pieces.append(delta)
            await stream.put(chunk_frame(request, index, {"type": "text-delta", "id": "t", "delta": delta}))
            index += 1
        await stream.put(body_frame(request, index, b'{"type":"text-end","id":"t"}'))
        await stream.put(body_frame(request, index + 1, b'{"type":"finish"}'))
        await stream.finish()
        parts = [{"type": "text", "text": "".join(pieces)}]
        await self.keep(chat, [{"id": f"a-{request}", "role": "assistant", "parts": parts}])
        await self._tell(chat, [control_frame(request, done=True)])

    async def _tell(self, chat: Chat, frames: list[bytes]) -> None:
        for frame in frames:
            for watcher in list(chat.watchers):
                await watcher(frame)

    async def _replay(self, chat: Chat, watcher: Watcher) -> None:
        frames = chat.frames
        if self.storage is not None:
            frames = [frame for row in self.storage.read(chat.name, chat.request) for frame in row.split(b"\n")]
        for frame in frames:
            await watcher(as_replay(frame))
        await watcher(control_frame(chat.request, done=False, replay=True))


class _Stream:
    """Frames on their way out: at once without storage; else a task commits what waits, then sends it."""

    def __init__(self, floor: Floor, chat: Chat) -> None:
        self._floor, self._chat = floor, chat
        self._waiting: list[bytes] = []
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._is_over = False
        self._writer = asyncio.create_task(self._write()) if floor.storage is not None else None

    async def put(self, frame: bytes) -> None:
        if self._writer is None:
            self._chat.frames.append(frame)
            await self._floor._tell(self._chat, [frame])
            return
        self._waiting.append(frame)
        self._wake.set()
        if len(self._waiting) >= ROOM:
            self._room.clear()
            await self._room.wait()

    async def finish(self) -> None:
        if self._writer is not None:
            self._is_over = True
            self._wake.set()
            await self._writer

    async def _write(self) -> None:
        storage = self._floor.storage
        assert storage is not None
        while True:
            await self._wake.wait()
            self._wake.clear()
            batch, self._waiting = self._waiting, []
            self._room.set()
            if batch:
                await storage.write([(self._chat.name, self._chat.request, b"\n".join(batch))])
                await self._floor._tell(self._chat, batch)
            if self._is_over and not self._waiting:
                return
