"""Random acts on conversations: live lists end like fresh ones, a rebuild changes nothing, all stores list the same."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest

from everyword import AIChatAgent, Conversation, ConversationOptions, Everyword, Principal, tool
from everyword.errors import ConversationNotFound, Rejected
from everyword.ids import Millis
from everyword.runtime.rebuild import rebuild
from tests.log.stores import STORES, Stores, stores_of
from tests.timeouts import PATIENCE

ACTS = 50
NAMES = "abcd"
SEEDS: Final = (1, 2, 3)
OPTIONS: Final = ConversationOptions(search=True, keep_for=timedelta(days=9))
PRINCIPALS = [Principal("ann", name="Ann"), Principal("bob")]
TEXTS = ["hello world", "fail please", "pay me", "Grüße aus Köln", "x\0y", "", "nothing", "long " * 100]


class Chat(AIChatAgent):
    @tool(needs_approval=True)
    async def pay(self) -> str:
        return "paid"

    async def on_chat_message(self, turn: Any) -> AsyncIterator[Any]:
        asked = self.messages[-1].text
        if "fail" in asked:
            raise RuntimeError("secret")
        async for step in turn.steps():
            call = {"type": "tool-input-available", "toolCallId": f"k{turn.id}", "toolName": "pay", "input": {}}
            asks = "pay" in asked and step.number == 1 and not turn.continuation
            said = [f"You said: {asked}"] if asked != "nothing" else []
            async for chunk in step.run([*said, call] if asks else said):
                yield chunk


class Desk(AIChatAgent):
    sub_agent_classes = (Chat,)

    async def on_chat_message(self, turn: Any) -> AsyncIterator[str]:
        await (await self.sub_agent(Chat, "till")).save_messages("pay me")
        yield "The till is asked."


class Acts:
    """Does random acts; the same seed does the same, whatever the store."""

    def __init__(self, app: Everyword, seed: int) -> None:
        self.app, self.lists, self.pick = app, app.conversations, random.Random(seed)

    async def act(self) -> None:
        who = self.pick.choice(PRINCIPALS)
        kind, name = self.pick.choice([Chat, Chat, Chat, Desk]), self.pick.choice(NAMES)
        text, number = self.pick.choice(TEXTS), self.pick.randrange(6)
        chat: Any = self.app.get(kind, name).for_principal(who)
        acts: Mapping[str, Callable[[], Awaitable[Any]]] = {
            "ask": lambda: chat.save_messages(text),
            "ask again": lambda: chat.save_messages(text),
            "ask as the server": lambda: self.app.get(kind, name).save_messages(text),
            "store": lambda: chat.persist_messages([message(f"m{number}", text)]),
            "fork": lambda: self.fork(chat, number),
            "clear": chat.clear_history,
            "rename": lambda: self.lists.rename(kind, name, f"Title {number}" if number else None),
            "archive": lambda: self.lists.archive(kind, name, archived=number > 2),
            "describe": lambda: self.lists.set_metadata(kind, name, {"\0": number}),
            "give": lambda: self.give(kind, name, number),
            "read": lambda: self.lists.mark_read(kind, name, who, messages=number or None),
            "keep": lambda: self.lists.set_retention(kind, name, timedelta(days=number + 1)),
            "delete": lambda: self.lists.delete(kind, name),
            "approve": lambda: self.approve(who, number),
        }
        with suppress(ConversationNotFound, Rejected):
            await acts[self.pick.choice(list(acts))]()
        if await self.app.exists(kind, name):
            await self.settle(kind, name)

    async def settle(self, kind: Any, name: str) -> None:
        """Wait until no turn runs: what the next act meets must not depend on the store's speed."""
        async with aclosing(self.lists.watch(archived=None)) as changes:
            async for _ in changes:
                listed = await self.lists.get(kind, name)
                if listed is None or listed.status != "running":
                    return

    async def fork(self, chat: Any, number: int) -> None:
        messages = await chat.get_messages()
        if messages:
            await chat.versions.fork(messages[number % len(messages)].id, self.pick.choice(NAMES))

    async def give(self, kind: Any, name: str, number: int) -> None:
        """Change the owner several times, faster than a watcher looks."""
        for owner in [*PRINCIPALS, None, *PRINCIPALS][number % 3 :][:3]:
            await self.lists.set_owner(kind, name, owner)

    async def approve(self, who: Principal, number: int) -> None:
        calls = sorted((await self.app.approvals.list()).approvals, key=lambda each: (each.kind, each.name, each.call))
        if calls:
            asked = calls[number % len(calls)]
            await self.app.approvals.answer(asked.id, number > 1, by=who)
            await self.settle(*self.at(asked.kind, asked.name))

    @staticmethod
    def at(kind: str, name: str) -> tuple[Any, str]:
        return {"chat": Chat, "desk": Desk}[kind], name


def message(id: str, text: str) -> dict[str, Any]:
    return {"id": id, "role": "user", "parts": [{"type": "text", "text": text}]}


Known = dict[tuple[str, str], Conversation]


async def fresh(app: Everyword, principal: Principal | None, **query: Any) -> Known:
    """Return all conversations, from small pages."""
    found, cursor = list[Conversation](), None
    while True:
        page = await app.conversations.list(principal=principal, archived=None, limit=3, cursor=cursor, **query)
        found += page.conversations
        if (cursor := page.cursor) is None:
            break
    known = {(each.kind, each.name): each for each in found}
    assert len(known) == len(found)
    return known


class Watcher:
    """A live list, as a client keeps it."""

    def __init__(self, app: Everyword, principal: Principal | None) -> None:
        self.app, self.principal, self.known = app, principal, Known()
        self.heard = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        watching = self.app.conversations.watch(principal=self.principal, archived=None, limit=200)
        async with aclosing(watching) as changes:
            async for change in changes:
                if change.page is not None:
                    self.known = {(each.kind, each.name): each for each in change.page.conversations}
                elif (each := change.conversation) is not None:
                    self.known[each.kind, each.name] = each
                else:
                    assert change.kind is not None and change.name is not None
                    self.known.pop((change.kind, change.name), None)
                self.heard.set()

    async def agree(self) -> None:
        """Wait until it knows what a fresh list has."""
        while self.known != await fresh(self.app, self.principal):
            self.heard.clear()
            await self.heard.wait()

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])


@asynccontextmanager
async def acted(store: Any, seed: int) -> AsyncIterator[Everyword]:
    """Run an app after random acts, with watchers that have seen them."""
    async with asyncio.timeout(PATIENCE), Everyword([Chat, Desk], store=store, conversations=OPTIONS) as app:
        watchers = [Watcher(app, principal) for principal in (None, *PRINCIPALS)]
        for watcher in watchers:
            await watcher.heard.wait()
        acts = Acts(app, seed)
        for _ in range(ACTS):
            await acts.act()
        for watcher in watchers:
            await watcher.agree()
            await watcher.stop()
        yield app


async def listed(app: Everyword) -> list[Any]:
    """Return all lists, without what differs from run to run: times."""
    queries: list[dict[str, Any]] = [
        {},
        {"query": "hello"},
        {"query": "koln"},
        {"query": "titl"},
        {"status": "waiting"},
    ]
    found: list[Any] = []
    for query in queries:
        for principal in (None, *PRINCIPALS):
            known = await fresh(app, principal, **query)
            found.append({at: replace(known[at], created_at=0, updated_at=0) for at in sorted(known)})
    return found


@pytest.fixture(params=[kind for kind in STORES if kind != "memory"])
def stores(request: pytest.FixtureRequest) -> Stores:
    return stores_of(request.param, request)


@pytest.mark.parametrize("seed", SEEDS)
async def test_live_lists_rebuilds_and_stores_agree_after_random_acts(stores: Stores, seed: int) -> None:
    async with acted("memory:", seed) as app:
        expected = await listed(app)
        assert expected[0]
    async with acted(stores.make(), seed) as app:
        assert await listed(app) == expected
    async with stores.opened() as store:
        for agent in await store.agents():
            await store.activate(agent)
            rebuilt = await rebuild(store, agent, Millis(1))
            assert rebuilt.changes == []
    async with asyncio.timeout(PATIENCE), Everyword([Chat, Desk], store=stores.make(), conversations=OPTIONS) as app:
        assert await listed(app) == expected
