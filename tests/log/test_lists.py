"""Lists of conversations and approvals over all agents, in every store."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from msgspec import Raw
from msgspec.structs import replace

from everyword.ids import AgentId, CallId, Millis, TurnId
from everyword.log.lists import AgentLists, ApprovalQuery, ConversationQuery
from everyword.rows import (
    CONVERSATION,
    SETTLED,
    WAITING,
    ApprovalRecord,
    ConversationSummary,
    KeptRow,
    encode_listed,
)
from tests.log.building import Owner, Store, fact
from tests.log.stores import STORES, Stores

pytestmark = pytest.mark.parametrize("kind", STORES)


def summary(updated: int, **changes: object) -> ConversationSummary:
    made = ConversationSummary(created_at=Millis(1), updated_at=Millis(updated), owner="ann", question="why?\n\0")
    return replace(made, **changes)


def conversation(updated: int, **changes: object) -> KeptRow:
    return KeptRow(CONVERSATION, "", encode_listed(summary(updated, **changes)))


def call(name: str, at: int, **changes: object) -> ApprovalRecord:
    made = ApprovalRecord(CallId(name), TurnId(1), "pay", Millis(at), status="waiting", input=Raw(b'{"to":"\\u0000"}'))
    return replace(made, **changes)


def waiting(name: str, at: int, **changes: object) -> KeptRow:
    return KeptRow(WAITING, name, encode_listed(call(name, at, **changes)))


def settled(name: str, at: int) -> KeptRow:
    return KeptRow(SETTLED, f"{name}@{at}", encode_listed(call(name, 1, status="approved", settled_at=Millis(at))))


async def put(store: Store, agent: str, *rows: KeptRow) -> Owner:
    owner = await Owner.take(store, AgentId(agent))
    await owner.append(fact("x"), rows=list(rows))
    return owner


def lists(store: Store) -> AgentLists:
    assert store.lists is not None
    return store.lists


async def names(store: Store, **query: object) -> list[str]:
    found = await lists(store).conversations(ConversationQuery(**query))
    return [each.agent for each in found]


async def calls(store: Store, **query: object) -> list[str]:
    return [each.key for each in await lists(store).approvals(ApprovalQuery(**query))]


async def test_conversations_are_listed_by_their_last_change(stores: Stores) -> None:
    async with stores.opened() as store:
        await put(store, "chat/a", conversation(10))
        await put(store, "chat/b", conversation(30))
        await put(store, "chat/ä", conversation(20))
        await put(store, "chat/c", conversation(20))
        await put(store, "chat/a/sub/chat/x", conversation(40))
        await put(store, "chat/silent")
        assert await names(store) == ["chat/b", "chat/ä", "chat/c", "chat/a"]
    async with stores.opened() as store:
        assert await names(store, owner="ann") == ["chat/b", "chat/ä", "chat/c", "chat/a"]


async def test_pages_follow_each_other_without_a_gap(stores: Stores) -> None:
    async with stores.opened() as store:
        for number in range(7):
            await put(store, f"chat/{number}", conversation(100 - number // 2))
        for owner in ("ann", None):
            query, found = ConversationQuery(owner=owner, archived=False, limit=2), list[str]()
            while page := await lists(store).conversations(query):
                found += [each.agent for each in page]
                query = replace(query, before=(page[-1].summary.updated_at, page[-1].agent))
            assert found == ["chat/1", "chat/0", "chat/3", "chat/2", "chat/5", "chat/4", "chat/6"]


async def test_conversations_are_selected(stores: Stores) -> None:
    async with stores.opened() as store:
        await put(store, "chat/a", conversation(1))
        await put(store, "chat/b", conversation(2, owner="bob"))
        await put(store, "help/c", conversation(3, status="waiting"), waiting("k", 3))
        await put(store, "help/d", conversation(4, archived_at=Millis(4)))
        await put(store, "chat/e", conversation(5, owner=None, status="failed"))
        assert await names(store, owner="ann") == ["help/d", "help/c", "chat/a"]
        assert await names(store, owner="ann", archived=False) == ["help/c", "chat/a"]
        assert await names(store, owner="ann", archived=True) == ["help/d"]
        assert await names(store, owner="ann", status="waiting") == ["help/c"]
        assert await names(store, owner="ann", status="idle") == ["help/d", "chat/a"]
        assert await names(store, status="failed") == ["chat/e"]
        assert await names(store, kinds=["chat"]) == ["chat/e", "chat/b", "chat/a"]
        assert await names(store, owner="ann", kinds=["chat"]) == ["chat/a"]
        assert await names(store, owner="ann", kinds=["chat", "help"], status="waiting") == ["help/c"]
        assert await names(store, owner="eve") == []
        assert await names(store, owner="") == []


async def test_a_conversation_waits_while_a_call_of_an_agent_below_it_waits(stores: Stores) -> None:
    async with stores.opened() as store:
        await put(store, "chat/a", conversation(1, status="running"))
        await put(store, "chat/b", conversation(2, status="running"), waiting("no", 5, status="announced"))
        await put(store, "chat/c", conversation(3), settled("k", 4))
        below = await put(store, "chat/a/sub/chat/x", waiting("k", 4))
        for owner in ("ann", None):
            assert await names(store, owner=owner, status="waiting") == ["chat/a"]
            assert await names(store, owner=owner, status="running") == ["chat/b"]
            assert await names(store, owner=owner, status="idle") == ["chat/c"]
            found = await lists(store).conversations(ConversationQuery(owner=owner))
            assert [each.status for each in found] == ["idle", "running", "waiting"]
        found_alone = await lists(store).find_conversation(AgentId("chat/a"))
        assert found_alone is not None and found_alone.status == "waiting"
        await below.append(fact("x"), rows=[settled("k", 6), KeptRow(WAITING, "k", None)])
        assert await names(store, status="waiting") == []
        assert await names(store, owner="ann", status="running") == ["chat/b", "chat/a"]


async def test_owners_that_differ_in_unprintable_characters_are_different(stores: Stores) -> None:
    async with stores.opened() as store:
        await put(store, "chat/a", conversation(1, owner="ann\t\0"))
        await put(store, "chat/b", conversation(2, owner="ann\t\n"))
        assert await names(store, owner="ann\t\0") == ["chat/a"]
        assert await names(store, owner="ann\t\n") == ["chat/b"]
        await put(store, "chat/c", conversation(3, owner="ann\ufffd00"))
        await put(store, "chat/d", conversation(4, owner="ann\0"))
        for owner, agent in (("ann\t\0", "chat/a"), ("ann\ufffd00", "chat/c"), ("ann\0", "chat/d")):
            assert await names(store, owner=owner, limit=1) == [agent]  # a page is not filled with those of another


async def test_a_conversation_is_found_as_it_was_last_written(stores: Stores) -> None:
    async with stores.opened() as store:
        owner = await put(store, "chat/a", conversation(1))
        await owner.append(fact("x"), rows=[conversation(2, title="hé\u2028\0", reads={"ann": 3})])
        found = await lists(store).find_conversation(AgentId("chat/a"))
        assert found is not None
        assert found.summary == summary(2, title="hé\u2028\0", reads={"ann": 3})
        assert await lists(store).find_conversation(AgentId("chat/b")) is None


async def test_a_refused_batch_changes_no_list(stores: Stores) -> None:
    async with stores.opened() as store:
        stale = await put(store, "chat/a", conversation(1))
        await Owner.take(store, AgentId("chat/a"))
        with pytest.raises(Exception, match="unable to append"):
            await stale.append(fact("x"), rows=[conversation(2), waiting("k", 2)])
        found = await lists(store).find_conversation(AgentId("chat/a"))
        assert found is not None and found.summary.updated_at == 1
        assert await calls(store) == []


async def test_calls_that_wait_are_listed_with_the_owner_of_their_conversation(stores: Stores) -> None:
    async with stores.opened() as store:
        await put(store, "chat/a", conversation(1), waiting("k1", 30), waiting("k2", 10))
        await put(
            store, "chat/b", conversation(1, owner="bob"), waiting("k3", 20), waiting("no", 5, status="announced")
        )
        await put(store, "chat/a/sub/chat/x", waiting("k4", 40))
        assert await calls(store) == ["k2", "k3", "k1", "k4"]
        assert await calls(store, owner="ann") == ["k2", "k1", "k4"]
        assert await calls(store, root="chat/b") == ["k3"]
        found = await lists(store).approvals(ApprovalQuery(owner="bob"))
        assert [(each.agent, each.owner, each.record) for each in found] == [("chat/b", "bob", call("k3", 20))]
        first = await lists(store).approvals(ApprovalQuery(limit=2))
        assert await calls(store, after=first[-1].place) == ["k1", "k4"]


async def test_settled_calls_are_listed_and_not_loaded(stores: Stores) -> None:
    async with stores.opened() as store:
        owner = await put(store, "chat/a", conversation(1), waiting("k1", 10), waiting("k2", 20))
        await owner.append(fact("x"), rows=[settled("k1", 50), KeptRow(WAITING, "k1", None)])
        await owner.append(fact("x"), rows=[settled("k2", 60), KeptRow(WAITING, "k2", None)])
        assert await calls(store) == []
        assert await calls(store, is_settled=True) == ["k2@60", "k1@50"]
        assert await calls(store, is_settled=True, after=(Millis(60), AgentId("chat/a"), "k2@60")) == ["k1@50"]
        assert {row.kind for row in await store.kept(AgentId("chat/a"))} == {CONVERSATION}
        activation = await store.activate(AgentId("chat/a"))
        assert {row.kind for row in activation.kept} == {CONVERSATION}


def all_rows() -> Iterable[KeptRow]:
    return [conversation(7), waiting("k1", 10), settled("k2", 60)]


async def test_replaced_rows_are_listed_and_the_old_ones_are_not(stores: Stores) -> None:
    async with stores.opened() as store:
        await put(store, "chat/a", conversation(1), waiting("old", 1), settled("old", 2))
        await store.replace_rows(AgentId("chat/a"), all_rows(), None)
        assert await calls(store) == ["k1"]
        assert await calls(store, is_settled=True) == ["k2@60"]
        found = await lists(store).find_conversation(AgentId("chat/a"))
        assert found is not None and found.summary.updated_at == 7


async def test_a_destroyed_agent_is_in_no_list(stores: Stores) -> None:
    async with stores.opened() as store:
        owner = await put(store, "chat/a", *all_rows())
        await put(store, "chat/a/sub/chat/x", *all_rows())
        await put(store, "chat/b", *all_rows())
        await store.destroy(AgentId("chat/a"), owner.epoch)
        assert await names(store) == ["chat/b"]
        assert await calls(store) == ["k1"]
        assert await calls(store, is_settled=True) == ["k2@60"]
