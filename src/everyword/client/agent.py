"""A client of any agent: its state, its methods, and frames of its own making."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Self
from uuid import uuid4

import msgspec

from ..errors import CallFailed, ConnectionLost, StateRefused
from .address import Address
from .connection import Connection, Fields, Options
from .protocol.agent import AgentProtocol, Call
from .protocol.chat import ChatProtocol

__all__ = ["AgentClient"]

Frame = dict[str, Any] | str


class AgentClient:
    """One connection to one agent, opened again whenever it is gone.

    Use it as an async context manager. Headers and query are given, or functions that are asked before every
    connect. `options` are the others of `everyword.client.Options`: `backoff`, `clock`, `random`, `connect_timeout`.
    """

    def __init__(
        self,
        url: str,
        agent: str,
        name: str = "default",
        *,
        headers: Fields | None = None,
        query: Fields | None = None,
        base_path: str = "/agents",
        chat: ChatProtocol | None = None,
        **options: Any,
    ) -> None:
        self.address = Address(url, agent, name, base_path)
        self.options = Options(headers=headers or {}, query=query or {}, **options)
        self.protocol = AgentProtocol(chat)
        self.connection = Connection(self.address, self.protocol, uuid4().hex, self.options)
        self._callbacks: list[Callable[[Any], Awaitable[None] | None]] = []
        self._readers: list[deque[Frame]] = []
        self._seen = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self.connection.listen(self._happened)

    async def __aenter__(self) -> Self:
        await self.connection.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connection; whoever waits for something is told so."""
        await self.connection.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def identity(self) -> dict[str, Any] | None:
        """Who the server says this is: `name` and `agent`."""
        return self.protocol.identity or (self.protocol.chat.identity if self.protocol.chat is not None else None)

    @property
    def is_connected(self) -> bool:
        return self.connection.is_open

    # -- state -----------------------------------------------------------------------------------------------------

    @property
    def state(self) -> Any:
        """The newest state that this client knows; None before there is one."""
        return self.protocol.state

    async def set_state(self, state: Any) -> None:
        """Replace the agent's state; returns once the server has it, also when that takes a reconnect.

        Raises StateRefused, with the state before in force again, when the agent does not want it.
        """
        change = self.protocol.set_state(state)
        self.connection.flush()
        await self.connection.until(lambda: self.protocol.is_confirmed(change))
        refusal = self.protocol.refusals.pop(change, None)
        if refusal is not None:
            raise StateRefused(f"unable to set the state; the agent says: {refusal}")

    def on_state_changed(self, callback: Callable[[Any], Awaitable[None] | None]) -> Callable[[], None]:
        """Have a function, async or not, called with every new state; returns a function that ends it."""
        self._callbacks.append(callback)

        def forget() -> None:
            with suppress(ValueError):
                self._callbacks.remove(callback)

        return forget

    async def states(self) -> AsyncGenerator[Any, None]:
        """Yield the state, and every newer one: a slow reader gets the newest only."""
        seen = 0
        while True:
            if self.protocol.has_state and self.protocol.changes != seen:
                seen = self.protocol.changes
                yield self.protocol.state
            else:
                await self.connection.change()

    # -- calls -------------------------------------------------------------------------------------------------------

    async def call(self, method: str, *args: Any, timeout: float | None = 30.0) -> Any:  # noqa: ASYNC109
        """Call a method of the agent and return its result.

        Without a connection the call waits for one. Raises CallFailed with the agent's text, TimeoutError, or
        ConnectionLost when the connection went away after the call was sent.
        """
        name, call = self._begin(method, args)
        try:
            async with asyncio.timeout(timeout):
                await self.connection.until(lambda: call.is_done)
        finally:
            self.protocol.forget(name)
        return self._result(method, call)

    async def stream(self, method: str, *args: Any) -> AsyncGenerator[Any, None]:
        """Call a streaming method and yield what it sends; a final result that is not None comes last."""
        name, call = self._begin(method, args)
        try:
            while True:
                await self.connection.until(lambda: call.is_done or bool(call.chunks))
                while call.chunks:
                    yield call.chunks.popleft()
                if call.is_done:
                    break
        finally:
            self.protocol.forget(name)
        result = self._result(method, call)
        if result is not None:
            yield result

    def _begin(self, method: str, args: tuple[Any, ...]) -> tuple[str, Call]:
        name = uuid4().hex
        call = self.protocol.call(name, method, list(args))
        self.connection.flush()
        return name, call

    def _result(self, method: str, call: Call) -> Any:
        if call.is_lost:
            raise ConnectionLost(f"unable to tell what became of {method}(); the connection went away while it ran")
        if call.error is not None:
            raise CallFailed(call.error)
        return call.result

    # -- frames of the agent's own ---------------------------------------------------------------------------------

    async def send(self, frame: Any) -> None:
        """Send text or bytes as they are, anything else as JSON. Without a connection it waits for the next one."""
        self.protocol.send(frame if isinstance(frame, str | bytes) else msgspec.json.encode(frame).decode())
        self.connection.flush()

    async def messages(self) -> AsyncGenerator[Frame, None]:
        """Yield frames that are not of the protocol, from now on: objects, or text that is no JSON object."""
        waiting: deque[Frame] = deque()
        self._readers.append(waiting)
        try:
            while True:
                await self.connection.until(lambda: bool(waiting))
                while waiting:
                    yield waiting.popleft()
        finally:
            self._readers.remove(waiting)

    def _happened(self) -> None:
        others, self.protocol.others = self.protocol.others, []
        for waiting in self._readers:
            waiting.extend(others)
        if self.protocol.changes != self._seen:
            self._seen = self.protocol.changes
            for callback in list(self._callbacks):
                result = callback(self.protocol.state)
                if inspect.iscoroutine(result):
                    self.spawn(result)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something beside, until this client is closed."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
