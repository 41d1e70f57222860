"""Lists that are read by several statements, while other conversations change between two of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from everyword.ids import Millis
from everyword.log.lists import ConversationQuery
from everyword.log.postgres.queries import Queries
from everyword.log.sqlite.queries import Reader
from everyword.rows import TEXT, KeptRow, encode_text
from tests.log.building import fact
from tests.log.stores import Stores, stores_of
from tests.log.test_lists import conversation, lists, put
from tests.timeouts import PATIENCE


class Meanwhile:
    """Does something once, after a list has run so many statements."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._left, self._work = 0, _nothing
        loop, rows, listed = asyncio.get_running_loop(), Reader.rows, Queries.listed

        def read(reader: Reader, name: str, values: Any) -> Any:  # by a thread
            found = rows(reader, name, values)
            if self._is_time():
                asyncio.run_coroutine_threadsafe(_as_coroutine(self._work), loop).result(PATIENCE)
            return found

        async def fetch(queries: Queries, name: str, *values: Any) -> Any:
            found = await listed(queries, name, *values)
            if self._is_time():
                await self._work()
            return found

        monkeypatch.setattr(Reader, "rows", read)
        monkeypatch.setattr(Queries, "listed", fetch)

    def after(self, statements: int, work: Callable[[], Awaitable[Any]]) -> None:
        self._left, self._work = statements, work

    def _is_time(self) -> bool:
        self._left -= 1
        return self._left == 0


async def _nothing() -> None:
    pass


async def _as_coroutine(work: Callable[[], Awaitable[Any]]) -> None:
    await work()


@pytest.fixture(params=["sqlite", "postgres"])
def stores(request: pytest.FixtureRequest) -> Stores:
    return stores_of(request.param, request)


async def test_a_conversation_that_is_archived_meanwhile_is_listed_once(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile = Meanwhile(monkeypatch)
    async with stores.opened() as store:
        owner = await put(store, "chat/a", conversation(5))
        archived = conversation(5, archived_at=Millis(6))
        meanwhile.after(1, lambda: owner.append(fact("x"), rows=[archived]))
        found = await lists(store).conversations(ConversationQuery(archived=None))
        assert [each.agent for each in found] == ["chat/a"]
        found = await lists(store).conversations(ConversationQuery(archived=None))
        assert [(each.agent, each.summary.archived_at) for each in found] == [("chat/a", 6)]


@pytest.mark.parametrize("statements", range(1, 6))
async def test_a_search_has_a_full_page_though_a_conversation_is_deleted_meanwhile(
    stores: Stores, monkeypatch: pytest.MonkeyPatch, statements: int
) -> None:
    """A page that is not full is the last one: what comes after it would not be found."""
    meanwhile = Meanwhile(monkeypatch)
    text = KeptRow(TEXT, "1", encode_text(["word"], "word"))
    async with stores.opened() as store:
        owners = [await put(store, f"chat/{name}", conversation(5), text) for name in "abcd"]
        gone = owners[2]
        meanwhile.after(statements, lambda: store.destroy(gone.agent, gone.epoch))
        found = await lists(store).conversations(ConversationQuery(words=["word"], limit=2))
        assert len(found) == 2
        assert found[0].agent == "chat/d"
