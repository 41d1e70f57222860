"""Stores: make one from `store=`, and remove what a destroyed agent keeps beside the log."""

from __future__ import annotations

from typing import Literal
from urllib.parse import unquote

from ..attachments.base import BlobStore
from ..attachments.folder import FolderBlobStore
from ..attachments.memory import MemoryBlobStore
from ..errors import UsageError
from ..extras import missing
from ..ids import AgentId
from ..log.base import LogStore
from ..log.memory import MemoryLog
from ..log.postgres.address import DatabaseAddress, is_postgres
from ..log.sqlite.store import SqliteLog
from ..runtime.attachments import Attachments
from .node_settings import NodeSettings

__all__ = [
    "Durability",
    "attachments_beside",
    "can_be_shared",
    "drop_database",
    "forget_agent",
    "open_blob_store",
    "open_store",
]
__all__ += ["shown_store"]

Durability = Literal["process", "power"]


def open_store(store: str | LogStore, durability: Durability | None, node: NodeSettings | None = None) -> LogStore:
    """Return the store that `store` names, or the store itself; not opened yet.

    A path, `memory:`, `sqlite:///path` or `postgresql://…`. Without a durability it is the store's own default. `node`
    says how this process is called among several.
    """
    if not isinstance(store, str):
        return store
    if store == "memory:":
        return MemoryLog()
    if is_postgres(store):
        return _open_postgres(store, durability or "power", node or NodeSettings())
    if store.startswith("sqlite:///"):
        return SqliteLog(unquote(store.removeprefix("sqlite:///")), durability=durability or "process")
    if "://" in store:
        kind = store.partition("://")[0]
        raise UsageError(
            f"unable to use a {kind!r} store; give a path, 'memory:', 'sqlite:///path', 'postgresql://…' or a LogStore"
        )
    return SqliteLog(store, durability=durability or "process")


def _open_postgres(store: str, durability: Durability, node: NodeSettings) -> LogStore:
    try:
        from ..log.postgres.store import PostgresLog
    except ModuleNotFoundError as exc:
        raise missing("asyncpg", "postgres", "open a PostgreSQL store") from exc
    return PostgresLog(store, durability=durability, name=node.name, lease=node.lease)


def open_blob_store(given: str | BlobStore | None, store: LogStore) -> BlobStore | None:
    """Return where the attachments of an app are; None if nothing says so, and several processes may need them."""
    if given is None:
        if isinstance(store, SqliteLog):
            return FolderBlobStore(attachments_beside(store.path))
        return MemoryBlobStore() if isinstance(store, MemoryLog) else None
    if not isinstance(given, str):
        return given
    if given == "memory:":
        return MemoryBlobStore()
    if "://" in given:
        from ..attachments.objects import ObjectBlobStore

        return ObjectBlobStore.from_url(given)
    return FolderBlobStore(given)


def attachments_beside(path: str) -> str:
    """Return the folder with the attachments of a database file, unless the app says otherwise."""
    return f"{path}.attachments"


def shown_store(store: str | LogStore) -> str:
    """Return where a store is, for people: without a password."""
    if not isinstance(store, str):
        return type(store).__name__
    return DatabaseAddress.parse(store).shown_with_schema if is_postgres(store) else store


def can_be_shared(store: str | LogStore) -> bool:
    """Return whether several nodes may use the store at the same time."""
    return is_postgres(store) if isinstance(store, str) else store.nodes is not None


async def drop_database(store: LogStore, agent: AgentId) -> None:
    """Remove the agent's own database, if it has one; statements that are queued run first."""
    if store.databases is not None:
        await store.databases.drop(agent)


async def forget_agent(store: LogStore, attachments: Attachments | None, agent: AgentId) -> None:
    """Remove what an agent keeps outside of the log: its own database, and attachments."""
    await drop_database(store, agent)
    if attachments is not None:
        await attachments.drop(agent)
