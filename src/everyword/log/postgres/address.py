"""The address of the database: `postgresql://user:password@host/database?schema=everyword&pooler=transaction`.

Our own options are `schema`, `pooler`, `sql_limit` and `sql_memory`.
Everything but our own options is left to the driver: `sslmode`, `host`, `target_session_attrs` and so on.
"""

from __future__ import annotations

import re
from typing import Final, Literal
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec

from ...errors import UsageError

__all__ = ["DatabaseAddress", "is_postgres"]

DEFAULT_SCHEMA: Final = "everyword"
SQL_LIMIT: Final = 16
SQL_MEMORY: Final = 256
MOST_SQL_MEMORY: Final = 1024 * 1024
MOST_SQL_LIMIT: Final = 1024
"""SQLite takes no larger database in memory."""

_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")


class DatabaseAddress(msgspec.Struct, frozen=True):
    """An address that was taken apart."""

    dsn: str
    """For the driver."""
    schema: str
    pooler: Literal["none", "transaction"]
    """With "transaction", sessions are not ours alone: nothing is set in them, and no statement is prepared."""
    shown: str
    """Without the password, for texts that people read."""
    sql_limit: int = SQL_LIMIT
    """Megabytes that the own database of one agent may have."""
    sql_memory: int = SQL_MEMORY
    """Megabytes of memory that the open databases of all agents may take."""

    @classmethod
    def parse(cls, url: str) -> DatabaseAddress:
        """Take an address apart.

        Raises:
            UsageError: one of our options is not valid.
        """
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        schema, pooler = query.pop("schema", DEFAULT_SCHEMA), query.pop("pooler", "none")
        if not _SCHEMA.fullmatch(schema):
            raise UsageError(
                f"unable to use schema {schema!r}; give lower-case letters, digits and underscores, 63 at most"
            )
        if pooler not in ("none", "transaction"):
            raise UsageError(f"unable to use pooler {pooler!r}; it is 'none' or 'transaction'")
        if "@" not in parts.netloc and "@" in f"{parts.path}{parts.fragment}{'' if parts.path else parts.query}":
            raise UsageError(  # do not show it: a part of the password would be taken for the host
                "unable to read the address of the database; its password has one of the characters / ? #. "
                "Write them as %2F, %3F and %23"
            )
        limit = _megabytes(query, "sql_limit", SQL_LIMIT, MOST_SQL_LIMIT)
        memory = _megabytes(query, "sql_memory", SQL_MEMORY, MOST_SQL_MEMORY)
        host = parts.netloc.rpartition("@")[2] or query.get("host", "")
        shown = f"postgresql://{host}{parts.path}"
        dsn = urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(query), ""))
        return cls(dsn, schema, "transaction" if pooler == "transaction" else "none", shown, limit, memory)

    @property
    def shown_with_schema(self) -> str:
        """For texts that tell one store from another."""
        return self.shown if self.schema == DEFAULT_SCHEMA else f"{self.shown}?schema={self.schema}"


def _megabytes(query: dict[str, str], name: str, default: int, most: int) -> int:
    given = query.pop(name, str(default))
    if not given.isdecimal() or not 0 < int(given) <= most:
        raise UsageError(f"unable to use {name} {given!r}; it is a number of megabytes, {most} at most")
    return int(given)


def is_postgres(store: str) -> bool:
    """Return True if `store=` names a PostgreSQL database."""
    return store.startswith(("postgresql://", "postgres://"))
