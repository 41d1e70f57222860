"""Searches over conversations, in every store: they all find the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from everyword.errors import BadInput
from everyword.ids import AgentId, Millis
from everyword.log.lists import AgentLists, ConversationQuery
from everyword.log.memory import MemoryLog
from everyword.log.postgres.store import PostgresLog
from everyword.log.sqlite.store import SqliteLog
from everyword.rows import (
    ALL_MESSAGES,
    CONVERSATION,
    TEXT,
    TITLE_KEY,
    ConversationSummary,
    KeptRow,
    encode_listed,
    encode_text,
)
from everyword.search_words import query_words, text_words
from tests.log.building import Owner, Store, fact
from tests.log.stores import STORES, Stores

EACH = pytest.mark.parametrize("kind", STORES)


def conversation(updated: int, owner: str = "ann", **changes: object) -> KeptRow:
    made = ConversationSummary(created_at=Millis(1), updated_at=Millis(updated), owner=owner)
    return KeptRow(CONVERSATION, "", encode_listed(replace(made, **changes)))


def text(node: int | str, said: str | None) -> KeptRow:
    body = encode_text(text_words(said), said) if said is not None else None
    return KeptRow(TEXT, str(node), body)


async def put(store: Store, agent: str, *rows: KeptRow) -> Owner:
    owner = await Owner.take(store, AgentId(agent))
    await owner.append(fact("x"), rows=list(rows))
    return owner


def lists(store: Store) -> AgentLists:
    assert store.lists is not None
    return store.lists


async def search(store: Store, query: str, **more: object) -> dict[str, str | None]:
    found = await lists(store).conversations(ConversationQuery(words=query_words(query), **more))
    return {each.agent: each.text for each in found}


@EACH
async def test_conversations_are_found_by_all_words_of_their_texts(stores: Stores) -> None:
    async with stores.opened() as store:
        await put(
            store, "chat/a", conversation(1), text(1, "a refund"), text(2, "to Berlin, a refund"), text(3, "Berlin")
        )
        await put(store, "chat/b", conversation(2), text(1, "Refund"), text(2, "no"), text(3, "in berlin"))
        await put(store, "chat/c", conversation(3), text(TITLE_KEY, "Réfund"), text(7, "Berlín!"))
        await put(store, "chat/d", conversation(4), text(1, "refund"), text(2, "Paris"))
        await put(store, "chat/e", conversation(5), text(TITLE_KEY, "refunds berlin"))
    async with stores.opened() as store:
        found = await search(store, "refund berlin")
        assert list(found.items()) == [("chat/c", "Berlín!"), ("chat/b", "Refund"), ("chat/a", "to Berlin, a refund")]
        assert list(await search(store, "berlin ref")) == ["chat/e", "chat/c", "chat/b", "chat/a"]
        assert await search(store, "berlin refunds") == {"chat/e": "refunds berlin"}
        assert await search(store, "zebra") == {}


@EACH
async def test_a_search_selects_and_pages_like_a_list(stores: Stores) -> None:
    async with stores.opened() as store:
        for number in range(6):
            await put(store, f"chat/{number}", conversation(100 - number // 2), text(1, "tea"))
        await put(store, "chat/bob", conversation(500, owner="bob"), text(1, "tea"))
        await put(store, "help/old", conversation(400, archived_at=Millis(1)), text(1, "tea"))
        await put(store, "help/busy", conversation(300, status="running"), text(1, "tea"))
        for owner in ("ann", None):
            query, found = ConversationQuery(owner=owner, archived=False, words=["te"], limit=2), list[str]()
            while page := await lists(store).conversations(query):
                found += [each.agent for each in page]
                query = replace(query, before=(page[-1].summary.updated_at, page[-1].agent))
            others = ["help/busy", "chat/1", "chat/0", "chat/3", "chat/2", "chat/5", "chat/4"]
            assert found == (others if owner else ["chat/bob", *others])
        assert list(await search(store, "tea", owner="ann", limit=2)) == ["help/old", "help/busy"]
        assert list(await search(store, "tea", archived=True)) == ["help/old"]
        assert list(await search(store, "tea", status="running")) == ["help/busy"]
        assert list(await search(store, "tea", kinds=["help"])) == ["help/old", "help/busy"]
        assert await search(store, "tea", owner="eve") == {}


@EACH
async def test_what_is_removed_or_replaced_is_not_found(stores: Stores) -> None:
    async with stores.opened() as store:
        owner = await put(store, "chat/a", conversation(1), text(1, "tea"), text(2, "milk"), text(TITLE_KEY, "cup"))
        await put(store, "chat/b", conversation(2), text(1, "tea"), text(2, "milk"))
        await owner.append(fact("x"), rows=[text(1, "coffee")])
        assert list(await search(store, "tea")) == ["chat/b"]
        assert list(await search(store, "coffee milk")) == ["chat/a"]
        await owner.append(fact("x"), rows=[text(2, None), text(9, None)])
        assert list(await search(store, "milk")) == ["chat/b"]
        await owner.append(fact("x"), rows=[text(ALL_MESSAGES, None), text(5, "water")])
        assert await search(store, "coffee") == {}
        assert await search(store, "cup water") == {"chat/a": "water"}
        assert [row.key for row in await lists(store).texts(AgentId("chat/a"))] == ["0", "5"]
        await owner.append(fact("x"), rows=[text(ALL_MESSAGES, None), text(TITLE_KEY, None)])
        assert await lists(store).texts(AgentId("chat/a")) == []


@EACH
async def test_several_appends_of_one_transaction_are_applied_in_order(stores: Stores) -> None:
    async with stores.opened() as store:
        owner = await put(store, "chat/a", conversation(1))
        appends = [
            [text(ALL_MESSAGES, None), text(1, "tea")],
            [text(1, "milk")],
            [text(ALL_MESSAGES, None), text(2, "water")],
            [text(2, "coffee")],
        ]
        batches = [owner.batch(fact("x"), rows=rows, first=place) for place, rows in enumerate(appends, 2)]
        for receipt in store.append(batches):
            await receipt
        assert [row.body for row in await lists(store).texts(AgentId("chat/a"))] == [b"coffee\ncoffee"]


@EACH
async def test_replaced_rows_and_destroyed_agents_leave_no_text(stores: Stores) -> None:
    async with stores.opened() as store:
        owner = await put(store, "chat/a", conversation(1), text(1, "tea"), text(TITLE_KEY, "cup"))
        await put(store, "chat/b", conversation(2), text(1, "tea"), text(TITLE_KEY, "cup"))
        await store.replace_rows(AgentId("chat/b"), [conversation(2), text(3, "milk")], None)
        assert list(await search(store, "tea")) == ["chat/a"]
        assert list(await search(store, "milk")) == ["chat/b"]
        await store.destroy(AgentId("chat/a"), owner.epoch)
        assert await search(store, "tea") == {}
        assert await lists(store).texts(AgentId("chat/a")) == []
        again = await put(store, "chat/a", conversation(5))
        assert await search(store, "cup") == {}
        await again.append(fact("x"), rows=[text(1, "tea")])
        assert list(await search(store, "tea")) == ["chat/a"]


@EACH
async def test_texts_are_not_loaded_and_come_back_as_written(stores: Stores) -> None:
    rows = [text(1, "Zwei\0 Wörter\nund 東京 ' \" \\ \ud800"), text(2, "plain")]
    async with stores.opened() as store:
        await put(store, "chat/a", conversation(1), *rows)
        assert {row.kind for row in (await store.activate(AgentId("chat/a"))).kept} == {CONVERSATION}
        assert await lists(store).texts(AgentId("chat/a")) == rows
        assert await lists(store).texts(AgentId("chat/none")) == []
        assert list(await search(store, "worter 東")) == ["chat/a"]


@EACH
async def test_frequent_words_find_the_same_as_rare_ones(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stores.opened() as store:
        for number in range(12):
            await put(store, f"chat/{number:02}", conversation(number), text(1, "tea"), text(2, f"milk{number % 3}"))
        found = []
        for rare, looked_at in ((1, 500), (1, 3), (5, 3), (10_000, 3)):
            for module in ("everyword.log.sqlite.searches", "everyword.log.postgres.lists"):
                monkeypatch.setattr(f"{module}.RARE", rare)
                monkeypatch.setattr(f"{module}.LOOKED_AT", looked_at)
            monkeypatch.setattr("everyword.log.sqlite.searches.FEW", looked_at % 5)
            for owner in ("ann", None):
                found.append([list(await search(store, q, owner=owner)) for q in ("tea milk1", "tea mil", "tea zebra")])
        assert found == [found[0]] * 8
        assert found[0][0] == ["chat/10", "chat/07", "chat/04", "chat/01"]
        assert len(found[0][1]) == 12


# -- the same everywhere ---------------------------------------------------------------------------------------------

LETTERS = st.sampled_from("aAbé\u0301ßﬁ東京환가ทก'\"*:\\&|!()-_ \0\n\ufdfaⅣ²İıſωΏ\u200d\u0940न")
TEXTS = st.text(LETTERS | st.characters(), max_size=12)


def _bodies(texts: Iterable[list[str]]) -> list[list[KeptRow]]:
    return [[text(node, said) for node, said in enumerate(each) if text_words(said)] for each in texts]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(st.lists(TEXTS, max_size=3), min_size=1, max_size=3), st.lists(TEXTS, min_size=1, max_size=4))
def test_every_store_finds_the_same(
    postgres_url: str, tmp_path_factory: pytest.TempPathFactory, texts: list[list[str]], queries: list[str]
) -> None:
    folder: Path = tmp_path_factory.mktemp("search")
    queries += [said[:cut] for each in texts for said in each for cut in (1, 3, 12)]

    async def found(store: Store) -> list[dict[str, str | None]]:
        await store.open()
        try:
            for place, rows in enumerate(_bodies(texts)):
                owner = await Owner.take(store, AgentId(f"chat/{place}"))
                await owner.append(fact("x"), rows=[KeptRow(TEXT, "*", None), text(TITLE_KEY, None), conversation(1)])
                await owner.append(fact("x"), rows=rows)
            for place in range(len(texts), 3):
                owner = await Owner.take(store, AgentId(f"chat/{place}"))
                await owner.append(fact("x"), rows=[KeptRow(TEXT, "*", None), text(TITLE_KEY, None)])
            return [await search(store, query) for query in queries if _has_words(query)]
        finally:
            await store.aclose()

    async def compare() -> None:
        expected = await found(MemoryLog())
        assert await found(SqliteLog(folder / "log.db")) == expected
        assert await found(PostgresLog(postgres_url)) == expected

    asyncio.run(compare())


def _has_words(query: str) -> bool:
    try:
        return bool(query_words(query))
    except BadInput:
        return False
