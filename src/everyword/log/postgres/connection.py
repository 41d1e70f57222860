"""Connect to the database, and say in one sentence what to do if that fails."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any, Final

import asyncpg

from ...errors import EverywordError, Fenced, LogError, LogTooNew, LogUnavailable
from ..sql_files import parse_statements
from .address import DatabaseAddress

__all__ = ["DRIVER_ERRORS", "LOST_FENCE", "NOT_ALLOWED", "TOO_OLD", "Connector", "refusal"]

OLDEST: Final = 14
"""The oldest PostgreSQL that works."""

DRIVER_ERRORS: Final = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # a connection that was lost while it was opened: "another operation is in progress"
    AttributeError,  # a connection that was terminated between two steps of a statement: it has no protocol any more
    OSError,
    TimeoutError,
)
"""What the driver raises when a statement or a connection fails."""

TOO_OLD: Final = "EW003"
"""The database's code for a node of a release that is too old to join."""

LOST_FENCE: Final = "EW002"
"""The database's code for a node that may not write any more."""

NOT_ALLOWED: Final = "42501"
"""The database's code for a right that the role lacks."""

CONNECT_TIMEOUT: Final = 5.0

READ_TIMEOUT: Final = "20000"
"""Milliseconds for a statement that needs no lease: reads of a whole conversation, and retention."""

_STATEMENTS: Final = parse_statements((files(__package__) / "sql" / "queries.sql").read_text(encoding="utf-8"))


class Connector:
    """Makes connections with the settings that writes need, and knows the statements for its schema."""

    def __init__(self, address: DatabaseAddress, *, lease: float, flushes: bool) -> None:
        self.address = address
        third = str(max(int(lease * 1000 / 3), 1))
        self._settings = {
            "application_name": "everyword",
            "jit": "off",
            "synchronous_commit": "on" if flushes else "off",
            "statement_timeout": third,
            "idle_in_transaction_session_timeout": third,
            "tcp_user_timeout": third,
        }
        self._is_pooled = address.pooler == "transaction"
        self._prefix = f'"{address.schema}".'
        self.sql = {name: self.in_schema(text) for name, text in _STATEMENTS.items()}
        """The statements of `sql/queries.sql` by name, for this schema."""

    def in_schema(self, text: str) -> str:
        """Return statements for this schema."""
        return text.replace("everyword.", self._prefix)

    async def connect(self, **settings: str) -> Any:
        """Open a connection.

        Raises:
            LogError: the database cannot be used as it is: wrong password, no such database, too old.
            LogUnavailable: it cannot be reached now.
        """
        options: dict[str, Any] = {"timeout": CONNECT_TIMEOUT}
        if self._is_pooled:
            options["statement_cache_size"] = 0
        else:
            options["server_settings"] = {**self._settings, **settings}
        try:
            connection = await asyncpg.connect(self.address.dsn, **options)
        except (*DRIVER_ERRORS, ValueError) as exc:
            raise self._explained(exc) from exc
        version = connection.get_server_version()
        if version.major < OLDEST:
            await connection.close()
            raise LogError(
                f"unable to use {self.address.shown}; it is PostgreSQL {version.major}, and {OLDEST} is the oldest "
                "that works. Upgrade the server"
            )
        return connection

    def _explained(self, exc: BaseException) -> LogError:
        shown = self.address.shown
        match exc:
            case asyncpg.InvalidPasswordError() | asyncpg.InvalidAuthorizationSpecificationError():
                return LogError(
                    f"unable to open {shown}; {_sentence(exc)}. Check the user and the password in `store=`"
                )
            case asyncpg.InvalidCatalogNameError():
                return LogError(f"unable to open {shown}; {_sentence(exc)}. Create the database first: `createdb`")
            case asyncpg.TooManyConnectionsError():
                return LogUnavailable(
                    f"unable to open {shown}; {_sentence(exc)}. Raise max_connections: a node uses up to 9 connections"
                )
            case asyncpg.OperatorInterventionError() | asyncpg.PostgresConnectionError():  # it stops, or starts
                return LogUnavailable(f"unable to open {shown}; {_sentence(exc)}")
            case OSError() | TimeoutError():
                why = _sentence(exc) or "it did not answer in time"
                return LogUnavailable(f"unable to reach {shown}; {why}. Check that PostgreSQL runs and its address")
            case _:
                return LogError(f"unable to open {shown}; {_sentence(exc)}")

    @asynccontextmanager
    async def connected(self, **settings: str) -> AsyncIterator[Any]:
        """Open a connection for a moment."""
        connection = await self.connect(**settings)
        try:
            yield connection
        finally:
            await connection.close(timeout=CONNECT_TIMEOUT)

    async def pool(self, size: int) -> Any:
        """Open connections for reading."""
        settings = {**self._settings, "statement_timeout": READ_TIMEOUT}
        options: dict[str, Any] = {"statement_cache_size": 0} if self._is_pooled else {"server_settings": settings}
        pool: Awaitable[Any] = asyncpg.create_pool(
            self.address.dsn, min_size=0, max_size=size, timeout=CONNECT_TIMEOUT, reset=_as_it_is, **options
        )
        return await pool


async def _as_it_is(connection: Any) -> None:
    """Give a connection back to its pool as it is: no read changes its session. Saves a round trip for each read."""


def refusal(doing: str, exc: BaseException) -> EverywordError:
    """Return the error of a statement that failed: nothing of it was written, or its outcome is unknown."""
    if isinstance(exc, EverywordError):
        return exc
    if getattr(exc, "sqlstate", None) == LOST_FENCE:
        return Fenced(f"unable to {doing}; {_sentence(exc)}")
    if getattr(exc, "sqlstate", None) == TOO_OLD:
        return LogTooNew(f"unable to {doing}; {_sentence(exc)}. Upgrade everyword")
    return LogUnavailable(f"unable to {doing}; {_sentence(exc) or type(exc).__name__}")


def _sentence(exc: BaseException) -> str:
    return str(exc).partition("\n")[0].rstrip(".")
