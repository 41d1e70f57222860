"""One socket to one agent that is opened again whenever it is gone."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from random import random
from typing import TYPE_CHECKING, Any

from ..errors import ClientError, TurnedAway, Unreachable
from ..extras import missing
from ..ids import Millis
from .address import Address
from .backoff import Backoff, Clock, SystemClock
from .protocol.agent import AgentProtocol

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

__all__ = ["Connection", "Fields", "Options"]

Fields = Mapping[str, str] | Callable[[], Mapping[str, str] | Awaitable[Mapping[str, str]]]
"""Headers or query fields: given, or asked for before every connect, so that tokens may be short-lived."""

TERMINAL = {1008, *range(4000, 5000)}


@dataclass(frozen=True, slots=True)
class Options:
    """How to connect. `connect_timeout` is how long entering the client may take, retries included."""

    headers: Fields = field(default_factory=dict)
    query: Fields = field(default_factory=dict)
    backoff: Backoff = field(default_factory=Backoff)
    clock: Clock = field(default_factory=SystemClock)
    random: Callable[[], float] = random
    connect_timeout: float = 10.0
    connect: Callable[[str, Mapping[str, str]], Awaitable[Any]] | None = None
    """Opens a socket to a URL with headers; None for a real one. What it returns is used as one of `websockets` is."""
    transport: Any = None
    """The transport of httpx for everything that is no socket; None for its own."""


class Connection:
    """Keeps a protocol connected until it is closed or turned away; `until` is how everybody waits for anything."""

    def __init__(self, address: Address, protocol: AgentProtocol, own_id: str, options: Options) -> None:
        self.is_open = False
        self.failure: ClientError | None = None
        self._address, self._protocol, self._own_id, self._options = address, protocol, own_id, options
        self._changed = asyncio.Event()
        self._to_send = asyncio.Event()
        self._trouble: BaseException | str | None = None
        self._listeners: list[Callable[[], None]] = []
        self._task: asyncio.Task[None] | None = None

    # -- life ----------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect, and wait until the server has said something.

        Raises TurnedAway at once when it is of no use, Unreachable when it takes too long.
        """
        require_websockets()
        self._protocol.disconnected()  # what is asked before the first connect waits for it
        self._task = asyncio.create_task(self._run(), name=f"connection to {self._address.http('')}")
        self._task.add_done_callback(self._stopped)
        try:
            async with asyncio.timeout(self._options.connect_timeout):
                await self.until(lambda: self.is_open and self._protocol.frames > 0)
        except TimeoutError:
            if not self.is_open:
                await self.close()
                why = str(self._trouble or "nobody answered")
                raise Unreachable(
                    f"unable to connect to {self._address.http('')}; {why}. Is the server running?"
                ) from None
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self.failure = self.failure or ClientError("unable to go on; the client is closed")
        self.notify()

    def flush(self) -> None:
        """Say that the protocol has frames to send."""
        self._to_send.set()
        self.notify()

    # -- waiting -----------------------------------------------------------------------------------------------------

    def listen(self, listener: Callable[[], None]) -> None:
        """Have a function called, in the loop, after everything that happens."""
        self._listeners.append(listener)

    def notify(self) -> None:
        for listener in self._listeners:
            listener()
        self._changed.set()
        self._changed = asyncio.Event()

    async def change(self) -> None:
        """Wait until something happens; raises what ended the connection, if that is over for good."""
        if self.failure is not None:
            raise self.failure
        await self._changed.wait()

    async def until(self, fact: Callable[[], bool]) -> None:
        while not fact():
            await self.change()

    # -- the loop ------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        options, attempt = self._options, 0
        while self.failure is None:
            since = options.clock.now()
            try:
                socket = await self._connect()
            except ClientError as error:
                self._fail(error)
                return
            except _failures() as error:
                self._trouble = error
            else:
                await self._talk(socket)
                if options.clock.now() - since >= options.backoff.steady * 1000:
                    attempt = 0
            if self.failure is None:
                attempt += 1
                delay = options.backoff.delay(attempt, options.random)
                await options.clock.sleep_until(Millis(options.clock.now() + delay))

    async def _connect(self) -> ClientConnection:
        from websockets.asyncio.client import connect
        from websockets.exceptions import InvalidStatus

        options = self._options
        query = {"_pk": self._own_id, **await fields(options.query)}
        url, headers = self._address.socket(query), dict(await fields(options.headers))
        if options.connect is not None:
            return await options.connect(url, headers)  # type: ignore[no-any-return]
        try:
            # Answers come in bursts: a pong may have to wait behind megabytes on a slow network.
            return await connect(
                url,
                additional_headers=headers,
                max_size=None,
                open_timeout=options.connect_timeout,
                ping_timeout=60,
                close_timeout=1,
            )
        except InvalidStatus as refused:
            status = refused.response.status_code
            if 400 <= status < 500 and status not in (408, 425, 429):
                said = (refused.response.body or b"").decode(errors="replace").strip()[:500]
                raise TurnedAway(
                    f"unable to connect to {self._address.http('')}; the server says {status} {said}".rstrip(),
                    status=status,
                ) from None
            raise

    async def _talk(self, socket: ClientConnection) -> None:
        from websockets.exceptions import ConnectionClosed

        self._protocol.connected()
        self.is_open = True
        self.flush()
        writing = asyncio.create_task(self._write(socket), name="writing to an agent")
        try:
            with suppress(ConnectionClosed):
                async for text in socket:
                    self._protocol.receive(text)
                    self.flush()
        finally:
            self.is_open = False
            writing.cancel()
            with suppress(asyncio.CancelledError):
                await writing
            self._protocol.disconnected()
            await socket.close()
            self._closed(socket.close_code or 1006, socket.close_reason or "")
            self.notify()

    def _closed(self, status: int, reason: str) -> None:
        self._trouble = f"the server closed the connection with {status} {reason}".rstrip()
        if status in TERMINAL:
            self._fail(
                TurnedAway(
                    f"unable to talk to {self._address.http('')}; {reason or 'the server refuses'}", status=status
                )
            )

    async def _write(self, socket: ClientConnection) -> None:
        from websockets.exceptions import ConnectionClosed

        with suppress(ConnectionClosed):
            while True:
                self._to_send.clear()
                for frame in self._protocol.frames_to_send():
                    await socket.send(frame)
                await self._to_send.wait()

    def _stopped(self, task: asyncio.Task[None]) -> None:
        """Let nobody wait for a connection that broke in a way nobody thought of."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(ClientError(f"unable to go on; the connection failed with {error!r}"))

    def _fail(self, error: ClientError) -> None:
        self.failure = error
        self.notify()


async def fields(given: Fields) -> Mapping[str, str]:
    """Return headers or query fields, asking for them where a function was given."""
    if not callable(given):
        return given
    asked: Any = given()
    return await asked if inspect.isawaitable(asked) else asked  # type: ignore[no-any-return]


def require_websockets() -> None:
    try:
        import websockets.asyncio.client  # noqa: F401 - only whether it is there
    except ImportError:
        raise missing("websockets", "client", "connect") from None


def _failures() -> tuple[type[BaseException], ...]:
    from websockets.exceptions import InvalidHandshake, InvalidMessage

    return (OSError, TimeoutError, EOFError, InvalidHandshake, InvalidMessage)
