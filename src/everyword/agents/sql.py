"""`self.sql(...)`: the agent's own database, beside its log."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar, overload

from ..runtime.agent_runtime import AgentRuntime
from ..runtime.api import SqlResult

__all__ = ["Row", "Rows", "Sql"]

log = logging.getLogger("everyword.agents")
D = TypeVar("D")


class Row(dict[str, Any]):
    """One row: a dict of its columns in order, which also takes an index: `row["id"]`, `row[0]`.

    If two columns have the same name, the name means the last one.
    """

    __slots__ = ("_values",)

    def __init__(self, columns: Sequence[str], values: tuple[Any, ...]) -> None:
        super().__init__(zip(columns, values, strict=True))
        self._values = values

    def __getitem__(self, key: str | int) -> Any:
        return self._values[key] if isinstance(key, int) else super().__getitem__(key)

    def __reduce__(self) -> tuple[Any, ...]:
        return Row, (tuple(self), self._values)


class Rows(Sequence[Row]):
    """The result of a statement: await it to get the list, or use it as a list, which blocks the thread.

    The statement is queued when this object is made, and runs whether or not the result is used. If the result is not
    used, an error is logged.
    """

    def __init__(self, query: str, future: Future[SqlResult]) -> None:
        self._future = future
        self._rows: list[Row] | None = None
        self._report = _ErrorReport(query)
        future.add_done_callback(self._report.settled)

    def __await__(self) -> Generator[Any, None, list[Row]]:
        self._report.is_seen = True
        result = yield from asyncio.wrap_future(self._future).__await__()
        return self._made(result)

    def __len__(self) -> int:
        return len(self._waited())

    def __iter__(self) -> Iterator[Row]:
        return iter(self._waited())

    @overload
    def __getitem__(self, place: int) -> Row: ...

    @overload
    def __getitem__(self, place: slice) -> list[Row]: ...

    def __getitem__(self, place: int | slice) -> Row | list[Row]:
        return self._waited()[place]

    def __eq__(self, other: object) -> bool:
        return self._waited() == (list(other) if isinstance(other, Rows) else other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Rows({self._waited()!r})" if self._future.done() else "Rows(…)"

    def __del__(self) -> None:
        report = getattr(self, "_report", None)
        if report is not None:
            report.dropped(self._future)

    def _waited(self) -> list[Row]:
        self._report.is_seen = True
        return self._made(self._future.result())

    def _made(self, result: SqlResult) -> list[Row]:
        if self._rows is None:
            self._rows = [Row(result.columns, values) for values in result.rows]
        return self._rows


class _ErrorReport:
    """Logs the error of a statement, once, if no code uses the result."""

    def __init__(self, query: str) -> None:
        self.is_seen = False
        self._query, self._is_dropped, self._is_told = query, False, False
        self._lock = threading.Lock()

    def settled(self, future: Future[SqlResult]) -> None:
        self._tell(future)

    def dropped(self, future: Future[SqlResult]) -> None:
        self._is_dropped = True
        if future.done():
            self._tell(future)

    def _tell(self, future: Future[SqlResult]) -> None:
        error = future.exception()
        with self._lock:
            if error is None or self.is_seen or not self._is_dropped or self._is_told:
                return
            self._is_told = True
        log.error("the statement %r failed, and no code used its result: %s", self._query, error)


class _Agent(Protocol):
    _runtime: AgentRuntime


class Sql:
    """The database of an agent. It is created at first use, and deleted when the agent is destroyed."""

    def sql(self: _Agent, query: str, *params: Any) -> Rows:
        """Run one statement, with a value for each `?`: `rows = await self.sql("select * from note where id = ?", 7)`.

        Statements run in the order of the calls, each in its own transaction. Besides the agent's own tables there are
        read-only views of its log: `messages`, `stream_metadata`, `stream_chunks`, and those
        of the chat with the names that they have in the original (`cf_ai_chat_agent_messages`, …).

        Raises, where the result is awaited or used:
            SqlError: the statement failed; nothing of it was written.
            LogUnavailable: PostgreSQL could not be reached; nothing of it was written.
            OutcomeUnknown: the connection to PostgreSQL was lost while it was written.
            Fenced: the agent is not loaded on this node any more (PostgreSQL); nothing of it was written.
        """
        return Rows(query, self._runtime.storage.sql(query, params))
