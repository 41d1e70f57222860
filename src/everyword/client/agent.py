"""A client of any agent: its state, its methods, and frames of the application's own."""

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
from .address import AgentAddress
from .connection import Fields, Options, ReconnectingConnection
from .protocol.agent import AgentProtocol, PendingCall
from .protocol.chat import ChatProtocol

__all__ = ["AgentClient"]

Frame = dict[str, Any] | str


class AgentClient:
    """One connection to one agent, which reconnects by itself. Use it as an async context manager.

    `headers` and `query` are mappings, or functions that are called before every connect and return one. `options` are
    the other fields of `everyword.client.Options`, such as `backoff`, `clock`, `random` and `connect_timeout`.
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
        self.address = AgentAddress(url, agent, name, base_path)
        self.options = Options(headers=headers or {}, query=query or {}, **options)
        self.protocol = AgentProtocol(chat)
        self.connection = ReconnectingConnection(self.address, self.protocol, uuid4().hex, self.options)
        self._callbacks: list[Callable[[Any], Awaitable[None] | None]] = []
        self._readers: list[deque[Frame]] = []
        self._reported_state = 0
        """The version of the state that the callbacks were last called with."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.connection.listen(self._changed)

    async def __aenter__(self) -> Self:
        await self.connection.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connection. Everything that waits for it raises ClientError."""
        await self.connection.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def identity(self) -> dict[str, Any] | None:
        """The agent's `name` and `agent` as the server sent them; None before the first connect."""
        return self.protocol.identity

    @property
    def is_connected(self) -> bool:
        return self.connection.is_open

    # -- state -----------------------------------------------------------------------------------------------------

    @property
    def state(self) -> Any:
        """The newest state that this client knows; None before there is one."""
        return self.protocol.state.value

    async def set_state(self, state: Any) -> None:
        """Replace the agent's state; return once the server has it, after a reconnect if necessary.

        Raises StateRefused if the agent rejects the state; the state before is then in force again.
        """
        change = self.protocol.set_state(state)
        self.connection.flush()
        await self.connection.until(lambda: self.protocol.is_confirmed(change))
        refusal = self.protocol.state.refusals.pop(change, None)
        if refusal is not None:
            raise StateRefused(f"unable to set the state; the agent refused it: {refusal}")

    def on_state_changed(self, callback: Callable[[Any], Awaitable[None] | None]) -> Callable[[], None]:
        """Call a function, async or not, with every new state; return a function that ends the subscription."""
        self._callbacks.append(callback)

        def forget() -> None:
            with suppress(ValueError):
                self._callbacks.remove(callback)

        return forget

    async def states(self) -> AsyncGenerator[Any, None]:
        """Yield the state now and after every change. A slow reader skips to the newest."""
        state, seen = self.protocol.state, 0
        while True:
            if state.is_known and state.version != seen:
                seen = state.version
                yield state.value
            else:
                await self.connection.change()

    # -- calls -------------------------------------------------------------------------------------------------------

    async def call(self, method: str, *args: Any, timeout: float | None = 30.0) -> Any:  # noqa: ASYNC109
        """Call a method of the agent and return its result.

        Without a connection the call waits for one. Raises CallFailed with the agent's error text, TimeoutError, or
        ConnectionLost if the connection was lost after the call was sent.
        """
        call_id, call = self._begin(method, args)
        try:
            async with asyncio.timeout(timeout):
                await self.connection.until(lambda: call.is_done)
        finally:
            self.protocol.forget(call_id)
        return self._result(method, call)

    async def stream(self, method: str, *args: Any) -> AsyncGenerator[Any, None]:
        """Call a streaming method and yield its chunks, then its result unless that is None."""
        call_id, call = self._begin(method, args)
        try:
            while True:
                await self.connection.until(lambda: call.is_done or bool(call.chunks))
                while call.chunks:
                    yield call.chunks.popleft()
                if call.is_done:
                    break
        finally:
            self.protocol.forget(call_id)
        result = self._result(method, call)
        if result is not None:
            yield result

    def _begin(self, method: str, args: tuple[Any, ...]) -> tuple[str, PendingCall]:
        call_id = uuid4().hex
        call = self.protocol.call(call_id, method, list(args))
        self.connection.flush()
        return call_id, call

    def _result(self, method: str, call: PendingCall) -> Any:
        if call.is_lost:
            raise ConnectionLost(f"unable to get the result of {method}(); the connection was lost while it ran")
        if call.error is not None:
            raise CallFailed(call.error)
        return call.result

    # -- frames of the application's own -----------------------------------------------------------------------------

    async def send(self, frame: Any) -> None:
        """Send text or bytes unchanged, and anything else as JSON. Without a connection the frame waits for one."""
        self.protocol.send(frame if isinstance(frame, str | bytes) else msgspec.json.encode(frame).decode())
        self.connection.flush()

    async def messages(self) -> AsyncGenerator[Frame, None]:
        """Yield the frames that do not belong to the protocol, from now on: JSON objects, or text that is none."""
        waiting: deque[Frame] = deque()
        self._readers.append(waiting)
        try:
            while True:
                await self.connection.until(lambda: bool(waiting))
                while waiting:
                    yield waiting.popleft()
        finally:
            self._readers.remove(waiting)

    def _changed(self) -> None:
        """Pass new frames and a new state to their readers. Called after every event of the connection."""
        others, self.protocol.others = self.protocol.others, []
        for waiting in self._readers:
            waiting.extend(others)
        state = self.protocol.state
        if state.version != self._reported_state:
            self._reported_state = state.version
            for callback in list(self._callbacks):
                result = callback(state.value)
                if inspect.iscoroutine(result):
                    self.spawn(result)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine as a task, which is cancelled when this client is closed."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
