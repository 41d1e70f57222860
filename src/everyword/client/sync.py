"""The chat client for scripts without asyncio: the same methods, on an event loop in a thread of its own.

with SyncChatClient("http://localhost:8787", agent="chat", name="user-42") as chat:
    for message in chat.send("hello"):
        print(message.text)
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Self, TypeVar

from ..errors import ClientError
from ..messages.message import Part, UIMessage
from .chat import ChatClient, Content
from .reply import Reply

__all__ = ["SyncChatClient", "SyncReply"]

T = TypeVar("T")


class SyncReply:
    """An answer while it grows. Iterate it for snapshots, or call `wait` for the last one."""

    def __init__(self, loop: _Loop, reply: Reply) -> None:
        self._loop, self._reply = loop, reply

    def __iter__(self) -> Iterator[UIMessage]:
        while (message := self._loop.run(self._next)) is not None:
            yield message

    async def _next(self) -> UIMessage | None:
        return await anext(self._reply, None)

    def wait(self) -> UIMessage | None:
        """Wait for the end of the turn and return the message. Raises ChatFailed as iterating does."""
        for _ in self:
            pass
        return self._reply.message

    def stop(self) -> None:
        self._loop.run(self._reply.stop)

    @property
    def outcome(self) -> str | None:
        return self._reply.outcome


class SyncChatClient:
    """A ChatClient with blocking methods. `options` are those of ChatClient; its tools may be plain functions."""

    def __init__(self, url: str, agent: str = "chat", name: str = "default", **options: Any) -> None:
        self._loop = _Loop()
        self._options: dict[str, Any] = {"url": url, "agent": agent, "name": name, **options}
        self._chat: ChatClient | None = None

    def __enter__(self) -> Self:
        self._loop.start()
        try:
            self._chat = self._loop.run(self._open)
        except BaseException:
            self._loop.stop()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        chat, self._chat = self._chat, None
        try:
            if chat is not None:
                self._loop.run(chat.aclose)
        finally:
            self._loop.stop()

    async def _open(self) -> ChatClient:
        return await ChatClient(**self._options).__aenter__()

    # -- reading -----------------------------------------------------------------------------------------------------

    @property
    def messages(self) -> list[UIMessage]:
        return self._read(lambda chat: chat.messages)

    @property
    def status(self) -> str:
        return self._read(lambda chat: chat.status)

    @property
    def outcome(self) -> str | None:
        return self._read(lambda chat: chat.outcome)

    @property
    def pending_approvals(self) -> list[Part]:
        return self._read(lambda chat: chat.pending_approvals)

    def history(self) -> list[UIMessage]:
        return self._loop.run(self._open_chat.history)

    # -- asking ------------------------------------------------------------------------------------------------------

    def send(self, content: Content, *, body: dict[str, Any] | None = None) -> SyncReply:
        return self._reply(lambda chat: chat.send(content, body=body))

    def regenerate(self, message_id: str | None = None, *, body: dict[str, Any] | None = None) -> SyncReply:
        return self._reply(lambda chat: chat.regenerate(message_id, body=body))

    def edit(self, message_id: str, content: Content, *, body: dict[str, Any] | None = None) -> SyncReply:
        return self._reply(lambda chat: chat.edit(message_id, content, body=body))

    def follow(self) -> SyncReply:
        return self._reply(lambda chat: chat.follow())

    def stop(self) -> None:
        self._loop.run(self._open_chat.stop)

    def clear(self) -> None:
        self._loop.run(self._open_chat.clear)

    def approve(self, call_id: str) -> None:
        self._loop.run(lambda: self._open_chat.approve(call_id))

    def deny(self, call_id: str, reason: str | None = None) -> None:
        self._loop.run(lambda: self._open_chat.deny(call_id, reason))

    # -- helpers -----------------------------------------------------------------------------------------------------

    @property
    def _open_chat(self) -> ChatClient:
        if self._chat is None:
            raise ClientError("unable to use the client; open it with `with SyncChatClient(…) as chat:`")
        return self._chat

    def _reply(self, ask: Callable[[ChatClient], Reply]) -> SyncReply:
        return SyncReply(self._loop, self._read(ask))

    def _read(self, look: Callable[[ChatClient], T]) -> T:
        chat = self._open_chat

        async def read() -> T:
            return look(chat)

        return self._loop.run(read)


class _Loop:
    """An event loop in a thread. `run` waits for a coroutine there, and cancels it on KeyboardInterrupt."""

    _loop: asyncio.AbstractEventLoop
    _thread: threading.Thread

    def start(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="everyword client", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        waiting = asyncio.run_coroutine_threadsafe(work(), self._loop)
        try:
            return waiting.result()
        except KeyboardInterrupt:
            waiting.cancel()
            raise
