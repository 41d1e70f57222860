"""One socket to one agent, which is opened again when it is lost."""

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
from .address import AgentAddress
from .backoff import Backoff, ClientClock, MonotonicClock
from .protocol.agent import AgentProtocol

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

__all__ = ["Fields", "Options", "ReconnectingConnection"]

Fields = Mapping[str, str] | Callable[[], Mapping[str, str] | Awaitable[Mapping[str, str]]]
"""Headers or query fields, or a function that is called before every connect: tokens may be short-lived."""

TERMINAL = {1008, *range(4000, 5000)}
"""Close codes after which the client does not reconnect."""

DESTROYED = (1001, "Agent destroyed")
"""How the server closes the sockets of an agent that was deleted. A new agent may use its name."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to connect. `connect_timeout` limits, in seconds, how long opening the client may take, with all retries."""

    headers: Fields = field(default_factory=dict)
    query: Fields = field(default_factory=dict)
    backoff: Backoff = field(default_factory=Backoff)
    clock: ClientClock = field(default_factory=MonotonicClock)
    random: Callable[[], float] = random
    connect_timeout: float = 10.0
    connect: Callable[[str, Mapping[str, str]], Awaitable[Any]] | None = None
    """Opens a socket to a URL with headers. It must behave like one of `websockets`, which is used if this is None."""
    transport: Any = None
    """The httpx transport for HTTP requests; None for the default."""


class ReconnectingConnection:
    """Keeps a protocol connected until it is closed or the server refuses it.

    Callers wait for a condition with `until`, which checks it after every event.
    """

    def __init__(self, address: AgentAddress, protocol: AgentProtocol, own_id: str, options: Options) -> None:
        self.is_open = False
        self.failure: ClientError | None = None
        self._address, self._protocol, self._own_id, self._options = address, protocol, own_id, options
        self._changed = asyncio.Event()
        self._to_send = asyncio.Event()
        self._last_error: BaseException | str | None = None
        self._listeners: list[Callable[[], None]] = []
        self._task: asyncio.Task[None] | None = None

    # -- opening and closing -----------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect, and wait for the first frame of the server.

        Raises TurnedAway if the server refuses the connection, Unreachable after `connect_timeout`.
        """
        require_websockets()
        self._protocol.disconnected()  # questions before the first connect wait for it
        self._task = asyncio.create_task(self._run(), name=f"connection to {self._address.http('')}")
        self._task.add_done_callback(self._stopped)
        try:
            async with asyncio.timeout(self._options.connect_timeout):
                await self.until(lambda: self.is_open and self._protocol.frames > 0)
        except TimeoutError:
            if not self.is_open:
                await self.close()
                why = str(self._last_error or "no server answered")
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
        self.failure = self.failure or ClientError("unable to continue; the client is closed")
        self.notify()

    def flush(self) -> None:
        """Send the frames that the protocol has ready."""
        self._to_send.set()
        self.notify()

    # -- waiting -----------------------------------------------------------------------------------------------------

    def listen(self, listener: Callable[[], None]) -> None:
        """Call a function, in the event loop, after every event: a frame, a connect, a disconnect, a command."""
        self._listeners.append(listener)

    def notify(self) -> None:
        """Call the listeners and wake everything that waits."""
        for listener in self._listeners:
            listener()
        self._changed.set()
        self._changed = asyncio.Event()

    async def change(self) -> None:
        """Wait for the next event; raise the error that ended the connection, if it does not reconnect."""
        if self.failure is not None:
            raise self.failure
        await self._changed.wait()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition is true; raises as `change` does."""
        while not condition():
            await self.change()

    # -- the connection loop -----------------------------------------------------------------------------------------

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
                self._last_error = error
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
            # On a slow network a pong may wait behind megabytes of an answer, so the ping timeout is long.
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
                text = (refused.response.body or b"").decode(errors="replace").strip()[:500]
                raise TurnedAway(
                    f"unable to connect to {self._address.http('')}; the server answered {status} {text}".rstrip(),
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
            await asyncio.wait([writing])  # not `await writing`: that this task is cancelled meanwhile would be lost
            if not writing.cancelled():
                writing.result()
            self._protocol.disconnected(is_deleted=(socket.close_code, socket.close_reason) == DESTROYED)
            await socket.close()
            self._closed(socket.close_code or 1006, socket.close_reason or "")
            self.notify()

    def _closed(self, status: int, reason: str) -> None:
        self._last_error = f"the server closed the connection with {status} {reason}".rstrip()
        if status in TERMINAL:
            why = reason or "the server refused the connection"
            self._fail(TurnedAway(f"unable to talk to {self._address.http('')}; {why}", status=status))

    async def _write(self, socket: ClientConnection) -> None:
        from websockets.exceptions import ConnectionClosed

        with suppress(ConnectionClosed):
            while True:
                self._to_send.clear()
                for frame in self._protocol.frames_to_send():
                    await socket.send(frame)
                await self._to_send.wait()

    def _stopped(self, task: asyncio.Task[None]) -> None:
        """Report an unexpected error to everything that waits for this connection."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(ClientError(f"unable to continue; the connection failed with {error!r}"))

    def _fail(self, error: ClientError) -> None:
        self.failure = error
        self.notify()


async def fields(given: Fields) -> Mapping[str, str]:
    """Return headers or query fields; call the function if one was given."""
    if not callable(given):
        return given
    asked: Any = given()
    return await asked if inspect.isawaitable(asked) else asked  # type: ignore[no-any-return]


def require_websockets() -> None:
    try:
        import websockets.asyncio.client  # noqa: F401 - only to see whether it is installed
    except ImportError:
        raise missing("websockets", "client", "connect") from None


def _failures() -> tuple[type[BaseException], ...]:
    from websockets.exceptions import InvalidHandshake, InvalidMessage

    return (OSError, TimeoutError, EOFError, InvalidHandshake, InvalidMessage)
