"""An app in the test's own loop: clients without sockets, and a process that can be killed at any append."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from everyword import Agent, AIChatAgent, Everyword, Turn
from everyword.errors import AgentStopped, TurnedAway, UsageError
from everyword.ids import AgentId
from everyword.log.sqlite.store import SqliteLog
from everyword.messages.sse import SseParser
from everyword.server import Principal, Reject
from everyword.testing import Gate, LocalServer, ManualClock, ScriptedModel


def chatting(model: ScriptedModel, **members: Any) -> type[AIChatAgent]:
    async def on_chat_message(self: AIChatAgent, turn: Turn) -> AsyncIterator[Any]:
        async for chunk in model.stream(self.messages):
            yield chunk

    return type("Chat", (AIChatAgent,), {"on_chat_message": on_chat_message, **members})


async def test_a_client_talks_to_an_app_without_a_socket() -> None:
    chat = chatting(ScriptedModel("hello"))
    async with LocalServer(chat) as server:
        async with server.client(chat, "ann") as client:
            assert (await client.send("hi")).text == "hello"  # type: ignore[union-attr]
        stored = await server.http(chat, "ann").get("get-messages")
        assert [message["role"] for message in stored.json()] == ["user", "assistant"]
        assert [message.text for message in await server.get(chat, "ann").get_messages()] == ["hi", "hello"]


@pytest.mark.parametrize("base_path", ["/", "/deep/down/"])
async def test_clients_find_an_app_wherever_its_agents_are(base_path: str) -> None:
    chat = chatting(ScriptedModel("hello"))
    async with LocalServer(chat, base_path=base_path) as server:
        async with server.client(chat, "ann") as client:
            assert (await client.send("hi")).text == "hello"  # type: ignore[union-attr]
        stored = await server.http(chat, "ann").get("get-messages")
        assert [message["role"] for message in stored.json()] == ["user", "assistant"]


async def test_responses_stream_as_they_are_made() -> None:
    gate = Gate()
    chat = chatting(ScriptedModel(["half", gate, "whole"]))
    async with LocalServer(chat) as server:
        body = {"messages": [{"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hi"}]}]}
        parser, seen = SseParser(), list[str]()
        async with server.http(chat).stream("POST", "chat", json=body) as response:
            async for piece in response.aiter_bytes():
                seen += [event.data for event in parser.feed(piece)]
                if any("half" in data for data in seen):
                    gate.open()
        assert seen[-1] == "[DONE]" and any("whole" in data for data in seen)


async def test_a_network_that_is_cut_is_noticed_and_taken_up_again() -> None:
    gate = Gate()
    chat = chatting(ScriptedModel(["half ", gate, "whole"]))
    async with LocalServer(chat) as server:
        network = server.network()
        async with server.client(chat, network=network) as client:
            reply = client.send("hi")
            await gate.reached.wait()
            network.cut()
            await client.connection.until(lambda: not client.agent.is_connected)
            gate.open()
            assert (await reply).text == "half whole"  # type: ignore[union-attr]


@pytest.mark.parametrize("where", ["memory:", "file"])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_process_that_dies_at_any_append_is_gone_on_with(where: str, when: Any, tmp_path: Path) -> None:
    chat = chatting(ScriptedModel(["one ", "two ", "three"]))
    at = 1
    while True:
        store = where if where == "memory:" else tmp_path / f"{at}.db"
        server = LocalServer(chat, store=store)
        await server.start(crash_at=at, when=when)
        try:
            async with server.client(chat) as client:
                reply = asyncio.ensure_future(client.send("hi")._last())
                crash = asyncio.ensure_future(server.crashed.wait())
                await asyncio.wait([reply, crash], return_when=asyncio.FIRST_COMPLETED)
                is_dead = crash.done()
                crash.cancel()
                if is_dead:
                    await server.restart()
                message = await reply
                assert message is not None and message.text == "one two three"
        finally:
            await server.stop()
        if not is_dead:
            break
        at += 1
    assert at > 2


async def test_what_was_committed_is_there_after_a_kill_and_what_was_not_is_not(tmp_path: Path) -> None:
    chat = chatting(ScriptedModel("hello"))
    server = LocalServer(chat, store=tmp_path / "log.db")
    await server.start(crash_at=1, when="before")
    async with server.client(chat) as client:
        client.send("hi")
        await server.crashed.wait()
    await server.restart()
    assert (await server.http(chat).get("get-messages")).json() == []
    await server.stop()


async def test_a_killed_process_writes_nothing_more(tmp_path: Path) -> None:
    ended: list[str] = []
    gate = Gate()

    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> AsyncIterator[str]:
            yield "half"
            try:
                await gate.wait()
            finally:
                await self.persist_messages([*self.messages, {"id": "late", "role": "user", "parts": []}])
                ended.append("wrote")

    server = LocalServer(Chat, store=tmp_path / "log.db")
    await server.start()
    async with server.client(Chat) as client:
        client.send("hi")
        await gate.reached.wait()
        await server.kill()
        gate.open()
    assert ended == []
    store = SqliteLog(tmp_path / "log.db")
    await store.open()
    _, stored = await store.conversation(AgentId("chat/test"))
    await store.aclose()
    assert [message.role for message in stored if message.body] == ["user"]
    assert "late" not in [message.id for message in stored]


async def test_an_app_is_used_with_everything_but_its_store(tmp_path: Path) -> None:
    async def admit(connecting: Any) -> Principal | Reject:
        return Principal("ann") if connecting.name == "ann" else Reject()

    chat = chatting(ScriptedModel("hello"))
    app = Everyword([chat], store=str(tmp_path / "own.db"), authorize=admit, base_path="/chats")
    async with LocalServer(app) as server:
        async with server.client(chat, "ann") as client:
            assert (await client.send("hi")).text == "hello"  # type: ignore[union-attr]
        assert (await server.http(chat, "bob").get("get-messages")).status_code == 403
        with pytest.raises(TurnedAway):
            await server.client(chat, "bob").__aenter__()
    assert not (tmp_path / "own.db").exists()


async def test_time_is_the_tests_to_turn(manual_clock: ManualClock) -> None:
    called: list[str] = []

    class Chat(AIChatAgent):
        async def ring(self, payload: str) -> None:
            called.append(payload)
            rung.set()

    rung = asyncio.Event()
    async with LocalServer(Chat, clock=manual_clock) as server:
        agent = server.get(Chat)
        await agent.schedule(3600, "ring", "now")
        for _ in range(20):
            await asyncio.sleep(0)
        assert called == []
        while not rung.is_set():
            manual_clock.advance(3_600)
            await asyncio.sleep(0)
    assert called == ["now"]


async def test_a_server_that_is_down_does_not_answer() -> None:
    chat = chatting(ScriptedModel("hello"))
    server = LocalServer(chat)
    with pytest.raises(UsageError):
        _ = server.app
    await server.start()
    http = server.http(chat)
    await server.kill()
    with pytest.raises(httpx.ConnectError):
        await http.get("get-messages")
    await server.start()
    assert (await http.get("get-messages")).json() == []
    await http.aclose()
    await server.stop()


def test_it_is_given_classes_or_an_app_and_not_both() -> None:
    chat = chatting(ScriptedModel("hello"))
    for given, options in (((), {}), ((chat, Everyword([chat])), {}), ((Everyword([chat]),), {"base_path": "/x"})):
        with pytest.raises(UsageError, match="either"):
            LocalServer(*given, **options)


class Till(Agent):
    async def add(self, n: int) -> int:
        return int(await self.set_state((self.state or 0) + n))

    async def wait(self) -> None:
        await asyncio.Event().wait()


async def test_the_app_that_is_given_is_served_and_given_back(tmp_path: Path) -> None:
    app = Everyword([Till], store=str(tmp_path / "own.db"))
    app.grace = 7.0
    till = app.get(Till, "ann")
    async with LocalServer(app) as server:
        assert server.app is app and server.get(Till, "ann") == till
        assert [await till.add(1), await server.get(Till, "ann").add(1)] == [1, 2]
        with pytest.raises(UsageError, match="runs already"):
            await LocalServer(app).start()
        await server.restart()
        assert server.app is app and await till.add(1) == 3
    assert not (tmp_path / "own.db").exists()
    assert (app.where, app.grace, app.clock) == (str(tmp_path / "own.db"), 7.0, None)
    with pytest.raises(UsageError, match="not running"):
        await till.add(1)
    async with app:
        assert await till.add(1) == 1, "on its own store again"


async def test_a_kill_ends_all_loaded_agents() -> None:
    before = asyncio.all_tasks()
    server = LocalServer(Till)
    await server.start()
    waiting = [asyncio.create_task(server.get(Till, name).wait()) for name in ("ann", "bob")]
    await server.get(Till, "ann").load()
    await server.get(Till, "bob").add(1)
    await server.kill()
    async with asyncio.timeout(10):
        assert all(isinstance(each, AgentStopped) for each in await asyncio.gather(*waiting, return_exceptions=True))
    assert asyncio.all_tasks() == before
