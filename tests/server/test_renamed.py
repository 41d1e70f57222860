"""Agents whose class was renamed, over HTTP and sockets: the old address and the new one lead to the same agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from everyword import Agent, AIChatAgent, Connecting, Principal, callable, tool
from everyword.ids import AgentId
from tests.server.kit import ask, chat, connect, question, serving
from tests.server.sockets import Socket, socket

PNG = b"\x89PNG\r\n\x1a\n"


class Note(Agent):
    initial_state: ClassVar[Any] = {"n": 0}

    @callable
    async def add(self) -> int:
        return int((await self.update_state(lambda state: {"n": state["n"] + 1}))["n"])


class Chat(AIChatAgent):
    sub_agent_classes = (Note,)

    async def on_chat_message(self, turn: Any) -> Any:
        yield "hello"

    async def on_before_sub_agent(self, request: Any, child: Any) -> bool:
        return True


class Till(AIChatAgent):
    @tool(needs_approval=True)
    async def pay(self) -> str:
        return "paid"

    async def on_chat_message(self, turn: Any) -> Any:
        async for step in turn.steps():
            call = {"type": "tool-input-available", "toolCallId": "k1", "toolName": "pay", "input": {}}
            async for chunk in step.run([call] if step.number == 1 and not turn.continuation else ["done"]):
                yield chunk


class Desk(Till):
    aliases = ("till",)


class Memo(Note):
    aliases = ("note",)


class Support(Chat):
    kind = "help-desk"
    aliases = ("chat",)
    sub_agent_classes = (Memo,)


async def before(path: str) -> None:
    """Let a server of the class as it was write a conversation, and the state of a sub-agent."""
    async with serving(chat(Chat, store=path)) as url:
        async with connect(f"{url}/agents/chat/ann") as http:
            await ask(http, question("u1", "hi"))
        async with socket(url, name="ann/sub/note/n") as note:
            assert await add(note) == 1


async def add(client: Socket) -> int:
    call = f"c{len(client.frames)}"
    await client.send(type="rpc", id=call, method="add", args=[])
    return int((await client.until(lambda frame: frame.get("id") == call))["result"])


async def test_the_old_and_the_new_address_lead_to_one_agent(tmp_path: Path) -> None:
    path = str(tmp_path / "log.db")
    await before(path)
    asked: list[tuple[type[Any], str]] = []

    async def authorize(connecting: Connecting) -> Principal:
        asked.append((connecting.agent, connecting.name))
        return Principal("me")

    async with serving(chat(Support, store=path, authorize=authorize)) as url:
        addresses = [f"{url}/agents/{kind}/ann" for kind in ("chat", "help-desk")]
        for address in addresses:
            async with connect(address) as http:
                assert (await http.get("get-messages")).json()[0]["id"] == "u1"
                assert (await http.get("chat/stream")).status_code == 204
        async with socket(url, kind="chat") as old, socket(url, kind="help-desk") as new:
            await old.greeted(), await new.greeted()
            await new.ask("r2", "again")
            assert [(await client.ended("r2"))["outcome"] for client in (old, new)] == ["completed"] * 2
        counts = []
        for kind in ("chat", "help-desk"):
            for below in ("note", "memo"):
                async with socket(url, name=f"ann/sub/{below}/n", kind=kind) as note:
                    counts.append(await add(note))
        assert counts == [2, 3, 4, 5], "the sub-agent that it had, under all four addresses"
        assert set(asked) == {(Support, "ann")}
        async with connect(f"{url}/agents/older/ann") as http:
            assert (await http.get("get-messages")).status_code == 404


async def test_a_new_agent_has_the_present_kind_whichever_address_makes_it(tmp_path: Path) -> None:
    app = chat(Support, store=str(tmp_path / "log.db"))
    async with serving(app) as url:
        async with connect(f"{url}/agents/chat/bob") as http:
            await ask(http, question("u1", "hi"))
        async with connect(f"{url}/agents/help-desk/bob") as http:
            assert len((await http.get("get-messages")).json()) == 2
        assert await (await app.service()).directory.store.has(AgentId("help-desk/bob"))


async def test_a_read_only_client_watches_an_agent_by_either_address_and_makes_none(tmp_path: Path) -> None:
    path = str(tmp_path / "log.db")
    await before(path)

    async def authorize(connecting: Connecting) -> Principal:
        return Principal("me", read_only=True)

    async with serving(chat(Support, store=path, authorize=authorize)) as url:
        for kind in ("chat", "help-desk"):
            async with socket(url, kind=kind) as client:
                assert (await client.greeted())["name"] == "ann"
            async with socket(url, name="nobody", kind=kind) as client:
                assert (await client.closed())[0] == 1013


async def test_attachments_of_a_renamed_class_and_of_its_sub_agents_stay_where_they_were(tmp_path: Path) -> None:
    path = str(tmp_path / "log.db")
    is_png = {"content-type": "image/png"}
    async with serving(chat(Chat, store=path)) as url, connect(url) as http:
        await http.post("/agents/chat/ann/chat", json=question("u1", "hi"))
        paths = [
            (
                await http.post(f"/agents/chat/ann{below}/attachments", content=PNG + below.encode(), headers=is_png)
            ).json()
            for below in ("", "/sub/note/n")
        ]
    app = chat(Support, store=path)
    async with serving(app) as url, connect(url) as http:
        for part, below in zip(paths, ("", "/sub/note/n"), strict=True):
            for address in (part["url"], part["url"].replace("/chat/", "/help-desk/").replace("/note/", "/memo/")):
                assert (await http.get(address)).content == PNG + below.encode(), address
            for kind in (Support, "chat"):
                link = await app.attachments.signed_url(kind, "ann", part)
                assert (await http.get(link)).content == PNG + below.encode()
        again = await http.post("/agents/help-desk/ann/attachments", content=PNG, headers=is_png)
        assert again.json()["url"] == paths[0]["url"]


async def test_the_approvals_of_a_conversation_are_listed_and_answered_under_either_name(tmp_path: Path) -> None:
    path = str(tmp_path / "log.db")
    async with chat(Till, store=path) as app:
        await app.get(Till, "ann").save_messages("pay")
    async with chat(Desk, store=path) as app:
        (waits,) = (await app.approvals.list()).approvals
        for conversation in ((Desk, "ann"), ("desk", "ann"), ("till", "ann")):
            assert (await app.approvals.list(conversation=conversation)).approvals == [waits]
        await app.approvals.answer(waits.id, False)
        (settled,) = (await app.approvals.list(conversation=(Desk, "ann"), settled=True)).approvals
        assert (settled.kind, settled.name, settled.status) == ("desk", "ann", "denied")
