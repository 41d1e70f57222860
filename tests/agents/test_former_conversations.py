"""Agents of a release without lists: this one fills in what lists show of them, as a rebuild would."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from everyword import AIChatAgent, Everyword, Principal, tool
from everyword.events import Outcome
from everyword.ids import Millis
from everyword.rows import CONVERSATION, LISTED, WAITING, KeptRow
from everyword.runtime.rebuild import fold_log, rebuild
from tests.log.stores import STORES, Stores, stores_of

PATIENCE = 30.0
ANN, BOB = Principal("ann", name="Ann"), Principal("bob")


class Chat(AIChatAgent):
    @tool(needs_approval=True)
    async def pay(self) -> str:
        return "paid"

    async def on_chat_message(self, turn: Any) -> AsyncIterator[Any]:
        asked = self.messages[-1].text
        async for step in turn.steps():
            call = {"type": "tool-input-available", "toolCallId": f"k{turn.id}", "toolName": "pay", "input": {}}
            asks = "pay" in asked and step.number == 1 and not turn.continuation
            async for chunk in step.run([f"You said: {asked}", call] if asks else ["You said: done"]):
                yield chunk


class Desk(AIChatAgent):
    sub_agent_classes = (Chat,)

    async def on_chat_message(self, turn: Any) -> AsyncIterator[str]:
        await (await self.sub_agent(Chat, "till")).save_messages("pay me")
        yield "The till is asked."


@pytest.fixture(params=STORES)
def stores(request: pytest.FixtureRequest) -> Stores:
    return stores_of(request.param, request)


async def ask(app: Everyword, name: str, text: str, who: Principal = ANN, cls: Any = Chat) -> None:
    result = await app.get(cls, name).for_principal(who).save_messages(text)
    assert result.status == Outcome.COMPLETED.value


async def write_former(stores: Stores) -> None:
    """Write conversations as a release without lists has left them."""
    async with asyncio.timeout(PATIENCE), Everyword([Chat, Desk], store=stores.make()) as app:
        await ask(app, "two", "hello")
        await ask(app, "two", "hello from Bob", BOB)
        await ask(app, "cleared", "hello", BOB)
        await app.get(Chat, "cleared").clear_history()
        await ask(app, "cleared", "hello again")
        await ask(app, "empty", "hello")
        await app.get(Chat, "empty").clear_history()
        await ask(app, "paid", "pay me")
        (asked,) = (await app.approvals.list()).approvals
        await app.approvals.answer(asked.id, False, by=BOB)
        await ask(app, "waits", "pay me")
        await ask(app, "below", "hello", cls=Desk)
    async with stores.opened() as store:
        for agent in await store.agents():
            await store.activate(agent)
            _, rows, _ = await fold_log(store, agent)
            known = [row for row in rows.rows() if not (isinstance(row, KeptRow) and row.kind in UNKNOWN)]
            await store.replace_rows(agent, known, None)


UNKNOWN = {CONVERSATION, WAITING, *LISTED}


async def test_a_former_conversation_is_listed_after_its_next_commit_as_after_a_rebuild(stores: Stores) -> None:
    await write_former(stores)
    async with asyncio.timeout(PATIENCE), Everyword([Chat, Desk], store=stores.make()) as app:
        assert (await app.conversations.list()).conversations == []
        for name in ("two", "cleared", "empty", "paid", "waits"):
            await app.get(Chat, name).persist_messages([message(name)])
        await app.get(Desk, "below").persist_messages([message("below")])
        below = await app.get(Desk, "below").sub_agent(Chat, "till")
        await below.persist_messages([message("till")])
        (two,) = [each for each in (await app.conversations.list(reader=BOB)).conversations if each.name == "two"]
        assert (two.owner, two.title, two.messages, two.unread) == ("ann", "hello", 5, 2)
        waiting = (await app.approvals.list()).approvals
        assert {(each.kind, each.name) for each in waiting} == {("chat", "waits"), ("desk", "below")}
        assert [each.name for each in (await app.approvals.list(settled=True)).approvals] == ["paid"]
    async with stores.opened() as store:
        for agent in await store.agents():
            await store.activate(agent)
            assert (await rebuild(store, agent, Millis(1))).changes == []


def message(name: str) -> dict[str, Any]:
    return {"id": f"next-{name}", "role": "user", "parts": [{"type": "text", "text": "next"}]}
