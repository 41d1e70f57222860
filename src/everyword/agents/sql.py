"""`self.sql(...)`: a database of the agent's own, beside its log."""

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
    """One row: a dict of its columns, in order, that can be asked by place too: `row["id"]`, `row[0]`.

    Where two columns have one name, the name means the last of them.
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
    """What a statement gives: await it for the list, or use it as one, which waits with the whole thread.

    The statement is queued already, behind those before. It runs whether or not anybody looks here; if nobody does,
    its error goes to the log.
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
    """Whether anybody will hear of a statement's error; tells the log if not, once."""

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
        log.error("nobody looked at what became of %r: %s", self._query, error)


class _Agent(Protocol):
    _runtime: AgentRuntime


class Sql:
    """What an agent can ask of its own database. It is made at first use, and goes when the agent is destroyed."""

    def sql(self: _Agent, query: str, *params: Any) -> Rows:
        """Run one statement, with a value for each `?`: `rows = await self.sql("select * from note where id = ?", 7)`.

        Statements run in the order in which they were asked, each in a transaction of its own. Besides the agent's own
        tables there are views of its log, to be read only: `messages`, `stream_metadata`, `stream_chunks`, and those
        of the chat with the names that they have in the original (`cf_ai_chat_agent_messages`, …).

        Raises, where the result is awaited or used:
            SqlError: the statement failed; nothing of it was written.
        """
        return Rows(query, self._runtime.storage.sql(query, params))
