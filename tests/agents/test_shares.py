"""`app.shares`: links that are created, listed and revoked, on every store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from everyword import AIChatAgent, Everyword, Principal, Share
from everyword.agents.handles.shares import digest_of
from everyword.cli.agent_copy import read_log
from everyword.errors import BadInput, ConversationNotFound
from everyword.ids import AgentId
from everyword.testing import ManualClock
from tests.log.stores import STORES, Stores, stores_of
from tests.timeouts import PATIENCE

ANN = Principal("ann", name="Ann")


class Chat(AIChatAgent):
    async def on_chat_message(self, turn: Any) -> AsyncIterator[str]:
        yield f"You said: {self.messages[-1].text}"


@pytest.fixture(params=STORES)
def stores(request: pytest.FixtureRequest) -> Stores:
    return stores_of(request.param, request)


@asynccontextmanager
async def serving(stores: Stores, clock: ManualClock | None = None) -> AsyncIterator[Everyword]:
    app = Everyword([Chat], store=stores.make())
    app.clock = clock
    async with asyncio.timeout(PATIENCE), app:
        yield app


def without_token(share: Share) -> dict[str, Any]:
    return {name: getattr(share, name) for name in share.__slots__ if name != "token"}


async def test_a_link_is_listed_without_its_token_and_survives_a_restart(stores: Stores) -> None:
    async with serving(stores) as app:
        await app.get(Chat, "one").save_messages("hello")
        made = await app.shares.create(Chat, "one", by=ANN, label="for Bob", tools="none", expires=None)
        other = await app.shares.create("chat", "one", frozen=False, reasoning=True, data=True, people=True)
        assert made.token is not None and len(made.token) == 32 and made.token not in repr(made)
        assert made.path == f"/shared/{made.token}"
        assert made.created_by is not None and (made.created_by.name, made.label) == ("Ann", "for Bob")
        assert (made.is_frozen, made.expires_at, made.tools, other.is_frozen) == (True, None, "none", False)
    async with serving(stores) as app:
        found = await app.shares.list(Chat, "one")
        expected = sorted([made, other], key=lambda each: (each.created_at, each.id))
        assert [without_token(each) for each in found] == [without_token(each) for each in expected]
        assert [each.token for each in found] == [None, None]
        assert await app.shares.find(made.token) == made


async def test_only_a_digest_of_the_token_is_stored(stores: Stores) -> None:
    async with serving(stores) as app:
        await app.get(Chat, "one").save_messages("hello")
        token = (await app.shares.create(Chat, "one")).token or ""
        store = (await app.service()).directory.store
        log = b"".join(each.body for each in await read_log(store, AgentId("chat/one")))
        kept = b"".join(row.key.encode() + (row.body or b"") for row in await store.kept(AgentId("chat/one")))
        assert digest_of(token).encode() in log and digest_of(token).encode() in kept
        assert token.encode() not in log + kept


async def test_a_revoked_link_is_gone_for_ever(stores: Stores) -> None:
    async with serving(stores) as app:
        await app.get(Chat, "one").save_messages("hello")
        made, kept = await app.shares.create(Chat, "one"), await app.shares.create(Chat, "one")
        assert await app.shares.revoke(Chat, "one", made.id)
        assert not await app.shares.revoke(Chat, "one", made.id)
        assert await app.shares.find(made.token or "") is None
    async with serving(stores) as app:
        assert [each.id for each in await app.shares.list(Chat, "one")] == [kept.id]
        assert await app.shares.find(made.token or "") is None


async def test_links_end_with_the_conversation(stores: Stores) -> None:
    async with serving(stores) as app:
        for name in ("cleared", "destroyed"):
            await app.get(Chat, name).save_messages("hello")
        cleared, destroyed = await app.shares.create(Chat, "cleared"), await app.shares.create(Chat, "destroyed")
        await app.get(Chat, "cleared").clear_history()
        await app.conversations.delete(Chat, "destroyed")
        assert await app.shares.find(cleared.token or "") is None
        assert await app.shares.find(destroyed.token or "") is None
        await app.get(Chat, "destroyed").save_messages("hello")
        assert await app.shares.list(Chat, "destroyed") == []


async def test_a_link_expires_by_the_clock(stores: Stores) -> None:
    clock = ManualClock()
    async with serving(stores, clock) as app:
        await app.get(Chat, "one").save_messages("hello")
        made = await app.shares.create(Chat, "one", expires=timedelta(hours=1))
        assert not made.is_expired
        clock.advance(timedelta(hours=1))
        (found,) = await app.shares.list(Chat, "one")
        assert found.is_expired
        await app.shares.create(Chat, "one")
        assert made.id not in [each.id for each in await app.shares.list(Chat, "one")]


async def test_what_cannot_be_shared_is_refused(stores: Stores) -> None:
    async with serving(stores) as app:
        with pytest.raises(ConversationNotFound):
            await app.shares.create(Chat, "one")
        await app.get(Chat, "one").save_messages("hello")
        wrong: list[dict[str, Any]] = [
            {"tools": "some"},
            {"expires": timedelta(0)},
            {"expires": timedelta(days=99999)},
            {"label": "x" * 201},
        ]
        for options in wrong:
            with pytest.raises(BadInput):
                await app.shares.create(Chat, "one", **options)
        assert await app.shares.list(Chat, "one") == []
        assert not await app.shares.revoke(Chat, "one", "no such link")
