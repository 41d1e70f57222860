"""Destroying an agent before the eyes of its clients: sockets, streams over HTTP, and calls that do it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest
from starlette.responses import PlainTextResponse
from websockets.exceptions import ConnectionClosed

from everyword import AIChatAgent, Everyword, callable
from tests.loaded_agents import loaded_agent
from tests.server.kit import PATIENCE, Reader, connect, question, serving
from tests.server.sockets import Socket, socket


class Chat(AIChatAgent):
    """Answers when it is let, and can be told to go."""

    initial_state: ClassVar[Any] = {"count": 0}
    closed: ClassVar[list[str]] = []

    async def on_chat_message(self, turn: Any) -> AsyncIterator[str]:
        yield "so far"
        await asyncio.Event().wait()

    async def on_close(self, connection: Any, code: int, reason: str) -> None:
        self.closed.append(connection.id)
        await self.set_state({"count": len(self.connections())})

    @callable
    async def count(self, number: int) -> None:
        await self.set_state({"count": number})

    @callable
    async def go(self) -> str:
        await self.destroy()
        return f"{self.name} is gone"

    async def on_request(self, request: Any) -> Any:
        await self.destroy()
        return PlainTextResponse(f"{self.name} is gone")


@pytest.fixture(autouse=True)
def fresh() -> None:
    Chat.closed = []


def app_of(**options: Any) -> Everyword:
    app = Everyword([Chat], **{"store": "memory:", **options})
    app.grace = 0.0
    return app


async def closing(tab: Socket) -> tuple[int, str]:
    """Read on until the server closes; return how."""
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(ConnectionClosed) as over:
            await tab.until(lambda frame: False)
    assert over.value.rcvd is not None
    return over.value.rcvd.code, over.value.rcvd.reason


async def test_a_call_that_destroys_its_agent_is_answered_and_then_every_socket_is_closed() -> None:
    """P-58."""
    async with serving(app_of()) as url, socket(url) as one, socket(url) as other:
        await one.send(type="rpc", id="1", method="count", args=[7])
        await other.until(lambda frame: frame.get("state") == {"count": 7})
        await one.ask("r1")
        await other.until(lambda frame: "so far" in str(frame.get("body")))
        await one.send(type="rpc", id="2", method="go", args=[])
        reply = await one.until(lambda frame: frame.get("id") == "2")
        assert (reply["success"], reply["result"]) == (True, "ann is gone")
        for tab in (one, other):
            assert await closing(tab) == (1001, "Agent destroyed")
        assert Chat.closed == []
        async with socket(url) as again:
            state = await again.until(lambda frame: frame["type"] == "cf_agent_state")
            assert state["state"] == {"count": 0}
            assert again.frames[0] == {"type": "cf_agent_chat_messages", "messages": [], "connect": True}


async def test_a_destroyed_agent_is_empty_for_a_new_process_too(tmp_path: Path) -> None:
    store = str(tmp_path / "log.db")
    app = app_of(store=store)
    async with serving(app) as url, socket(url) as tab:
        await tab.send(type="rpc", id="1", method="count", args=[7])
        await (await loaded_agent(app.get(Chat, "ann"))).sql("create table notes (text)")
        await tab.send(type="rpc", id="2", method="go", args=[])
        assert await closing(tab) == (1001, "Agent destroyed")
    app = app_of(store=store)
    async with serving(app) as url, socket(url) as tab:
        state = await tab.until(lambda frame: frame["type"] == "cf_agent_state")
        assert state["state"] == {"count": 0}
        tables = await (await loaded_agent(app.get(Chat, "ann"))).sql(
            "select name from sqlite_master where name = 'notes'"
        )
        assert list(tables) == []


async def test_streams_over_http_end_where_the_agent_does() -> None:
    """P-58."""
    app = app_of()
    async with serving(app) as url, connect(f"{url}/agents/chat/ann") as client:
        async with client.stream("POST", "chat", json=question()) as answer, client.stream("GET", "events") as events:
            turn, log = Reader(answer), Reader(events)
            await turn.until(lambda event: "so far" in event.data)
            await log.until(lambda event: "so far" in event.data)
            await app.get(Chat, "ann").destroy()
            for reader in (turn, log):
                with pytest.raises(httpx.RemoteProtocolError):
                    await reader.rest()
            assert any("agent.destroyed" in event.data for event in log.events)
            assert not any("[DONE]" in event.data for event in turn.events)
        assert (await client.get("get-messages")).json() == []
        assert (await client.get("chat/stream")).status_code == 204


async def test_a_request_may_destroy_the_agent_that_answers_it() -> None:
    async with serving(app_of()) as url, connect(f"{url}/agents/chat/ann") as client, socket(url) as tab:
        await tab.greeted()
        assert (await client.post("webhook")).text == "ann is gone"
        assert await closing(tab) == (1001, "Agent destroyed")
