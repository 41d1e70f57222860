"""Connections that do without the protocol's frames, and how often a client may call."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, ClassVar

from everyword import AIChatAgent, Everyword, Limits, callable
from everyword.testing import ManualClock
from tests.server.kit import connect, question, serving
from tests.server.sockets import Socket, socket


class Chat(AIChatAgent):
    """Lets those be who say that they are a lamp."""

    initial_state: ClassVar[Any] = {"light": "off"}

    def prepare_connection(self, connection: Any, request: Any) -> None:
        if request.query_params.get("kind") == "broken":
            raise RuntimeError("cannot say")
        connection.has_protocol = request.query_params.get("kind") != "lamp"

    async def on_connect(self, connection: Any, request: Any) -> None:
        connection.send({"welcome": connection.has_protocol})

    async def on_message(self, connection: Any, message: str) -> None:
        connection.send(f'"{message}?"')

    async def on_chat_message(self, turn: Any) -> AsyncIterator[str]:
        await self.set_state({"light": "on"})
        yield "light!"
        self.broadcast({"light": "on"})

    @callable
    async def dim(self) -> str:
        await self.set_state({"light": "dim"})
        return "dimmed"


def app_of(**options: Any) -> Everyword:
    app = Everyword([Chat], store="memory:", **options)
    app.grace = 0.0
    return app


def types(tab: Socket) -> list[Any]:
    return [frame.get("type") if isinstance(frame, dict) else frame for frame in tab.frames]


async def test_a_connection_without_the_protocol_gets_only_what_the_agent_sends_and_what_it_asked_for() -> None:
    """P-59."""
    async with serving(app_of()) as url, socket(url) as page, socket(url, "?kind=lamp") as lamp:
        await page.ask("r1")
        await page.ended("r1")
        await lamp.until(lambda frame: frame == {"light": "on"})
        await lamp.send(type="rpc", id="1", method="dim", args=[])
        await lamp.until(lambda frame: isinstance(frame, dict) and frame.get("id") == "1")
        await lamp.connection.send("hello")
        await lamp.until(lambda frame: frame == "hello?")
        assert lamp.frames[:2] == [{"welcome": False}, {"light": "on"}]
        assert types(lamp) == [None, None, "rpc", "hello?"]
        await page.until(lambda frame: frame.get("state") == {"light": "dim"})
        assert {"cf_agent_identity", "cf_agent_state", "cf_agent_chat_messages"} <= set(types(page))


async def test_a_connection_without_the_protocol_may_ask_and_is_told_of_a_mistake() -> None:
    async with serving(app_of()) as url, socket(url, "?kind=lamp") as lamp, connect(f"{url}/agents/chat/ann") as http:
        await lamp.ask("r1")
        await lamp.until(lambda frame: frame == {"light": "on"})
        await lamp.send(type="cf_agent_use_chat_request", id="r2", init={"method": "POST", "body": "nothing"})
        refused = await lamp.until(lambda frame: frame.get("id") == "r2")
        assert (refused["done"], refused["error"]) == (True, True)
        assert [message["role"] for message in (await http.get("get-messages")).json()] == ["user", "assistant"]


async def test_a_connection_whose_preparation_fails_gets_everything() -> None:
    async with serving(app_of()) as url, socket(url, "?kind=broken") as tab:
        assert (await tab.greeted())["name"] == "ann"
        await tab.until(lambda frame: frame == {"welcome": True})


async def test_calls_are_counted_per_minute_and_refused_with_how_long_to_wait() -> None:
    """P-60."""
    app, clock = app_of(limits=Limits(calls_per_minute=3)), ManualClock()
    app.clock = clock
    async with serving(app) as url, socket(url) as one, socket(url, name="bob") as other:
        for number in range(3):
            await one.send(type="rpc", id=str(number), method="dim", args=[])
            assert (await one.until(lambda frame, id=str(number): frame.get("id") == id))["success"]  # type: ignore[misc]
        clock.advance(20)
        await other.send(type="rpc", id="4", method="dim", args=[])
        refused = await other.until(lambda frame: frame.get("id") == "4")
        assert refused == {
            "type": "rpc",
            "id": "4",
            "success": False,
            "error": "unable to call dim; too many calls within a minute. Wait 41 s.",
        }
        async with connect(f"{url}/agents/chat/ann") as http:
            assert (await http.post("chat", json=question())).status_code == 200, "turns are counted apart"
        clock.advance(40.001)
        await other.send(type="rpc", id="5", method="dim", args=[])
        assert (await other.until(lambda frame: frame.get("id") == "5"))["success"]
