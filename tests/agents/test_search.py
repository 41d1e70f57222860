"""`app.conversations.list(query=…)`: conversations by the words of their titles and messages, on every store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from everyword import AIChatAgent, ConversationOptions, Everyword, Principal
from everyword.errors import BadInput
from everyword.ids import AgentId
from everyword.rows import SEARCHABLE, TEXT
from everyword.runtime.clock import SystemClock
from everyword.runtime.rebuild import rebuild, stored_rows
from tests.log.stores import STORES, Stores, stores_of
from tests.next_millisecond import next_millisecond
from tests.timeouts import PATIENCE

ANN, BOB = Principal("ann"), Principal("bob")


class Chat(AIChatAgent):
    max_persisted_messages = 6

    async def on_chat_message(self, turn: Any) -> AsyncIterator[Any]:
        yield {"type": "reasoning-start", "id": "r"}
        yield {"type": "reasoning-delta", "id": "r", "delta": "hidden"}
        yield {"type": "reasoning-end", "id": "r"}
        yield f"Answer to {self.messages[-1].text}"


@pytest.fixture(params=STORES)
def stores(request: pytest.FixtureRequest) -> Stores:
    return stores_of(request.param, request)


@asynccontextmanager
async def serving(stores: Stores, *, search: bool = True) -> AsyncIterator[Everyword]:
    app = Everyword([Chat], store=stores.make(), conversations=ConversationOptions(search=search))
    async with asyncio.timeout(PATIENCE), app:
        yield app


async def ask(app: Everyword, name: str, text: str, who: Principal = ANN) -> None:
    await next_millisecond(app)
    await app.get(Chat, name).for_principal(who).save_messages(text)


async def found(app: Everyword, query: str, **more: Any) -> list[str]:
    return [each.name for each in (await app.conversations.list(query=query, **more)).conversations]


async def check_rows(stores: Stores, name: str, *, is_searchable: bool | None = None) -> tuple[list[str], int]:
    """Rebuild an agent; return what changed, and how many texts are indexed."""
    async with stores.opened() as store:
        agent = AgentId(f"chat/{name}")
        if store.nodes is not None:
            await store.activate(agent)
        done = await rebuild(store, agent, SystemClock().now(), is_searchable=is_searchable)
        return list(done.changes), sum(kind == TEXT for kind, _ in (await stored_rows(store, agent)).listed)


async def test_conversations_are_found_by_what_was_said(stores: Stores) -> None:
    async with serving(stores) as app:
        await ask(app, "trip", "I want a refund")
        await ask(app, "trip", "for the hotel in Berlin")
        await ask(app, "other", "A refund, please", BOB)
        assert await found(app, "refund") == ["other", "trip"]
        assert await found(app, "REFUND berl") == ["trip"]
        assert await found(app, "answer refund", principal=ANN) == ["trip"]
        assert await found(app, "please", principal=ANN) == []
        assert await found(app, "hidden") == []
        (each,) = (await app.conversations.list(query="hotel")).conversations
        assert each.excerpt == "for the hotel in Berlin"
        assert [each.excerpt for each in (await app.conversations.list()).conversations] == [None, None]


async def test_titles_are_found_as_they_are_now(stores: Stores) -> None:
    async with serving(stores) as app:
        await ask(app, "trip", "hello")
        await app.conversations.rename(Chat, "trip", "Übernachtung in Köln")
        assert await found(app, "koln hello") == ["trip"]
        (each,) = (await app.conversations.list(query="koln")).conversations
        assert each.excerpt == "Übernachtung in Köln"
        await app.conversations.rename(Chat, "trip", "Paris")
        assert await found(app, "koln") == []
    async with serving(stores) as app:
        await app.conversations.rename(Chat, "trip", None)
        assert await found(app, "paris") == []
        assert await found(app, "hello") == ["trip"]


async def test_messages_that_are_gone_are_not_found(stores: Stores) -> None:
    async with serving(stores) as app:
        for number in range(4):
            await ask(app, "trip", f"question number{number}")
        assert await found(app, "number0") == []  # more than max_persisted_messages
        assert await found(app, "number3") == ["trip"]
        await ask(app, "other", "number3")
        await app.destroy(Chat, "other")
        assert await found(app, "number3") == ["trip"]
        await app.get(Chat, "trip").clear_history()
        assert await found(app, "number3") == []
        await ask(app, "trip", "once more")
        assert await found(app, "once") == ["trip"]
    changes, texts = await check_rows(stores, "trip")
    assert (changes, texts) == ([], 2)


async def test_pages_of_a_search_follow_each_other(stores: Stores) -> None:
    async with serving(stores) as app:
        for number in range(5):
            await ask(app, f"n{number}", "tea" if number != 2 else "milk")
        names, cursor = list[str](), None
        while True:
            page = await app.conversations.list(query="tea", limit=2, cursor=cursor)
            names += [each.name for each in page.conversations]
            if (cursor := page.cursor) is None:
                break
        assert names == ["n4", "n3", "n1", "n0"]


async def test_without_the_setting_nothing_is_indexed_and_a_search_says_so(stores: Stores) -> None:
    async with serving(stores, search=False) as app:
        await ask(app, "trip", "refund")
        with pytest.raises(BadInput, match=r"ConversationOptions\(search=True\)"):
            await app.conversations.list(query="refund")
    async with stores.opened() as store:
        agent = AgentId("chat/trip")
        assert store.lists is not None and await store.lists.texts(agent) == []
        assert SEARCHABLE not in {row.kind for row in await store.kept(agent)}


async def test_a_conversation_from_before_is_indexed_with_its_next_message(stores: Stores) -> None:
    async with serving(stores, search=False) as app:
        await ask(app, "trip", "refund")
        await ask(app, "idle", "refund")
    async with serving(stores) as app:
        assert await found(app, "refund") == []
        await ask(app, "trip", "Berlin")
        assert await found(app, "refund berlin") == ["trip"]
    assert await check_rows(stores, "trip") == ([], 4)
    assert await check_rows(stores, "idle", is_searchable=True) == (["what else it keeps"], 2)
    async with serving(stores) as app:
        assert sorted(await found(app, "refund")) == ["idle", "trip"]


async def test_the_index_is_dropped_when_the_setting_is_turned_off(stores: Stores) -> None:
    async with serving(stores) as app:
        await ask(app, "trip", "refund")
        await ask(app, "idle", "refund")
    async with serving(stores, search=False) as app:
        await ask(app, "trip", "Berlin")
    assert await check_rows(stores, "trip") == ([], 0)
    assert await check_rows(stores, "idle") == ([], 2)
    assert await check_rows(stores, "idle", is_searchable=False) == (["what else it keeps"], 0)
    async with serving(stores) as app:
        assert await found(app, "refund") == []


async def test_a_replaced_message_is_found_by_its_new_words(stores: Stores) -> None:
    async with serving(stores) as app:
        await ask(app, "trip", "refund")
        handle = app.get(Chat, "trip")
        (asked, answered) = await handle.get_messages()
        edited = {**answered.to_dict(), "parts": [{"type": "text", "text": "a voucher"}]}
        await handle.persist_messages([asked.to_dict(), edited])
        assert await found(app, "refund voucher") == ["trip"]
        assert await found(app, "answer") == []
    assert await check_rows(stores, "trip") == ([], 2)
