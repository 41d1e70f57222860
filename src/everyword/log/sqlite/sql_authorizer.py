"""What the SQL of an agent may do: anything with its own tables, nothing with other files.

The connection has no access to the log: the agent sees copies of its own rows. An authorizer could not separate the
rows of agents, because SQLite tells it the name of the view that reads a table, and a `WITH` clause may use the same
name. So the authorizer only has to keep the connection from opening another file, and the copies from being changed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ..views import VIEWS

__all__ = ["SqlAuthorizer"]

PRAGMAS: Final = frozenset(
    {"data_version", "foreign_key_check", "foreign_key_list", "foreign_keys", "index_info", "index_list"}
    | {"index_xinfo", "integrity_check", "quick_check", "table_info", "table_list", "table_xinfo", "user_version"}
)
"""PRAGMAs that an agent may use; FTS5 uses `data_version`."""

MODULES: Final = frozenset({"fts5", "fts4", "rtree"})
"""Modules of virtual tables, which store their data in the agent's own file."""

FUNCTIONS: Final = frozenset({"load_extension", "fts3_tokenizer"})
"""Functions that an agent may not call."""

_TEMPORARY: Final = frozenset(
    {
        *(sqlite3.SQLITE_CREATE_TEMP_INDEX, sqlite3.SQLITE_CREATE_TEMP_TABLE, sqlite3.SQLITE_CREATE_TEMP_TRIGGER),
        *(sqlite3.SQLITE_CREATE_TEMP_VIEW, sqlite3.SQLITE_DROP_TEMP_INDEX, sqlite3.SQLITE_DROP_TEMP_TABLE),
        *(sqlite3.SQLITE_DROP_TEMP_TRIGGER, sqlite3.SQLITE_DROP_TEMP_VIEW),
    }
)
_READS: Final = frozenset(
    {sqlite3.SQLITE_READ, sqlite3.SQLITE_SELECT, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
_WRITES: Final = frozenset({sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE})
_NAMED: Final = frozenset({sqlite3.SQLITE_CREATE_TABLE, sqlite3.SQLITE_CREATE_VIEW, sqlite3.SQLITE_CREATE_VTABLE})
_TRANSACTIONS: Final = frozenset({sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT})


class SqlAuthorizer:
    """The authorizer of one connection. `refusal` is the reason why the last statement was refused, if it was."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.refusal: str | None = None
        self.may_write = False
        """True if the last statement may have written something: it did more than read."""
        self._is_open = False
        connection.set_authorizer(self._allow)

    def begin(self) -> None:
        """Forget what was noted of the statement before."""
        self.refusal, self.may_write = None, False

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Allow everything inside the block, for statements of the framework."""
        self._is_open = True
        try:
            yield
        finally:
            self._is_open = False

    def _allow(self, action: int, one: str | None, two: str | None, base: str | None, context: str | None) -> int:
        if self._is_open:
            return sqlite3.SQLITE_OK
        why = _why_refused(action, (one or "").lower(), (two or "").lower(), (base or "").lower())
        if why is None:
            self.may_write = self.may_write or action not in _READS
            return sqlite3.SQLITE_OK
        self.refusal = why
        return sqlite3.SQLITE_DENY


def _why_refused(action: int, one: str, two: str, base: str) -> str | None:
    if action in (sqlite3.SQLITE_READ, sqlite3.SQLITE_SELECT):  # nearly all actions
        return None
    if action in (sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH):
        return "an agent's database is one file. ATTACH, DETACH and VACUUM are not allowed"
    if action in _TRANSACTIONS:
        return "each statement is a transaction of its own. Put changes that belong together into one statement"
    if action == sqlite3.SQLITE_PRAGMA and one not in PRAGMAS:
        return f"PRAGMA {one} is not allowed; allowed are {', '.join(sorted(PRAGMAS))}"
    if action == sqlite3.SQLITE_FUNCTION and two in FUNCTIONS:
        return f"the function {two} is not allowed"
    if action == sqlite3.SQLITE_CREATE_VTABLE and two not in MODULES:
        return f"virtual tables of kind {two!r} are not allowed; allowed are {', '.join(sorted(MODULES))}"
    if action in _TEMPORARY or (base == "temp" and (action in _WRITES or action == sqlite3.SQLITE_ALTER_TABLE)):
        return (
            f"views of the log are read-only, and other temporary tables are not allowed. The views: {', '.join(VIEWS)}"
        )
    if (action in _NAMED and one in VIEWS) or (action == sqlite3.SQLITE_ALTER_TABLE and two in VIEWS):
        return f"{one if one in VIEWS else two!r} is the name of a view of the log. Choose another name"
    return None
