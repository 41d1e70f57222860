"""Every kind of store, made in one place. Tests that are about all of them are parametrised with `STORES`:

    pytestmark = pytest.mark.parametrize("kind", STORES)

    async def test_something(stores: Stores) -> None:
        async with stores.opened() as store: ...

Tests about one kind only (SQLite's file, PostgreSQL's locks) live in the folder of that kind.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pytest

from everyword.log.memory import MemoryLog
from everyword.log.postgres.store import PostgresLog
from everyword.log.sqlite.store import SqliteLog
from tests.log.building import Store

__all__ = ["STORES", "StoreTests", "Stores", "stores_of"]

STORES: Final[dict[str, Callable[..., Store]]] = {
    "memory": lambda folder, url: MemoryLog(),
    "sqlite": lambda folder, url, **options: SqliteLog(folder / "log.db", **options),
    "postgres": lambda folder, url, **options: PostgresLog(url, **options),
}
"""Kind → how to make a store from a folder, the URL of a PostgreSQL schema, and options of its own."""


class Stores:
    """Makes stores of one kind for one test. Each has what the stores before it have left."""

    def __init__(self, kind: str, folder: Path, url: str = "") -> None:
        self.kind, self.folder, self.url = kind, folder, url
        self._in_memory: Store | None = None

    def make(self, **options: Any) -> Store:
        """Make a store that is not open yet. In memory it is always the same one: the object takes the disk's place."""
        if self._in_memory is not None:
            return self._in_memory
        store = STORES[self.kind](self.folder, self.url, **options)
        if self.kind == "memory":
            self._in_memory = store
        return store

    @asynccontextmanager
    async def opened(self, **options: Any) -> AsyncIterator[Store]:
        store = self.make(**options)
        await store.open()
        try:
            yield store
        finally:
            await store.aclose()


def stores_of(kind: str, request: pytest.FixtureRequest) -> Stores:
    """Return the stores of a test. PostgreSQL is started only for tests of its kind."""
    url = request.getfixturevalue("postgres_url") if kind == "postgres" else ""
    return Stores(kind, request.getfixturevalue("tmp_path"), url)


class StoreTests:
    """The base of test classes that a subclass binds to one kind of store, with options."""

    kind: str
    options: Mapping[str, Any] = MappingProxyType({})

    @pytest.fixture(autouse=True)
    def _stores(self, request: pytest.FixtureRequest) -> None:
        self.stores = stores_of(self.kind, request)

    def make(self, folder: Path) -> Store:
        return self.stores.make(**self.options)

    def opened(self, folder: Path) -> AbstractAsyncContextManager[Store]:
        return self.stores.opened(**self.options)
