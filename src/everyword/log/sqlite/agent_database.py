"""The SQL database of one agent: a connection, an authorizer, and copies of the agent's part of the log."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from typing import Any, Final

from ...errors import EverywordError, SqlError
from ...ids import AgentId
from ..base import SqlResult
from ..views import VIEWS, ViewSource
from .sql_authorizer import SqlAuthorizer
from .statements import read_statements

__all__ = ["AgentDatabase"]

MAX_ROWS: Final = 100_000
"""Rows that one statement may return: all of them are held in memory."""

MAX_SECONDS: Final = 30.0
"""Seconds that one statement may run: the statements behind it wait."""

STEPS: Final = 20_000
"""Steps of SQLite's virtual machine between two checks of the time limit."""

_CREATE: Final = read_statements("views.sql")
_LIMITS: Final = {
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LENGTH: 64 * 1024 * 1024,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1024 * 1024,
}
_KINDS: Final = (str, int, float, bytes, bytearray, memoryview)


class AgentDatabase:
    """Runs statements one at a time. Any thread may call, but only one at once."""

    def __init__(
        self, agent: AgentId, connection: sqlite3.Connection, source: ViewSource, *, if_full: str | None = None
    ) -> None:
        self.connection = connection
        self._agent, self._source, self._if_full = agent, source, if_full
        self._authorizer = SqlAuthorizer(connection)
        self._copied: dict[str, object] = {}
        """The version of the log that each filled view shows."""
        self._deadline = 0.0
        for limit, value in _LIMITS.items():
            connection.setlimit(limit, value)
        connection.set_progress_handler(self._is_too_late, STEPS)

    def run(self, query: str, params: Sequence[Any]) -> SqlResult:
        """Run one statement in a transaction of its own.

        Raises:
            SqlError: the statement failed, and nothing of it was written.
        """
        self._authorizer.begin()
        self._deadline = time.monotonic() + MAX_SECONDS
        _check_values(query, params)
        try:
            self._show(query)
            cursor = self.connection.execute(query, tuple(params))
            try:
                rows = cursor.fetchmany(MAX_ROWS + 1) if cursor.description is not None else []
            finally:
                cursor.close()
        except (sqlite3.Error, sqlite3.Warning, UnicodeError, OverflowError) as exc:
            raise self._failure(query, exc) from exc
        if len(rows) > MAX_ROWS:
            raise SqlError(f"unable to run {_short(query)}; it returns more than {MAX_ROWS} rows. Use LIMIT and OFFSET")
        return SqlResult(_columns(cursor.description), rows)

    @property
    def may_have_written(self) -> bool:
        """True if the last statement may have written, even if it failed: `insert or fail` keeps what came before."""
        return self._authorizer.may_write

    def detach(self) -> None:
        """Remove the handlers from the connection; `run` must not be called afterwards."""
        self.connection.set_progress_handler(None, 0)
        self.connection.set_authorizer(None)

    def _show(self, query: str) -> None:
        """Fill the views that the statement names, unless the log is the same as when they were last filled.

        A search for the names finds every use: SQL has no way to write an identifier but letter for letter.
        """
        said = query.lower()
        named = [name for name in VIEWS if name in said]
        if not named:
            return
        version = self._source.version(self._agent)
        with self._authorizer.opened():
            for name in named:
                if self._copied.get(name) != version:
                    self._copy(name)
                    self._copied[name] = version

    def _copy(self, name: str) -> None:
        rows = VIEWS[name](self._source, self._agent)
        execute = self.connection.execute
        execute(_CREATE[name])
        execute("BEGIN")
        try:
            execute(_CREATE["empty"].format(name))
            if rows:
                holes = ", ".join("?" * len(rows[0]))
                self.connection.executemany(_CREATE["fill"].format(name, holes), rows)
        finally:
            execute("COMMIT")

    def _is_too_late(self) -> bool:
        return time.monotonic() > self._deadline

    def _failure(self, query: str, exc: Exception) -> EverywordError:
        why = self._authorizer.refusal or str(exc)
        match getattr(exc, "sqlite_errorcode", None):
            case sqlite3.SQLITE_INTERRUPT:
                why = f"it ran for more than {MAX_SECONDS:g} s. Make it smaller, or give it an index"
            case sqlite3.SQLITE_FULL if self._if_full is not None:
                why = self._if_full
        return SqlError(f"unable to run {_short(query)}; {why}", is_constraint=isinstance(exc, sqlite3.IntegrityError))


def _check_values(query: str, params: Sequence[Any]) -> None:
    for place, value in enumerate(params, 1):
        if value is not None and not isinstance(value, _KINDS):
            kind = type(value).__name__
            raise SqlError(
                f"unable to run {_short(query)}; value {place} is a {kind}. Give str, int, float, bytes, bool or None"
            )


def _columns(description: Any) -> tuple[str, ...]:
    return tuple(str(column[0]) for column in description or ())


def _short(query: str) -> str:
    words = " ".join(query.split())
    return repr(words if len(words) <= 120 else f"{words[:117]}...")
