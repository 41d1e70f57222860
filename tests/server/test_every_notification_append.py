"""The process dies at every append around a notification: it is told at least once, and repeats have the same id."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

import pytest

from everyword import AIChatAgent, Everyword, Notification, NotificationOptions, Webhook, tool
from everyword.events import ApprovalRequested, JobAdded, JobEnded, TurnAccepted, TurnEnded, decode_event
from everyword.ids import AgentId
from everyword.log.base import LogStore
from everyword.log.memory import MemoryLog
from everyword.log.sqlite.store import SqliteLog
from everyword.server.notification_jobs import DELIVERY_JOB
from everyword.testing import CrashingLog, ManualClock
from tests.crash.proofs import check_log, read_all
from tests.crash.world import ROUNDS, Crash
from tests.runtime.kit import kill_everything
from tests.server.receivers import SECRET
from tests.timeouts import PATIENCE

AGENT = AgentId("till/room")
TICK = 25
"""How often other tasks run before the clock moves on."""

MOST = 200
"""More appends than the script makes."""


class Till(AIChatAgent):
    @tool(needs_approval=True)
    async def pay(self) -> str:
        return "paid"

    async def on_chat_message(self, turn: Any) -> AsyncIterator[Any]:
        async for step in turn.steps():
            wants = step.number == 1 and not turn.continuation and self.messages[-1].text == "pay"
            call = {"type": "tool-input-available", "toolCallId": "k1", "toolName": "pay", "input": {}}
            async for chunk in step.run([call] if wants else ["done"]):
                yield chunk


class World:
    """What outlives every process: the clock, and what receivers were told."""

    def __init__(self, url: str) -> None:
        self.url, self.clock = url, ManualClock()
        self.hooked: list[Notification] = []
        self.processes = 0

    async def notify(self, notification: Notification) -> None:
        self.hooked.append(notification)

    def app(self, store: LogStore) -> Everyword:
        options = NotificationOptions(webhooks=[Webhook(self.url, SECRET)], notify=self.notify)
        app = Everyword([Till], store=store, notifications=options)
        app.clock, app.grace = self.clock, 0.0
        self.running = app
        return app

    async def bury(self) -> None:
        """Cancel what runs, and close the sockets, as the system does when a process is killed."""
        await kill_everything()
        await self.running._notification_jobs.aclose()


@contextmanager
def receiving() -> Iterator[tuple[str, list[str]]]:
    """Run a server in a thread of its own, which survives the processes; yield its URL and the ids that it was sent."""
    ids: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            ids.append(self.headers["webhook-id"])
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args: Any) -> None:
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/", ids
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


async def events(store: LogStore) -> list[Any]:
    return [decode_event(stored.body) for stored in await read_all(store, AGENT)]


def is_over(log: list[Any]) -> bool:
    """Tell whether the answer and the request for an approval were told to both receivers."""
    deliveries = {event.job for event in log if isinstance(event, JobAdded) and event.callback == DELIVERY_JOB}
    done = {event.job for event in log if isinstance(event, JobEnded) and event.outcome == "done"}
    return len(done & deliveries) == 4


async def live(world: World, store: LogStore, kept: LogStore) -> None:
    async with world.app(store) as app:
        chat = app.get(Till, "room")
        while not is_over(log := await events(kept)):
            asked = sum(isinstance(event, TurnAccepted) for event in log)
            ended = sum(isinstance(event, TurnEnded) for event in log)
            if asked == ended < 2:
                await chat.save_messages("hello" if asked == 0 else "pay")
            for _ in range(TICK):
                await asyncio.sleep(0)
            world.clock.advance(1)


async def play(world: World, store: Callable[[], LogStore], crash: Crash | None) -> list[Any]:
    """Play the script, through a death if `crash` says so; return the log."""
    for each in (crash, None) if crash is not None else (None,):
        kept = store()
        log = CrashingLog(kept) if each is None else CrashingLog(kept, each.at, each.when)
        world.processes += 1
        life = asyncio.create_task(live(world, log, kept))
        death = asyncio.create_task(log.crashed.wait())
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait([life, death], return_when=asyncio.FIRST_COMPLETED)
        if life.done():
            death.cancel()
            await life
            break
        for _ in range(ROUNDS):
            await asyncio.sleep(0)
        await world.bury()
        await kept.aclose()
    last = store()
    await last.open()
    stored = await read_all(last, AGENT)
    check_log(stored)
    await last.aclose()
    return [decode_event(each.body) for each in stored]


def check(world: World, ids: list[str], log: list[Any]) -> None:
    assert is_over(log)
    assert any(isinstance(event, ApprovalRequested) for event in log)
    hooked = [each.id for each in world.hooked]
    assert len(set(ids)) == 2, "both are told, and repeats have the same id"
    assert set(hooked) == set(ids)
    for told in (ids, hooked):
        assert max(Counter(told).values()) <= world.processes, "a death repeats a call at most once"
    by_id = {each.id: each for each in world.hooked}
    assert all(each == by_id[each.id] for each in world.hooked), "a repeat says the same"
    assert {each.type for each in world.hooked} == {"turn.ended", "approval.requested"}


@pytest.mark.parametrize("when", ["before", "after"])
async def test_dying_at_any_append_loses_no_notification(when: Literal["before", "after"]) -> None:
    for at in range(1, MOST):
        store = MemoryLog()
        with receiving() as (url, ids):
            world = World(url)
            check(world, ids, await play(world, lambda: store, Crash(at, when)))  # noqa: B023
        if world.processes == 1:  # the script has no more appends
            assert at > 15
            return
    raise AssertionError("the script never ends")


async def test_dying_over_a_file_loses_no_notification(tmp_path: Any) -> None:
    for at in range(3, 16, 4):
        with receiving() as (url, ids):
            world = World(url)
            check(world, ids, await play(world, lambda: SqliteLog(tmp_path / f"{at}.db"), Crash(at, "after")))  # noqa: B023
        assert world.processes == 2, f"append {at} was never reached"
