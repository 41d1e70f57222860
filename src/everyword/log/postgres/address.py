"""The address of the database: `postgresql://user:password@host/database?schema=everyword&pooler=transaction`.

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
        host = parts.netloc.rpartition("@")[2] or query.get("host", "")
        shown = f"postgresql://{host}{parts.path}"
        dsn = urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(query), ""))
        return cls(dsn, schema, "transaction" if pooler == "transaction" else "none", shown)

    @property
    def shown_with_schema(self) -> str:
        """For texts that tell one store from another."""
        return self.shown if self.schema == DEFAULT_SCHEMA else f"{self.shown}?schema={self.schema}"


def is_postgres(store: str) -> bool:
    """Return True if `store=` names a PostgreSQL database."""
    return store.startswith(("postgresql://", "postgres://"))
