"""Code that blocks the event loop: found while it does, named in the log, counted."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from prometheus_client import CollectorRegistry
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from everyword import AIChatAgent, Everyword, Think, Turn, tool
from everyword.observe import LoopBlocked, Metrics, Observer
from everyword.server.loop_watchdog import LoopWatchdog, hear_blocks
from everyword.testing import Call, LocalServer, ScriptedModel
from tests.timeouts import PATIENCE

AFTER = 0.05
FOUND, OVER = "the event loop has been blocked for", "the event loop runs again"


class Reports(logging.Handler):
    """What the watchdog has logged; blocked code waits here until it is found."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        self._changed = threading.Condition()

    def emit(self, record: logging.LogRecord) -> None:
        with self._changed:
            self.records.append(record)
            self._changed.notify_all()

    def find(self, text: str, method: str) -> logging.LogRecord | None:
        for record in self.records:
            if record.getMessage().startswith(text) and str(vars(record)["method"]).endswith(method):
                return record
        return None

    def wait(self, text: str, method: str) -> logging.LogRecord:
        """Wait for a line about a method, without giving the event loop back."""
        with self._changed:
            found = self._changed.wait_for(lambda: self.find(text, method), PATIENCE)
        assert found, [record.getMessage() for record in self.records]
        return found


@contextmanager
def watching(**options: Any) -> Iterator[tuple[LoopWatchdog, Reports]]:
    reports, log = Reports(), logging.getLogger("everyword.server")
    watchdog = LoopWatchdog(after=AFTER, every=0.001, **options)
    log.addHandler(reports)
    watchdog.start()
    try:
        yield watchdog, reports
    finally:
        watchdog.stop()
        log.removeHandler(reports)


reports: Reports


class Chat(AIChatAgent):
    async def on_chat_message(self, turn: Turn) -> AsyncIterator[str]:
        reports.wait(FOUND, "Chat.on_chat_message")
        yield "done"

    async def on_request(self, request: Request) -> Response:
        reports.wait(FOUND, "Chat.on_request")
        return PlainTextResponse("done")


class Shop(Think):
    model = ScriptedModel([Call("pay", {}), "Paid."])

    @tool
    async def pay(self) -> str:
        reports.wait(FOUND, "Shop.pay")
        return "paid"


async def found_at(text: str, method: str) -> str:
    """Return a line of the log that is there, or comes, as soon as the loop runs again."""
    return (await asyncio.to_thread(reports.wait, text, method)).getMessage()


async def test_an_answer_a_request_and_a_tool_that_block_are_named_with_their_agent() -> None:
    global reports
    app = Everyword([Chat, Shop], store="memory:")
    with watching() as (_, reports):
        async with LocalServer(app) as server:
            async with server.client(Chat, "ann") as chat:
                await chat.send("hi")
            assert (await server.http(Chat, "ann").get("own")).text == "done"
            async with server.client(Shop, "bob") as shop:
                await shop.send("pay")
        line = await found_at(FOUND, "Chat.on_chat_message")
        assert re.fullmatch(
            r"the event loop has been blocked for \d+\.\d s by Chat\.on_chat_message of 'chat/ann' "
            r"\(tests/server/test_loop_watchdog\.py:\d+ in Reports\.wait\)\. "
            r"Nothing else runs meanwhile\. Use an async client.*",
            line,
        )
        over = await found_at(OVER, "Chat.on_chat_message")
        assert re.match(r"the event loop runs again; it was blocked for \d+\.\d s by Chat\.on_chat_message of", over)
        assert "by Chat.on_request of 'chat/ann'" in await found_at(OVER, "Chat.on_request")
        assert "by Shop.pay of 'shop/bob'" in await found_at(OVER, "Shop.pay")


async def test_the_line_has_its_facts_as_fields_and_the_whole_duration() -> None:
    now = [100.0]

    def blocks() -> None:
        found = seen.wait(FOUND, "blocks")
        assert vars(found)["seconds"] == 0.0
        now[0] += 5

    with watching(now=lambda: now[0]) as (_, seen):
        await answered()
        asyncio.get_running_loop().call_soon(blocks)
        over = await asyncio.to_thread(seen.wait, OVER, "blocks")
    facts = vars(over)
    assert (facts["agent"], facts["seconds"]) == (None, 5.0)
    assert facts["method"].endswith("<locals>.blocks") and "test_loop_watchdog.py:" in facts["place"]


async def answered() -> None:
    """Wait until a watchdog that was just started has had an answer: it measures the loop's own frames by it."""
    for _ in range(3):
        await asyncio.to_thread(lambda: None)


async def test_a_loop_that_waits_for_the_processor_is_not_reported() -> None:
    with watching() as (watchdog, _):
        await answered()
        loop = asyncio.get_running_loop()
        assert watchdog.look(loop) is not None  # this very test

        def idle() -> bool:
            return watchdog.look(loop) is None

        while not await asyncio.to_thread(idle):
            pass


async def test_observers_hear_of_a_block_and_metrics_count_it() -> None:
    global reports
    heard: asyncio.Queue[LoopBlocked] = asyncio.Queue()

    class Hearing(Observer):
        def loop_blocked(self, blocked: LoopBlocked) -> None:
            if blocked.method == "Chat.on_chat_message":
                heard.put_nowait(blocked)

    class Broken(Observer):
        def loop_blocked(self, blocked: LoopBlocked) -> None:
            raise ValueError("no")

    registry = CollectorRegistry()
    app = Everyword([Chat], store="memory:", observe=[Broken(), Metrics(registry), Hearing()])
    with watching() as (_, reports):
        async with LocalServer(app) as server, server.client(Chat, "ann") as chat:
            await chat.send("hi")
            blocked = await heard.get()
    assert (blocked.agent, blocked.method) == ("chat/ann", "Chat.on_chat_message")
    assert blocked.place.startswith("tests/server/test_loop_watchdog.py:") and blocked.seconds >= AFTER
    assert registry.get_sample_value("everyword_loop_blocked_seconds_count", {"kind": "chat"})


async def test_an_app_that_has_stopped_hears_no_more() -> None:
    heard: list[LoopBlocked] = []
    told: asyncio.Queue[LoopBlocked] = asyncio.Queue()

    class Hearing(Observer):
        def loop_blocked(self, blocked: LoopBlocked) -> None:
            heard.append(blocked)

    async with Everyword([Chat], store="memory:", observe=[Hearing()]):
        pass
    unhear = hear_blocks(told.put_nowait)
    with watching() as (_, seen):
        await answered()
        asyncio.get_running_loop().call_soon(_until_found(seen))
        await told.get()
    unhear()
    assert heard == []


def _until_found(seen: Reports) -> Callable[[], Any]:
    def blocks() -> None:
        seen.wait(FOUND, "blocks")

    return blocks
