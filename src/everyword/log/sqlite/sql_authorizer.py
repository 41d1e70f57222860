"""What an agent's own SQL may do: everything with its own tables, nothing with anybody else's files.

The log is not in the same connection at all: what an agent sees of it are copies of its own rows. An authorizer could
not keep other agents' rows apart, because SQLite names to it the view that reads a table, and a `WITH` clause may take
that name. So the guard only has to keep the connection from reaching another file, and the copies from being changed.
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
"""What may be asked or set of the database itself; FTS5 asks for `data_version`."""

MODULES: Final = frozenset({"fts5", "fts4", "rtree"})
"""Virtual tables that live in the agent's own file."""

FUNCTIONS: Final = frozenset({"load_extension", "fts3_tokenizer"})
"""Functions that nobody may call."""

_TEMPORARY: Final = frozenset(
    {
        *(sqlite3.SQLITE_CREATE_TEMP_INDEX, sqlite3.SQLITE_CREATE_TEMP_TABLE, sqlite3.SQLITE_CREATE_TEMP_TRIGGER),
        *(sqlite3.SQLITE_CREATE_TEMP_VIEW, sqlite3.SQLITE_DROP_TEMP_INDEX, sqlite3.SQLITE_DROP_TEMP_TABLE),
        *(sqlite3.SQLITE_DROP_TEMP_TRIGGER, sqlite3.SQLITE_DROP_TEMP_VIEW),
    }
)
_WRITES: Final = frozenset({sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE})
_NAMED: Final = frozenset({sqlite3.SQLITE_CREATE_TABLE, sqlite3.SQLITE_CREATE_VIEW, sqlite3.SQLITE_CREATE_VTABLE})
_TRANSACTIONS: Final = frozenset({sqlite3.SQLITE_TRANSACTION, sqlite3.SQLITE_SAVEPOINT})


class SqlAuthorizer:
    """An authorizer for one connection. `refusal` says why the statement that was just prepared was refused."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.refusal: str | None = None
        self._is_open = False
        connection.set_authorizer(self._allow)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Let everything pass: what runs now is ours."""
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
            return sqlite3.SQLITE_OK
        self.refusal = why
        return sqlite3.SQLITE_DENY


def _why_refused(action: int, one: str, two: str, base: str) -> str | None:
    if action in (sqlite3.SQLITE_READ, sqlite3.SQLITE_SELECT):  # nearly all of them
        return None
    if action in (sqlite3.SQLITE_ATTACH, sqlite3.SQLITE_DETACH):
        return "an agent's database stands alone. Other files cannot be attached, and VACUUM is not for it"
    if action in _TRANSACTIONS:
        return "each statement is a transaction of its own. Write what belongs together in one statement"
    if action == sqlite3.SQLITE_PRAGMA and one not in PRAGMAS:
        return f"PRAGMA {one} is not for agents; they may use {', '.join(sorted(PRAGMAS))}"
    if action == sqlite3.SQLITE_FUNCTION and two in FUNCTIONS:
        return f"{two} is not for agents"
    if action == sqlite3.SQLITE_CREATE_VTABLE and two not in MODULES:
        return f"virtual tables of kind {two!r} are not for agents; they may use {', '.join(sorted(MODULES))}"
    if action in _TEMPORARY or (base == "temp" and (action in _WRITES or action == sqlite3.SQLITE_ALTER_TABLE)):
        return f"views of the log are read-only, and there are no other temporary tables: {', '.join(VIEWS)}"
    if (action in _NAMED and one in VIEWS) or (action == sqlite3.SQLITE_ALTER_TABLE and two in VIEWS):
        return f"{one if one in VIEWS else two!r} is the name of a view of the log. Choose another name"
    return None
