"""`app.conversations` and `app.approvals`: what they list, change, watch and answer, on every store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import timedelta
from typing import Any, ClassVar

import pytest

from everyword import AIChatAgent, ConversationOptions, Everyword, Principal, callable_method, tool
from everyword.errors import AlreadyAnswered, BadInput, ConversationNotFound, UsageError
from everyword.runtime import deadlines
from everyword.testing import Call, ManualClock, ScriptedModel, assert_parity
from tests.log.stores import STORES, Stores, stores_of
from tests.next_millisecond import next_millisecond
from tests.timeouts import PATIENCE

ANN, BOB = Principal("ann", name="Ann"), Principal("bob", claims={"roles": ["boss"]})


class Chat(AIChatAgent):
    async def on_chat_message(self, turn: Any) -> AsyncIterator[str]:
        asked = self.messages[-1].text
        if asked == "fail":
            raise RuntimeError("secret")
        yield f"You said: {asked}"


class Cashier(AIChatAgent):
    paid: ClassVar[list[int]] = []

    @tool(
        needs_approval=True,
        approvers=["boss"],
        approval_summary=lambda amount: f"Pay {amount} euros",
        approval_risk="high",
        approval_timeout=timedelta(hours=1),
    )
    async def pay(self, amount: int) -> str:
        self.paid.append(amount)
        return f"paid {amount}"

    async def on_chat_message(self, turn: Any) -> AsyncIterator[Any]:
        async for step in turn.steps():
            if step.number == 1 and not turn.continuation:
                call = {"type": "tool-input-available", "toolCallId": "k1", "toolName": "pay", "input": {"amount": 5}}
                async for chunk in step.run(["One moment. ", call]):
                    yield chunk
            else:
                async for chunk in step.run(["done"]):
                    yield chunk


class Desk(AIChatAgent):
    sub_agent_classes = (Cashier,)

    async def on_chat_message(self, turn: Any) -> AsyncIterator[str]:
        cashier = await self.sub_agent(Cashier, "till")
        await cashier.save_messages(self.messages[-1].text)
        yield "Your question is with the cashier."


class Lobby(AIChatAgent):
    """Its clients talk in the rooms below it."""

    sub_agent_classes = (Chat,)

    @callable_method
    async def ask_room(self) -> None:
        await (await self.sub_agent(Chat, "room")).save_messages("hello")

    async def on_chat_message(self, turn: Any) -> AsyncIterator[str]:
        yield "Welcome."


@pytest.fixture(params=STORES)
def stores(request: pytest.FixtureRequest) -> Stores:
    return stores_of(request.param, request)


@asynccontextmanager
async def serving(stores: Stores, **options: Any) -> AsyncIterator[Everyword]:
    app = Everyword([Chat, Cashier, Desk], store=stores.make(), **options)
    async with asyncio.timeout(PATIENCE), app:
        yield app


async def ask(app: Everyword, name: str, text: str, who: Principal = ANN, cls: Any = Chat) -> Any:
    await next_millisecond(app)
    return await app.get(cls, name).for_principal(who).save_messages(text)


def said(id: str, text: str) -> dict[str, Any]:
    return {"id": id, "role": "user", "parts": [{"type": "text", "text": text}]}


async def titles(app: Everyword, **query: Any) -> list[str]:
    return [each.title for each in (await app.conversations.list(**query)).conversations]


async def test_a_conversation_is_listed_with_what_a_sidebar_shows(stores: Stores) -> None:
    async with serving(stores) as app:
        await ask(app, "one", "  what is\n tea? ")
        await ask(app, "one", "and coffee?", BOB)
        (found,) = (await app.conversations.list(principal=ANN)).conversations
        assert (found.kind, found.name, found.title) == ("chat", "one", "what is tea?")
        assert (found.preview, found.status, found.owner) == ("You said: and coffee?", "idle", "ann")
        assert [each.id for each in found.participants] == ["ann", "bob"]
        assert (found.messages, found.unread) == (4, 3)
        assert found.created_at <= found.updated_at
        assert await titles(app, principal=BOB) == []
        got = await app.conversations.get(Chat, "one", principal=BOB)
        assert got is not None and got.unread == 1
        assert await app.conversations.get("chat", "two") is None


async def test_an_archived_conversation_comes_back_with_a_new_message(stores: Stores) -> None:
    async with serving(stores) as app:
        await ask(app, "one", "tea")
        await app.conversations.archive(Chat, "one")
        await app.conversations.mark_read(Chat, "one", ANN)
        assert await titles(app) == []
        await ask(app, "one", "more tea")
        assert await titles(app) == ["tea"]


async def test_what_an_approval_adds_to_an_answer_is_unread(stores: Stores) -> None:
    async with serving(stores) as app:
        await ask(app, "till", "pay please", cls=Cashier)
        asked = await app.conversations.get(Cashier, "till")
        assert asked is not None and asked.preview == "One moment."
        await app.conversations.mark_read(Cashier, "till", ANN)
        await app.conversations.archive(Cashier, "till")
        (waits,) = (await app.approvals.list()).approvals
        await app.approvals.answer(waits.id, True, by=BOB)
        await app.get(Cashier, "till").wait_until_stable()
        found = await app.conversations.get(Cashier, "till", principal=ANN)
        assert found is not None
        assert (found.messages, found.unread, found.archived) == (2, 1, True)
        assert found.preview == "done"
        await app.conversations.mark_read(Cashier, "till", ANN, messages=2)
        found = await app.conversations.get(Cashier, "till", principal=ANN)
        assert found is not None and found.unread == 0


async def test_a_failed_turn_shows_until_the_next_one(stores: Stores) -> None:
    async with serving(stores) as app:
        await ask(app, "one", "fail")
        assert await titles(app, status="failed") == ["fail"]
        await ask(app, "one", "better")
        assert await titles(app, status="failed") == []
        assert await titles(app, status="idle") == ["fail"]


async def test_changes_are_kept_over_a_restart(stores: Stores) -> None:
    async with serving(stores) as app:
        for name in ("one", "two"):
            await ask(app, name, f"question {name}")
        await app.conversations.rename(Chat, "one", " My  title ")
        await app.conversations.archive(Chat, "two")
        await app.conversations.set_metadata(Chat, "one", {"pinned": True})
        await app.conversations.mark_read(Chat, "one", ANN)
    async with serving(stores) as app:
        assert await titles(app, principal=ANN) == ["My title"]
        assert await titles(app, principal=ANN, archived=True) == ["question two"]
        assert sorted(await titles(app, principal=ANN, archived=None)) == ["My title", "question two"]
        found = await app.conversations.get(Chat, "one", principal=ANN)
        assert found is not None and (found.metadata, found.unread) == ({"pinned": True}, 0)
        await app.conversations.rename(Chat, "one", None)
        await app.conversations.archive(Chat, "two", archived=False)
        assert sorted(await titles(app, principal=ANN)) == ["question one", "question two"]
        await app.conversations.set_owner(Chat, "two", BOB)
        assert await titles(app, principal=BOB) == ["question two"]


async def test_a_deleted_conversation_is_gone_and_its_name_is_free(stores: Stores) -> None:
    async with serving(stores) as app:
        await ask(app, "one", "first")
        await app.conversations.delete(Chat, "one")
        assert await titles(app) == []
        with pytest.raises(ConversationNotFound, match="unable to find"):
            await app.conversations.rename(Chat, "one", "x")
        assert not await app.exists(Chat, "one")
        await ask(app, "one", "second", BOB)
        assert await titles(app, principal=BOB) == ["second"]


async def test_bad_input_is_refused(stores: Stores) -> None:
    async with serving(stores) as app:
        await ask(app, "one", "first")
        for title in ("", "  ", "x" * 201, "\ud83d"):
            with pytest.raises(BadInput, match="title"):
                await app.conversations.rename(Chat, "one", title)
        with pytest.raises(BadInput, match="cursor"):
            await app.conversations.list(cursor="nonsense")
        with pytest.raises(BadInput, match="limit"):
            await app.conversations.list(limit=0)
        with pytest.raises(BadInput, match="4096"):
            await app.conversations.set_metadata(Chat, "one", {"x": "y" * 5000})
        with pytest.raises(BadInput, match="running, waiting, failed, idle"):
            await app.conversations.list(status="runing")  # type: ignore[arg-type]
        with pytest.raises(BadInput, match="must be an object"):
            await app.conversations.set_metadata(Chat, "one", ["x"])  # type: ignore[arg-type]
        await app.conversations.set_metadata(Chat, "one", {"score": float("nan"), "tags": ("a",)})
        (each,) = (await app.conversations.list()).conversations
        assert each.metadata == {"score": None, "tags": ["a"]}
        for owner in ("", "\ud800", 5, "x" * 1000):
            with pytest.raises(UsageError, match="pass a string of 1 to"):
                await app.conversations.set_owner(Chat, "one", owner)  # type: ignore[arg-type]
        for count in (-1, True, 1.5, "1"):
            with pytest.raises(BadInput, match="whole number"):
                await app.conversations.mark_read(Chat, "one", ANN, messages=count)  # type: ignore[arg-type]
        with pytest.raises(BadInput, match="true or false"):
            await app.conversations.archive(Chat, "one", archived="yes")  # type: ignore[arg-type]
        for name in ("\0", "\ud800"):
            assert await app.conversations.get(Chat, name) is None
            with pytest.raises(ConversationNotFound, match="can have this name"):
                await app.conversations.rename(Chat, name, "x")
        await ask(app, "one", "again")
        with pytest.raises(BadInput, match="not the id"):
            await app.approvals.answer("%%%", True)


async def test_pages_go_on_where_the_page_before_ended(stores: Stores) -> None:
    async with serving(stores) as app:
        for number in range(5):
            await ask(app, str(number), f"q{number}")
        found, cursor = list[str](), None
        while True:
            page = await app.conversations.list(principal=ANN, limit=2, cursor=cursor)
            found += [each.title for each in page.conversations]
            if (cursor := page.cursor) is None:
                break
        assert sorted(found) == ["q0", "q1", "q2", "q3", "q4"]


async def test_a_watcher_sees_each_change(stores: Stores) -> None:
    async with serving(stores) as app, aclosing(app.conversations.watch(principal=ANN)) as changes:
        first = await anext(changes)
        assert first.type == "list" and first.page is not None and first.page.conversations == []
        await ask(app, "one", "hello")
        while (change := await anext(changes)).conversation is None or change.conversation.status != "idle":
            assert change.type == "changed"
        await ask(app, "other", "of bob", BOB)
        await app.conversations.rename(Chat, "one", "New")
        change = await anext(changes)
        assert change.conversation is not None and change.conversation.title == "New"
        await app.conversations.set_owner(Chat, "one", BOB)
        change = await anext(changes)
        assert (change.type, change.name) == ("removed", "one")
        await ask(app, "two", "hello")
        await app.conversations.delete(Chat, "two")
        while (change := await anext(changes)).type != "removed":
            assert change.conversation is not None and change.conversation.name == "two"
        assert change.name == "two"


async def test_a_watcher_is_told_when_the_owner_changed_twice_at_once(stores: Stores) -> None:
    async with serving(stores) as app:
        await ask(app, "one", "hello")
        async with aclosing(app.conversations.watch(principal=ANN)) as changes:
            await anext(changes)
            await app.conversations.set_owner(Chat, "one", BOB)
            await app.conversations.set_owner(Chat, "one", "eve")
            change = await anext(changes)
            assert (change.type, change.name) == ("removed", "one")


async def test_a_watcher_is_not_told_what_others_delete(stores: Stores) -> None:
    async with serving(stores) as app:
        for name, who in (("old", ANN), ("of bob", BOB), ("new", ANN)):
            await ask(app, name, "hello", who)
        async with aclosing(app.conversations.watch(principal=ANN, limit=1)) as changes:
            first = await anext(changes)
            assert first.page is not None and [each.name for each in first.page.conversations] == ["new"]
            for name in ("of bob", "old", "new"):
                await app.conversations.delete(Chat, name)
            assert [(await anext(changes)).name for _ in range(2)] == ["old", "new"]


async def test_a_first_question_that_is_replaced_is_not_the_title_any_more(stores: Stores) -> None:
    async with serving(stores) as app:
        await ask(app, "one", "My card is 4111")
        await ask(app, "one", "How long does it take?")
        chat = app.get(Chat, "one")
        first, _, second, _ = await chat.get_messages()
        await chat.persist_messages([said(second.id, "How long?")])
        assert await titles(app) == ["My card is 4111"]
        await chat.persist_messages([said(first.id, "(removed)")])
        assert await titles(app) == ["(removed)"]


async def test_nothing_is_unread_in_a_conversation_that_was_cleared(stores: Stores) -> None:
    def title(messages: Any) -> str:
        return f"About {messages[0].text}"

    async with serving(stores, conversations=ConversationOptions(title=title)) as app:
        async with aclosing(app.conversations.watch()) as changes:
            for question in ("tea", "rice"):
                await ask(app, "one", question)
                while (change := await anext(changes)).conversation is None or not change.conversation.has_own_title:
                    pass
                assert change.conversation.title == f"About {question}"
                await app.get(Chat, "one").clear_history()
                for reader in (ANN, BOB):
                    found = await app.conversations.get(Chat, "one", principal=reader)
                    assert found is not None and (found.title, found.preview, found.unread) == ("", "", 0)
        await app.conversations.rename(Chat, "one", "Mine")
        await ask(app, "one", "again")
        await app.get(Chat, "one").clear_history()
        assert await titles(app) == ["Mine"]
        await ask(app, "one", "again")
        found = await app.conversations.get(Chat, "one", principal=ANN)
        assert found is not None and found.unread == 1


async def test_an_approval_waits_in_the_inbox_and_is_answered_from_there(stores: Stores) -> None:
    Cashier.paid = []
    async with serving(stores) as app:
        await ask(app, "till", "pay please", cls=Cashier)
        (waits,) = (await app.approvals.list(principal=ANN)).approvals
        assert (waits.kind, waits.name, waits.owner, waits.tool, waits.input) == (
            *("cashier", "till", "ann", "pay"),
            {"amount": 5},
        )
        assert (waits.summary, waits.risk, waits.approvers) == ("Pay 5 euros", "high", ("boss",))
        assert waits.asked_by is not None and waits.asked_by.id == "ann"
        assert waits.expires_at is not None and round(waits.expires_at - waits.asked_at) == 3600
        assert await titles(app, status="waiting") == ["pay please"]
    async with serving(stores) as app:
        answers = await asyncio.gather(
            *(app.approvals.answer(waits.id, yes, by=BOB, reason="ok") for yes in (True, False, True)),
            return_exceptions=True,
        )
        assert sorted(type(each).__name__ for each in answers) == ["AlreadyAnswered", "AlreadyAnswered", "NoneType"]
        await app.get(Cashier, "till").wait_until_stable()
        assert len(Cashier.paid) <= 1
        assert (await app.approvals.list()).approvals == []
        (record,) = (await app.approvals.list(settled=True)).approvals
        assert record.status == ("approved" if Cashier.paid else "denied")
        assert record.settled_by is not None and (record.settled_by.id, record.reason) == ("bob", "ok")
        assert (record.tool, record.input, record.summary) == ("pay", {"amount": 5}, "Pay 5 euros")
        assert await app.approvals.get(waits.id) == record
        with pytest.raises(AlreadyAnswered, match=f"unable to answer; bob {record.status} this call before"):
            await app.approvals.answer(waits.id, True)
        await app.conversations.delete(Cashier, "till")
        assert await app.approvals.get(waits.id) is None


async def test_a_conversation_waits_while_its_sub_agent_asks(stores: Stores) -> None:
    Cashier.paid = []
    async with serving(stores) as app, aclosing(app.conversations.watch()) as changes:
        assert (await anext(changes)).type == "list"
        await ask(app, "front", "pay please", cls=Desk)
        while (change := await anext(changes)).conversation is None or change.conversation.status != "waiting":
            pass
        assert await titles(app, principal=ANN, status="waiting") == ["pay please"]
        (waits,) = (await app.approvals.list(principal=ANN)).approvals
        assert (waits.kind, waits.name) == ("desk", "front")
        await app.approvals.answer(waits.id, True, by=BOB)
        while (change := await anext(changes)).conversation is None or change.conversation.status != "idle":
            pass
        assert await titles(app, status="waiting") == []


class Manager(AIChatAgent):
    async def on_chat_message(self, turn: Any) -> AsyncIterator[str]:
        result = await self.run_agent_tool(Cashier, "pay please", run_id="r")
        yield f"{result.status}: {result.error}"


async def test_a_call_of_an_agent_that_works_as_a_tool_leaves_the_inbox_with_its_run(stores: Stores) -> None:
    Cashier.paid = []
    async with asyncio.timeout(PATIENCE), Everyword([Manager, Cashier], store=stores.make()) as app:
        result = await ask(app, "boss", "pay", cls=Manager)
        assert result.message.text.startswith("error: The sub-agent asks for an answer (pay)")
        assert (await app.approvals.list()).approvals == []
        (record,) = (await app.approvals.list(settled=True)).approvals
        assert (record.name, record.status, record.settled_by) == ("boss", "denied", None)
        assert record.reason == "The agent that asked works as a tool, and cannot wait for an approval."
        with pytest.raises(AlreadyAnswered, match="the app denied this call before"):
            await app.approvals.answer(record.id, True, by=BOB)
        assert Cashier.paid == []


class Teller(Cashier):
    """Asks, and then fails, or goes on, when the test says so."""

    go_on: ClassVar[asyncio.Event]
    fails: ClassVar[bool]

    async def on_chat_message(self, turn: Any) -> AsyncIterator[Any]:
        async def model() -> AsyncIterator[Any]:
            yield {"type": "tool-input-available", "toolCallId": "k1", "toolName": "pay", "input": {"amount": 5}}
            await self.go_on.wait()
            if self.fails:
                raise RuntimeError("the model is gone")

        async for step in turn.steps():
            async for chunk in step.run(["done"] if turn.continuation else model()):
                yield chunk


class Director(AIChatAgent):
    async def on_chat_message(self, turn: Any) -> AsyncIterator[str]:
        result = await self.run_agent_tool(Teller, "pay please", run_id="r")
        yield f"{result.status}: {result.error}"


@pytest.mark.parametrize("end", ["completed", "error", "aborted"])
async def test_a_call_of_an_agent_that_works_as_a_tool_never_runs_behind_its_parent(stores: Stores, end: str) -> None:
    Cashier.paid, Teller.go_on, Teller.fails = [], asyncio.Event(), end == "error"
    async with asyncio.timeout(PATIENCE), Everyword([Director, Teller], store=stores.make()) as app:
        director = app.get(Director, "boss")
        async with aclosing(app.approvals.watch()) as pages:
            asking = asyncio.create_task(ask(app, "boss", "pay", cls=Director))
            while not (found := (await anext(pages)).approvals):
                pass
            with pytest.raises(AlreadyAnswered, match="the call does not wait for an approval any more"):
                await app.approvals.answer(found[0].id, True, by=BOB)
            if end == "aborted":
                await director.abort_all_requests()
            else:
                Teller.go_on.set()
            result = await asking
            assert result.status == ("aborted" if end == "aborted" else "completed")
            assert result.message is None or result.message.text.startswith("error: ")
            while (await anext(pages)).approvals:
                pass
        (record,) = (await app.approvals.list(settled=True)).approvals
        assert (record.status, record.settled_by) == ("denied", None)
        assert Cashier.paid == []


@pytest.mark.parametrize("stores", ["memory", "sqlite"], indirect=True)  # the clock of PostgreSQL is its own
async def test_an_approval_expires_though_no_process_was_running(stores: Stores) -> None:
    Cashier.paid = []
    clock = ManualClock()
    app = Everyword([Cashier], store=stores.make())
    app.clock = clock
    async with asyncio.timeout(PATIENCE), app:
        await ask(app, "till", "pay please", cls=Cashier)
        (waits,) = (await app.approvals.list()).approvals
    clock.advance(3601)
    app = Everyword([Cashier], store=stores.make())
    app.clock = clock
    async with asyncio.timeout(PATIENCE), app:
        with pytest.raises(AlreadyAnswered, match="the time for it is over"):
            await app.approvals.answer(waits.id, True)
        async with aclosing(app.approvals.watch()) as pages:
            while (await anext(pages)).approvals:
                pass
        (record,) = (await app.approvals.list(settled=True)).approvals
        assert (record.status, record.settled_by) == ("expired", None)
        assert Cashier.paid == []
        assert await titles(app, status="waiting") == []


@pytest.mark.parametrize("stores", ["memory", "sqlite"], indirect=True)
async def test_a_conversation_is_deleted_when_it_was_kept_long_enough(stores: Stores) -> None:
    clock = ManualClock()
    app = Everyword([Chat], store=stores.make())
    app.clock = clock
    async with asyncio.timeout(PATIENCE), app:
        await ask(app, "one", "hello")
        await ask(app, "two", "hello")
        await app.conversations.set_retention(Chat, "one", timedelta(days=1))
    clock.advance(24 * 3600 + 1)
    app = Everyword([Chat], store=stores.make())
    app.clock = clock
    async with asyncio.timeout(PATIENCE), app:
        async with aclosing(app.conversations.watch()) as changes:
            change = await anext(changes)
            while change.type == "list" and change.page is not None and len(change.page.conversations) > 1:
                change = await anext(changes)
        assert [each.name for each in (await app.conversations.list()).conversations] == ["two"]


@pytest.mark.parametrize("stores", ["memory", "sqlite"], indirect=True)
async def test_a_conversation_is_kept_while_an_agent_below_it_is_used(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = asyncio.Event()
    monkeypatch.setattr(deadlines.log, "info", lambda text, *_: kept.set() if "is kept" in text else None)
    app = Everyword([Lobby], store=stores.make())
    app.clock = clock = ManualClock()
    async with asyncio.timeout(PATIENCE), app, aclosing(app.conversations.watch()) as changes:
        await ask(app, "one", "hello", cls=Lobby)
        await app.conversations.set_retention(Lobby, "one", timedelta(days=1))
        clock.advance(23 * 3600)
        await app.get(Lobby, "one").call(Lobby.ask_room)
        clock.advance(23 * 3600)
        await kept.wait()
        assert await app.conversations.get(Lobby, "one") is not None
        clock.advance(3600)
        async for change in changes:
            if change.type == "removed":
                return


async def test_an_app_names_the_owners(stores: Stores) -> None:
    def owner(principal: Principal, kind: str, name: str) -> str:
        return f"team of {principal.id}, {kind}, {name}"

    async with serving(stores, conversations=ConversationOptions(owner=owner)) as app:
        await ask(app, "one", "hello")
        assert await titles(app, principal="team of ann, chat, one") == ["hello"]
        assert await titles(app, principal=ANN) == []
        await app.conversations.set_owner(Chat, "one", ANN)
        await ask(app, "one", "more", BOB)
        assert await titles(app, principal=ANN) == ["hello"]


async def test_the_settings_apply_to_a_conversation_that_begins_with_a_stored_message(stores: Stores) -> None:
    options = ConversationOptions(owner=lambda principal, kind, name: f"{principal.id}s", keep_for=timedelta(days=1))
    async with serving(stores, conversations=options) as app:
        welcome = {"id": "w", "role": "assistant", "parts": [{"type": "text", "text": "Welcome!"}]}
        await app.get(Chat, "one").persist_messages([welcome])
        found = await app.conversations.get(Chat, "one")
        assert found is not None and (found.owner, found.keep_for) == (None, 86400)
        await ask(app, "one", "hello")
        await ask(app, "one", "more", BOB)
        found = await app.conversations.get(Chat, "one")
        assert found is not None and (found.owner, found.keep_for) == ("anns", 86400)


async def test_a_fork_belongs_to_the_principal_that_made_it(stores: Stores) -> None:
    options = ConversationOptions(keep_for=timedelta(days=1))
    async with serving(stores, conversations=options) as app:
        asked = await ask(app, "one", "hello")
        for name, handle in (("two", app.get(Chat, "one").for_principal(BOB)), ("three", app.get(Chat, "one"))):
            await handle.versions.fork(asked.message.id, name)
        (found,) = (await app.conversations.list(principal=BOB)).conversations
        assert (found.name, found.title, found.messages, found.unread) == ("two", "hello", 2, 0)
        assert found.keep_for == 86400
        await ask(app, "two", "more")
        assert await titles(app, principal=BOB) == ["hello"]
        found_too = await app.conversations.get(Chat, "three")
        assert found_too is not None and found_too.owner is None


async def test_an_owner_that_is_not_one_is_refused_with_what_to_do(
    stores: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    async def owner(principal: Principal, kind: str, name: str) -> str:
        return "team"

    async with serving(stores, conversations=ConversationOptions(owner=owner)) as app:  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="not async, that returns a principal"):
            await ask(app, "one", "hello")
        assert await titles(app) == []


async def test_a_model_gives_a_title_once_and_a_persons_title_wins(stores: Stores) -> None:
    asked: list[int] = []

    async def title(messages: Any) -> str:
        asked.append(len(messages))
        if len(asked) == 1:
            raise RuntimeError("the model is busy")
        return "  About\n tea \ud83d"  # a model may end within an emoji

    async with serving(stores, conversations=ConversationOptions(title=title)) as app:
        async with aclosing(app.conversations.watch()) as changes:
            await anext(changes)
            await ask(app, "one", "hello")
            while (change := await anext(changes)).conversation is None or not change.conversation.has_own_title:
                assert change.conversation is not None and change.conversation.title == "hello"
        assert await titles(app) == ["About tea ?"]
        await ask(app, "one", "more")
        assert asked == [2, 2]
        await app.conversations.rename(Chat, "one", "Mine")
        await app.get(Chat, "one")._do("change_conversation", None, {"changes": {"title": "X", "titled_by": "model"}})
        assert await titles(app) == ["Mine"]


class Clerk(Cashier):
    async def on_chat_message(self, turn: Any) -> AsyncIterator[Any]:
        model = ScriptedModel(["One moment. ", Call("pay", {"amount": 5}), "done"])
        async for step in turn.steps():
            async for chunk in step.run(model.stream(step.messages)):
                yield chunk


class Supervisor(AIChatAgent):
    sub_agent_classes = (Clerk,)

    async def on_chat_message(self, turn: Any) -> AsyncIterator[str]:
        result = await self.run_agent_tool(Clerk, "pay please", run_id="r")
        said = self.messages[-1].text if turn.continuation else ""
        yield f"{result.status}: {result.error}".removeprefix(said)


async def test_a_crash_while_a_call_is_withdrawn_does_not_complete_the_run() -> None:
    found = await assert_parity(Supervisor, ["pay"])
    assert found.kills > 10
