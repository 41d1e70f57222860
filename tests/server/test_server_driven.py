"""Turns that the agent starts by itself: from a call, a webhook, a schedule or the queue. Every tab sees them live."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest
from starlette.responses import JSONResponse

from everyword import AIChatAgent, Everyword, SaveMessagesResult, callable
from everyword.testing import Gate, ManualClock
from tests.server.kit import PATIENCE, connect, folded, serving, text_of
from tests.server.sockets import Socket, socket


class Chat(AIChatAgent):
    """Answers what it asks itself."""

    gate: ClassVar[Gate] = Gate()
    heard: ClassVar[list[Any]] = []

    async def on_chat_message(self, turn: Any) -> AsyncIterator[str]:
        yield "It is "
        await self.gate.wait()
        yield f"{self.messages[-1].text}!"

    async def ask(self, text: str, request_id: str | None = None) -> SaveMessagesResult:
        name = request_id or f"own-{len(self.messages)}"
        message = {"id": f"u-{name}", "role": "user", "parts": [{"type": "text", "text": text}]}
        return await self.save_messages([message], request_id=request_id)

    @callable
    async def by_call(self, text: str) -> str:
        return (await self.ask(text)).status

    async def by_job(self, text: str) -> None:
        self.heard.append((await self.ask(text)).status)

    async def on_request(self, request: Any) -> Any:
        delivery = await request.json()
        result = await self.ask(delivery["text"], delivery["id"])
        return JSONResponse({"status": result.status, "answer": result.message.text if result.message else None})

    @callable
    async def later(self, text: str) -> None:
        await self.schedule(60, "by_job", text)

    @callable
    async def soon(self, text: str) -> None:
        await self.queue("by_job", text)


@pytest.fixture(autouse=True)
def fresh() -> None:
    Chat.gate, Chat.heard = Gate(), []


class Stage:
    """A running app with a clock to turn, and its URL."""

    def __init__(self, app: Everyword, url: str, clock: ManualClock) -> None:
        self.app, self.url, self.clock = app, url, clock


def app_of(store: str = "memory:", clock: ManualClock | None = None) -> tuple[Everyword, ManualClock]:
    app, clock = Everyword([Chat], store=store), clock or ManualClock()
    app.grace, app.clock = 0.0, clock
    return app, clock


Start = Callable[[Stage, Socket], Any]


async def from_a_call(stage: Stage, tab: Socket) -> None:
    await tab.send(type="rpc", id="call", method="by_call", args=["noon"])


async def from_the_queue(stage: Stage, tab: Socket) -> None:
    await tab.send(type="rpc", id="call", method="soon", args=["noon"])


async def from_a_schedule(stage: Stage, tab: Socket) -> None:
    await tab.send(type="rpc", id="call", method="later", args=["noon"])
    await tab.until(lambda frame: frame.get("id") == "call")
    stage.clock.advance(60)


async def from_a_webhook(stage: Stage, tab: Socket) -> asyncio.Task[httpx.Response]:
    async def deliver() -> httpx.Response:
        async with connect(f"{stage.url}/agents/chat/ann") as client:
            return await client.post("hook", json={"id": "delivery-1", "text": "noon"})

    return asyncio.create_task(deliver())


def chunks_of(tab: Socket, request: str) -> list[dict[str, Any]]:
    frames = [f for f in tab.frames if f.get("id") == request and f.get("body") and not f.get("done")]
    return [json.loads(frame["body"]) for frame in frames]


def transcript(tab: Socket) -> list[tuple[str, str]]:
    last = [frame for frame in tab.frames if frame.get("type") == "cf_agent_chat_messages"][-1]
    return [(message["role"], text_of(message)) for message in last["messages"]]


@pytest.mark.parametrize("start", [from_a_call, from_the_queue, from_a_schedule, from_a_webhook])
async def test_every_tab_sees_a_turn_that_the_agent_started_live_and_a_late_one_joins_it(start: Start) -> None:
    app, clock = app_of()
    async with serving(app) as url, socket(url, "?_pk=one") as one, socket(url, "?_pk=two") as two:
        for tab in (one, two):
            await tab.greeted()
        started = await start(Stage(app, url, clock), one)
        for tab in (one, two):
            said = await tab.until(lambda frame: "It is " in str(frame.get("body")))
            assert said["done"] is False
        request = said["id"]
        async with socket(url, "?_pk=late") as late:
            offered = await late.until(lambda frame: frame["type"] == "cf_agent_stream_resuming")
            assert offered["id"] == request
            await late.send(type="cf_agent_stream_resume_ack", id=request)
            await late.until(lambda frame: frame.get("replayComplete") is True)
            Chat.gate.open()
            for tab in (one, two, late):
                end = await tab.ended(request)
                assert (end["outcome"], end.get("error")) == ("completed", None)
                assert text_of(folded(chunks_of(tab, request))) == "It is noon!"
                await tab.until(
                    lambda frame: frame.get("type") == "cf_agent_chat_messages" and len(frame["messages"]) == 2
                )
                assert transcript(tab) == [("user", "noon"), ("assistant", "It is noon!")]
        if started is not None:
            response = await started
            assert response.json() == {"status": "completed", "answer": "It is noon!"}
        elif start is from_a_call:
            assert (await one.until(lambda frame: frame.get("id") == "call"))["result"] == "completed"


async def test_a_webhook_that_is_delivered_twice_asks_once() -> None:
    app, _ = app_of()
    Chat.gate.open()
    async with serving(app) as url, connect(f"{url}/agents/chat/ann") as client:
        sent = [client.post("hook", json={"id": "delivery-1", "text": "noon"}) for _ in range(3)]
        answers = [response.json() for response in await asyncio.gather(*sent)]
        answers.append((await client.post("hook", json={"id": "delivery-1", "text": "noon"})).json())
        assert answers == [{"status": "completed", "answer": "It is noon!"}] * 4
        assert [message["role"] for message in (await client.get("get-messages")).json()] == ["user", "assistant"]


async def test_a_job_whose_process_stops_in_its_turn_asks_once_and_the_turn_goes_on(tmp_path: Path) -> None:
    store = str(tmp_path / "log.db")
    app, clock = app_of(store)
    async with serving(app) as url, socket(url) as tab:
        await from_a_schedule(Stage(app, url, clock), tab)
        await tab.until(lambda frame: "It is " in str(frame.get("body")))
    assert Chat.heard == []
    app, _ = app_of(store, clock)
    Chat.gate.open()
    async with serving(app) as url, connect(f"{url}/agents/chat/ann") as client:
        async with asyncio.timeout(PATIENCE):
            while not Chat.heard:  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(0)
        messages = (await client.get("get-messages")).json()
        assert [message["role"] for message in messages] == ["user", "assistant"]
        assert text_of(messages[1]).startswith("It is ")
        assert Chat.heard == ["completed"]
        assert await app.get(Chat, "ann").jobs.list(queued=False) == []


async def test_a_job_that_failed_and_is_tried_again_asks_again() -> None:
    class Stubborn(AIChatAgent):
        tries: ClassVar[int] = 0
        done: ClassVar[asyncio.Event] = asyncio.Event()

        async def on_chat_message(self, turn: Any) -> str:
            type(self).tries += 1
            if type(self).tries == 1:
                raise RuntimeError("not yet")
            return "now"

        async def work(self, payload: Any) -> None:
            result = await self.save_messages([{"id": f"u{self.tries}", "role": "user", "parts": []}])
            if result.status != "completed":
                raise RuntimeError(result.status)
            self.done.set()

    app, clock = Everyword([Stubborn], store="memory:"), ManualClock()
    app.clock = clock
    async with app:
        agent = app.get(Stubborn, "ann")
        await agent.queue("work")
        async with asyncio.timeout(PATIENCE):
            while not Stubborn.done.is_set():
                clock.advance(0.5)
                await asyncio.sleep(0)
        assert [message.text for message in await agent.get_messages()] == ["", "", "now"]
