"""From the `store=` that people write to a store."""

from __future__ import annotations

from typing import Literal
from urllib.parse import unquote

from ..errors import UsageError
from ..log.base import LogStore
from ..log.memory import MemoryLog
from ..log.sqlite.store import SqliteLog

__all__ = ["Durability", "open_store"]

Durability = Literal["process", "power"]


def open_store(store: str | LogStore, durability: Durability) -> LogStore:
    """Return the store that `store` names: a path, `memory:`, `sqlite:///path`, or a store itself; not opened yet."""
    if not isinstance(store, str):
        return store
    if store == "memory:":
        return MemoryLog()
    if store.startswith("sqlite:///"):
        return SqliteLog(unquote(store.removeprefix("sqlite:///")), durability=durability)
    if "://" in store:
        kind = store.partition("://")[0]
        raise UsageError(f"unable to use a {kind!r} store; give a path, 'memory:', 'sqlite:///path' or a LogStore")
    return SqliteLog(store, durability=durability)
