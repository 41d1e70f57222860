"""Connections for the agents' own databases. A call ends within a time limit, whatever the database does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from ...errors import EverywordError, Fenced, LogUnavailable, OutcomeUnknown
from ...ids import Incarnation
from .connection import DRIVER_ERRORS, LOST_FENCE, Connector, refusal

__all__ = ["SqlConnection", "SqlConnections"]

T = TypeVar("T")

CLOSE_TIMEOUT: Final = 0.5
"""Seconds that closing a connection may take before it is cut."""


class SqlConnection:
    """One connection, opened at first use and again after it was lost."""

    def __init__(self, connector: Connector, lane: int | None) -> None:
        self._connector, self._lane = connector, lane
        self._connection: Any = None
        self._fence: tuple[int, int] = (0, 0)

    @property
    def is_open(self) -> bool:
        return self._connection is not None and not self._connection.is_closed()

    async def fetch(self, statement: str, *values: Any) -> Sequence[Any]:
        """Run a statement that reads."""
        await self._open()
        found: Sequence[Any] = await self._connection.fetch(statement, *values)
        return found

    async def write(self, statement: str, incarnation: Incarnation, *values: Any) -> Any:
        """Run a function that writes for the node, and return its result. It gets the fence, then the values.

        Raises:
            Fenced: the node has lost its lease. Nothing was written.
        """
        await self._open()
        if self._fence[0] != incarnation:
            generation = await self._connection.fetchval(self._connector.sql["take_fence"], incarnation, self._lane)
            if generation is None:
                raise Fenced("this node was declared gone")
            self._fence = incarnation, generation
        node, generation = self._fence
        return await self._connection.fetchval(statement, node, self._lane, generation, *values)

    async def _open(self) -> None:
        if not self.is_open:
            self._fence = (0, 0)
            settings = {"default_transaction_read_only": "on"} if self._lane is None else {}
            self._connection = await self._connector.connect(**settings)

    async def aclose(self) -> None:
        if self.is_open:
            with suppress(*DRIVER_ERRORS):
                await self._connection.close(timeout=CLOSE_TIMEOUT)

    def terminate(self) -> None:
        """Cut the connection without a word to the database; a call that is under way fails."""
        if self._connection is not None:
            self._connection.terminate()


class SqlConnections:
    """A few connections for calls that take a moment each. Used in one event loop.

    Args:
        connector: Connects to the database.
        lanes: For each connection the row of the node's fence that its writes lock; None for one that only reads.
        timeout: Seconds that a call may take, with the time that it waits for a free connection.
    """

    def __init__(self, connector: Connector, lanes: Sequence[int | None], timeout: float) -> None:
        self._timeout = timeout
        self._all = [SqlConnection(connector, lane) for lane in lanes]
        self._free: asyncio.LifoQueue[SqlConnection] | None = None  # the last one first: the others may not be needed

    async def call(self, doing: str, work: Callable[[SqlConnection], Awaitable[T]]) -> T:
        """Have a connection for one call.

        Raises:
            OutcomeUnknown: the connection was lost, or the time was over.
            LogUnavailable: the database refused it.
        """
        if self._free is None:
            self._free = asyncio.LifoQueue()
            for each in self._all:
                self._free.put_nowait(each)
        end = asyncio.get_running_loop().time() + self._timeout
        try:
            async with asyncio.timeout_at(end):
                connection = await self._free.get()
        except TimeoutError as exc:
            raise LogUnavailable(f"unable to {doing}; all connections are busy") from exc
        try:
            return await self._call(connection, doing, work, end)
        finally:
            self._free.put_nowait(connection)

    async def _call(
        self, connection: SqlConnection, doing: str, work: Callable[[SqlConnection], Awaitable[T]], end: float
    ) -> T:
        task = asyncio.ensure_future(work(connection))
        # Not by cancelling: the driver would ask the database to cancel, and wait for its answer.
        try:
            done, _ = await asyncio.wait([task], timeout=max(end - asyncio.get_running_loop().time(), 0))
        except asyncio.CancelledError:
            _give_up(connection, task)
            raise
        if not done:
            _give_up(connection, task)
            raise OutcomeUnknown(f"unable to {doing}; the database did not answer within {self._timeout:g} s")
        try:
            return task.result()
        except DRIVER_ERRORS as exc:
            if connection.is_open and hasattr(exc, "sqlstate"):
                if exc.sqlstate == LOST_FENCE:
                    connection.terminate()  # a late call of an older connection may have the fence: take it again
                raise refusal(doing, exc) from exc
            connection.terminate()
            raise OutcomeUnknown(f"unable to {doing}; the connection to the database was lost: {exc}") from exc
        except EverywordError as exc:
            raise type(exc)(f"unable to {doing}; {exc}") from exc

    async def fetch(self, statement: str, *values: Any) -> Sequence[Any]:
        """Run one statement that reads, like a pool of the driver does."""
        try:
            return await self.call("read the log for a view", lambda connection: connection.fetch(statement, *values))
        except OutcomeUnknown as exc:
            raise LogUnavailable(str(exc)) from exc

    def terminate(self) -> None:
        """Cut all connections; calls that are under way fail."""
        for each in self._all:
            each.terminate()

    async def aclose(self) -> None:
        """Close all connections. None of them is in use."""
        for each in self._all:
            await each.aclose()


def _give_up(connection: SqlConnection, task: asyncio.Task[Any]) -> None:
    connection.terminate()
    task.cancel()
    task.add_done_callback(_ignore)


def _ignore(task: asyncio.Task[Any]) -> None:
    with suppress(asyncio.CancelledError, Exception):
        task.result()
