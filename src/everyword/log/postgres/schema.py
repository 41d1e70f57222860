"""The tables and functions of the schema: made or brought up to date under a lock, while other nodes may be running.

A script only adds: tables, columns, and functions with a new number in their names. So a node of the release before
goes on working. `store.version` is the newest script that was applied, `store.oldest` the oldest release that can still
work with it.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any, Final, NamedTuple

from ...errors import LogError, LogTooNew
from .connection import DRIVER_ERRORS, NOT_ALLOWED, Connector, refusal

__all__ = ["VERSION", "prepare_schema", "read_version"]

LOCK: Final = 0x65777264
"""The key of the advisory lock under which the schema is changed."""

_NAME = re.compile(r"(\d{4})_\w+\.sql")


class Script(NamedTuple):
    version: int
    text: str


def _scripts() -> list[Script]:
    found = [
        Script(int(name[1]), each.read_text(encoding="utf-8"))
        for each in (files(__package__) / "sql" / "migrations").iterdir()
        if (name := _NAME.fullmatch(each.name))
    ]
    return sorted(found)


SCRIPTS: Final = _scripts()
VERSION: Final = SCRIPTS[-1].version
"""The version of the schema that this release knows."""

OLDEST: Final = 1
"""The oldest version whose release can work with what this one writes."""


async def prepare_schema(connector: Connector) -> None:
    """Make the schema, or bring it up to date.

    Raises:
        LogTooNew: it needs a newer release.
        LogError: the role may not create it.
    """
    shown, schema = connector.address.shown, connector.address.schema
    async with connector.connected(statement_timeout="60000") as connection:
        try:
            if await read_version(connection, connector) == VERSION:
                return
            async with connection.transaction():
                await connection.execute(connector.sql["lock_schema"], LOCK)
                if not await connection.fetchval(connector.sql["has_schema"], schema):
                    # Not `if not exists`, which needs CREATE on the database even if the schema is there.
                    await connection.execute(f'create schema "{schema}"')
                await connection.execute(connector.sql["create_store"])
                version = await read_version(connection, connector)
                for script in SCRIPTS:
                    if script.version > version:
                        await connection.execute(connector.in_schema(script.text))
                await connection.execute(connector.sql["set_store_version"], VERSION, OLDEST)
        except DRIVER_ERRORS as exc:
            if getattr(exc, "sqlstate", None) == NOT_ALLOWED:
                is_there = await connection.fetchval(connector.sql["has_schema"], schema)
                raise LogError(
                    f"unable to use the schema {schema!r} in {shown}; {exc}. Use the role that owns the schema"
                    if is_there
                    else f"unable to make the schema {schema!r} in {shown}; {exc}. Grant CREATE on the database to the "
                    f'role, or create the schema for it: create schema "{schema}" authorization …'
                ) from exc
            raise refusal(f"prepare the schema {schema!r} in {shown}", exc) from exc


async def read_version(connection: Any, connector: Connector) -> int:
    """Return the version of the schema, 0 if there is none; at most the version that this release knows.

    Raises:
        LogTooNew: it needs a newer release.
    """
    if not await connection.fetchval(connector.sql["has_table"], connector.in_schema("everyword.store")):
        return 0
    row = await connection.fetchrow(connector.sql["store_version"])
    if row is None:
        return 0
    version, oldest = row
    if oldest > VERSION:
        raise LogTooNew(
            f"unable to open {connector.address.shown}; its schema has version {version}, and this everyword knows "
            f"{VERSION}. Upgrade everyword, or use another `schema=`"
        )
    return int(version) if version < VERSION else VERSION
