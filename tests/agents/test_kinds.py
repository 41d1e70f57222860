"""The kinds of classes, present and former, and the ids under which agents are stored."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import pytest

from everyword import Agent, AIChatAgent, Everyword, agent_tool
from everyword.agents.kinds import agent_kind, all_kinds
from everyword.errors import UsageError
from everyword.ids import AgentId, sub_agent_id
from everyword.log.memory import MemoryLog
from everyword.runtime.agent_runtime.agent_runtime import AgentRuntime
from everyword.runtime.stored_ids import doubles
from everyword.testing import Gate
from tests.agents.kit import dying
from tests.loaded_agents import loaded_agent
from tests.runtime.facts import eventually, says, written
from tests.timeouts import PATIENCE


def kinds_of(*classes: type[Agent]) -> dict[str, tuple[str, ...]]:
    return {cls.kind: all_kinds(cls) for cls in classes}


def test_a_class_has_the_kind_that_it_declares_and_else_one_made_of_its_name() -> None:
    class Chat(Agent):
        pass

    class Support(Agent):
        kind = "help-desk-2"
        aliases = ("support", "help", "support")

    class Special(Support):
        pass

    assert kinds_of(Chat, Support, Special) == {
        "chat": ("chat",),
        "help-desk-2": ("help-desk-2", "support", "help"),
        "special": ("special",),
    }
    assert [agent_kind(cls) for cls in (Chat, Support, Special)] == ["chat", "help-desk-2", "special"]
    assert agent_tool(type("Looker", (AIChatAgent,), {"kind": "look-up"})).name == "look_up"


@pytest.mark.parametrize("kind", ["", "Chat", "a/b", "a_b", "-a", "a-", "a--b", "ä", "sub", "a b", 5, ["chat"]])
@pytest.mark.parametrize("member", ["kind", "aliases"])
def test_a_kind_that_no_client_could_name_is_refused_when_the_class_is_made(member: str, kind: Any) -> None:
    with pytest.raises(UsageError, match=f"unable to make Odd; {member} has"):
        type("Odd", (Agent,), {member: kind if member == "kind" else [kind]})


def test_aliases_that_are_no_list_are_refused() -> None:
    with pytest.raises(UsageError, match="`aliases` must be a list of kinds, not 'chat'"):
        type("Odd", (Agent,), {"aliases": "chat"})


@pytest.mark.parametrize("former", ["chat", "talk"])
def test_two_classes_that_share_a_kind_are_not_served_together(former: str) -> None:
    chat = type("Chat", (Agent,), {"aliases": ["talk"]})
    other = type("Other", (Agent,), {"aliases": [former]})
    with pytest.raises(UsageError, match=f"its alias {former!r} is a kind of Chat"):
        Everyword([chat, other], store="memory:")
    with pytest.raises(UsageError, match="both are of kind 'chat'"):
        Everyword([chat, type("Other", (Agent,), {"kind": "chat"})], store="memory:")


# -- agents that were stored under a former kind ----------------------------------------------------------------------


class Note(Agent):
    initial_state: ClassVar[Any] = {"n": 0}


class Chat(AIChatAgent):
    sub_agent_classes = (Note,)

    async def on_chat_message(self, turn: Any) -> Any:
        yield f"re {self.messages[-1].text}"


class Memo(Note):
    aliases = ("note",)


class Support(AIChatAgent):
    aliases = ("chat", "older")
    sub_agent_classes = (Memo,)

    async def on_chat_message(self, turn: Any) -> Any:
        yield f"support {self.messages[-1].text}"


def user(text: str) -> dict[str, Any]:
    return {"id": text, "role": "user", "parts": [{"type": "text", "text": text}]}


async def before(name: str = "ann") -> MemoryLog:
    """Return a store as it was written before the class was renamed."""
    store = MemoryLog()
    async with Everyword([Chat], store=store) as app:
        chat = await loaded_agent(app.get(Chat, name))
        await chat.save_messages([user("hi")])
        await (await chat.sub_agent(Note, "n")).set_state({"n": 5})
        await chat.sql("create table said (text)")
        await chat.sql("insert into said values ('once')")
    return store


async def test_an_agent_keeps_its_id_and_everything_that_it_stored_when_its_class_is_renamed() -> None:
    store = await before()
    async with asyncio.timeout(PATIENCE), Everyword([Support], store=store) as app:
        support = await loaded_agent(app.get(Support, "ann"))
        assert [message.text for message in support.messages] == ["hi", "re hi"]
        assert (await support.save_messages([user("again")])).status == "completed"
        assert await support.sql("select text from said") == [{"text": "once"}]
        assert await support.sub_agents.exists(Memo, "n") and not await support.sub_agents.exists(Memo, "m")
        memo = await support.sub_agent(Memo, "n")
        assert await memo.get_state() == {"n": 5}
        await support.sub_agent(Memo, "new")
        assert [each.name for each in await support.sub_agents.list(Memo)] == ["n", "new"]
        assert [each.cls for each in await support.sub_agents.list()] == [Memo, Memo]
        await app.get(Support, "bob").save_messages([user("hi")])
        ann = AgentId("chat/ann")
        assert await store.agents() == [
            ann,
            sub_agent_id(ann, "note", "n"),
            sub_agent_id(ann, "memo", "new"),
            AgentId("support/bob"),
        ]
        assert await support.sub_agents.delete(Memo, "n") and not await support.sub_agents.delete(Memo, "n")
        assert len((await app.service()).directory) == 3


async def test_what_has_only_a_database_or_only_a_state_is_found_too() -> None:
    store = MemoryLog()
    async with Everyword([Note], store=store) as app:
        await (await loaded_agent(app.get(Note, "sql"))).sql("create table t (x)")
        await app.get(Note, "state").set_state({"n": 1})
    async with Everyword([Memo], store=store) as app:
        names = (await app.service()).directory.stored_ids
        asked = [AgentId(f"memo/{name}") for name in ("sql", "state", "none")]
        assert [await names.find(each) for each in asked] == ["note/sql", "note/state", "memo/none"]
        with pytest.raises(UsageError, match="its class has aliases"):
            Memo(AgentRuntime(app._directory, AgentId("memo/sql"))).sql("select * from t")
        memo = await loaded_agent(app.get(Memo, "sql"))
        assert await memo.sql("select * from t") == []


async def test_a_destroyed_agent_is_made_anew_under_the_present_kind() -> None:
    store = await before()
    async with Everyword([Support], store=store) as app:
        support = app.get(Support, "ann")
        await support.load()  # from now on it is known under which id it is stored
        await support.destroy()
        assert await store.agents() == []
        await support.save_messages([user("hi")])
        assert [message.text for message in await support.get_messages()] == ["hi", "support hi"]
        assert await store.agents() == ["support/ann"]


async def test_of_two_agents_with_one_name_each_is_reached_by_its_own_kind(caplog: pytest.LogCaptureFixture) -> None:
    store = await before()
    async with Everyword(
        [type("Support", (AIChatAgent,), {"on_chat_message": Support.on_chat_message})], store=store
    ) as app:
        await app.get(app.classes["support"], "ann").save_messages(
            [user("new")]
        )  # served without the alias, for a while
    async with Everyword([Support], store=store) as app:
        names = (await app.service()).directory.stored_ids
        assert [await names.find(AgentId(f"{kind}/ann")) for kind in ("chat", "support", "older")] == [
            *("chat/ann", "support/ann", "support/ann"),
        ]
        assert caplog.text.count("are two agents, though their class has both kinds") == 1
        assert doubles(await store.agents(), app.kinds_of) == [["chat/ann", "support/ann"]]


async def test_a_turn_that_was_open_when_the_class_was_renamed_goes_on_under_its_id() -> None:
    class Halting(Chat):
        async def on_chat_message(self, turn: Any) -> Any:
            yield "half "
            await Gate().wait()

    store = MemoryLog()
    async with dying(Halting, store) as serving:
        asking = asyncio.create_task(serving.agent.save_messages([user("hi")]))
        await eventually(lambda: has_said(store, b"half "))
    assert asking.cancelled()
    async with asyncio.timeout(PATIENCE), Everyword([Support], store=store) as app:
        support = app.get(Support, "ann")
        await support.wait_until_stable()
        assert [message.text for message in await support.get_messages()] == ["hi", "half support half "]
        assert await store.agents() == ["chat/ann"]


async def has_said(store: MemoryLog, words: bytes) -> bool:
    return any(map(says(words), await written(store)))
