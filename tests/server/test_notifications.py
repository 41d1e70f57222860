"""Notifications: what is told to whom, when, and how often, by webhooks and by the app's own function."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import httpx
import pytest
from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse, Response

from everyword import (
    AIChatAgent,
    Everyword,
    Notification,
    NotificationOptions,
    Principal,
    Webhook,
    tool,
)
from everyword.agents import callable_method
from everyword.core.follow_ups import NOTIFICATION_JOB
from everyword.errors import UsageError
from everyword.events import JobAdded, JobEnded
from everyword.log.base import LogStore
from everyword.log.memory import MemoryLog
from everyword.observe.api import Happened
from everyword.server.notification_jobs import ATTEMPTS, DELIVERY_JOB, DOUBTFUL_ATTEMPTS, pause_after
from everyword.testing import ManualClock
from tests.server.kit import PATIENCE, connect, serving
from tests.server.receivers import SECRET, Receiver
from tests.server.sockets import socket

ANN = Principal("ann", name="Ann")


class Chat(AIChatAgent):
    async def on_chat_message(self, turn: Any) -> AsyncIterator[Any]:
        if self.messages[-1].text == "fail":
            raise RuntimeError("the password is hunter2")
        yield f"You said: {self.messages[-1].text}"


class Till(AIChatAgent):
    @tool(needs_approval=True, approval_summary="Pay now", approval_risk="high", approval_timeout=3600)
    async def pay(self, amount: int) -> str:
        return f"paid {amount}"

    async def on_chat_message(self, turn: Any) -> AsyncIterator[Any]:
        async for step in turn.steps():
            call = {"type": "tool-input-available", "toolCallId": "k1", "toolName": "pay", "input": {"amount": 5}}
            async for chunk in step.run([call] if step.number == 1 and not turn.continuation else ["done"]):
                yield chunk


class Office(AIChatAgent):
    sub_agent_classes = (Till,)

    async def on_chat_message(self, turn: Any) -> AsyncIterator[str]:
        yield "hello"

    @callable_method
    async def let_pay(self) -> None:
        await (await self.sub_agent(Till, "one")).save_messages("pay")


def by_query(connection: HTTPConnection) -> Principal | None:
    who = connection.headers.get("x-user") or connection.query_params.get("user")
    return Principal(who, name=who.title()) if who else None


class World:
    """An app with a clock of its own, and the ends of its jobs."""

    def __init__(self, app: Everyword, clock: ManualClock, client: httpx.AsyncClient, url: str) -> None:
        self.app, self.clock, self.client, self.url = app, clock, client, url
        self.callbacks: dict[str, str] = {}
        self.ends: list[tuple[str, JobEnded]] = []
        """(callback, how a run of the job ended)"""
        self._changed = asyncio.Condition()

    async def hear(self, happened: Happened) -> None:
        event = happened.event
        if isinstance(event, JobAdded):
            self.callbacks[event.job] = event.callback
        if isinstance(event, JobEnded):
            async with self._changed:
                self.ends.append((self.callbacks[event.job], event))
                self._changed.notify_all()

    async def ended(self, callback: str, outcome: str, count: int = 1) -> JobEnded:
        """Wait until so many runs have ended like this; return the last end."""

        def found() -> list[JobEnded]:
            return [end for each, end in self.ends if (each, end.outcome) == (callback, outcome)]

        async with asyncio.timeout(PATIENCE), self._changed:
            await self._changed.wait_for(lambda: len(found()) >= count)
        return found()[-1]

    async def say(self, text: str, cls: Any = Chat, name: str = "room") -> None:
        await self.app.get(cls, name).for_principal(ANN).save_messages(text)

    async def settle(self, count: int = 1) -> None:
        """Let the delay pass, and wait until so many looks at who is connected are done."""
        self.clock.advance(5)
        await self.ended(NOTIFICATION_JOB, "done", count)


@asynccontextmanager
async def running(
    options: NotificationOptions | None, clock: ManualClock | None = None, store: LogStore | str = "memory:"
) -> AsyncIterator[World]:
    world: World

    async def hear(happened: Happened) -> None:
        await world.hear(happened)

    app = Everyword(
        [Chat, Till, Office],
        store=store,
        authenticate=by_query,
        authorize=lambda principal, action, kind, name: True,
        notifications=options,
        on_event=hear,
    )
    app.clock, app.grace = clock or ManualClock(), 0.0
    async with asyncio.timeout(PATIENCE), serving(app) as url, connect(url) as client:
        world = World(app, app.clock, client, url)
        await app.start()
        yield world


def to(*receivers: Receiver, **options: Any) -> NotificationOptions:
    hooks = [Webhook(each.url, SECRET, name=str(number)) for number, each in enumerate(receivers)]
    return NotificationOptions(webhooks=hooks, **options)


# -- what is told --------------------------------------------------------------------------------------------------


async def test_a_turn_that_ends_while_no_one_watches_is_posted_and_signed() -> None:
    async with Receiver() as receiver, running(to(receiver)) as world:
        await world.say("hello")
        assert receiver.all == []
        await world.settle()
        (got,) = await receiver.until(1)
        assert got.is_signed_by()
        said = got.said
        assert (said["type"], said["id"]) == ("turn.ended", got.id)
        assert said["timestamp"] == "2023-11-14T22:13:20.000Z"
        data = said["data"]
        assert (data["kind"], data["name"], data["title"], data["owner"]) == ("chat", "room", "hello", "ann")
        assert (data["status"], data["preview"], data["approval"]) == ("completed", "You said: hello", None)
        assert (data["participants"], data["connected"]) == ([{"id": "ann", "name": "Ann"}], [])
        assert got.headers["webhook-timestamp"] == str(world.clock.now() // 1000)
        await world.ended(DELIVERY_JOB, "done")


async def test_the_apps_own_function_is_told_too_and_again_after_it_raised() -> None:
    told: list[Notification] = []

    async def notify(notification: Notification) -> None:
        told.append(notification)
        if len(told) == 1:
            raise RuntimeError("no mail today")

    async with Receiver() as receiver, running(to(receiver, notify=notify)) as world:
        await world.say("hello")
        await world.settle()
        await world.ended(DELIVERY_JOB, "retry")
        world.clock.advance(pause_after(1) / 1000)
        await world.ended(DELIVERY_JOB, "done", 2)
        first, again = told
        assert first == again
        assert (first.kind, first.name, first.title, first.preview) == ("chat", "room", "hello", "You said: hello")
        assert first.status == "completed"
        assert [each.id for each in await receiver.until(1)] == [first.id]  # the webhook is not repeated with it


async def test_a_failed_turn_is_told_without_the_text_of_its_exception() -> None:
    async with Receiver() as receiver, running(to(receiver)) as world:
        await world.say("fail")
        await world.settle()
        (got,) = await receiver.until(1)
        assert got.said["data"]["status"] == "error"
        assert b"hunter2" not in got.body


async def test_texts_are_bounded_and_can_be_left_out() -> None:
    async with Receiver() as receiver, running(to(receiver)) as world:
        await world.say("x" * 5000)
        await world.settle()
        (got,) = await receiver.until(1)
        assert len(got.said["data"]["preview"]) == 200
        assert len(got.body) < 1500
    async with Receiver() as receiver, running(to(receiver, include_texts=False)) as world:
        await world.say("secret")
        await world.say("pay", Till)
        await world.settle(2)
        both = await receiver.until(2)
        assert not any(b"secret" in each.body or b"Pay now" in each.body for each in both)
        assert {each.said["data"]["approval"] is None for each in both} == {True, False}


async def test_an_approval_is_told_once_with_the_page_that_answers_it() -> None:
    async with Receiver() as receiver, running(to(receiver, public_url="https://chat.example.com/ai/")) as world:
        await world.say("pay", Till)
        await world.settle()
        (got,) = await receiver.until(1)
        assert got.said["type"] == "approval.requested"
        data, (waiting,) = got.said["data"], (await world.app.approvals.list()).approvals
        assert (data["status"], data["preview"], data["name"]) == (None, None, "room")
        assert data["approval"] == {
            "id": waiting.id,
            "tool": "pay",
            "summary": "Pay now",
            "risk": "high",
            "expiresAt": "2023-11-14T23:13:20.000Z",
            "url": f"https://chat.example.com/ai/approvals/{waiting.id}",
        }
        page = await world.client.get(f"/approvals/{waiting.id}", headers={"x-user": "ann", "accept": "text/html"})
        assert (page.status_code, "Pay now" in page.text) == (200, True)
        await world.app.approvals.answer(waiting.id, True, by=ANN)
        await world.ended(NOTIFICATION_JOB, "done")
        world.clock.advance(0.05)  # the continuation begins
        while not any(end.job.startswith("notification-2") for _, end in world.ends):
            world.clock.advance(5)
            await asyncio.sleep(0)
        _, after = await receiver.until(2)
        assert (after.said["type"], after.said["data"]["preview"]) == ("turn.ended", "done")


async def test_an_approval_that_was_answered_meanwhile_is_not_told() -> None:
    async with Receiver() as receiver, running(to(receiver)) as world:
        await world.say("pay", Till)
        (waiting,) = (await world.app.approvals.list()).approvals
        await world.app.approvals.answer(waiting.id, False, by=ANN)
        await world.settle()
        await world.say("hello")
        await world.settle(2)
        assert "approval.requested" not in {each.said["type"] for each in await receiver.until(1)}


async def test_an_approval_of_a_sub_agent_is_told_with_the_conversation_above_it() -> None:
    async with Receiver() as receiver, running(to(receiver)) as world:
        await world.say("hello", Office)
        await world.settle()
        await world.app.get(Office, "room").let_pay()
        await world.settle(2)
        first, second = await receiver.until(2)
        assert first.said["type"] == "turn.ended"
        data = second.said["data"]
        assert (second.said["type"], data["kind"], data["name"]) == ("approval.requested", "office", "room")
        assert (data["title"], data["owner"], data["approval"]["tool"]) == ("hello", "ann", "pay")


# -- who watches ---------------------------------------------------------------------------------------------------


async def test_nothing_is_told_while_a_principal_is_connected() -> None:
    async with Receiver() as receiver, running(to(receiver)) as world:
        async with socket(world.url, "?user=bob", "room") as tab:
            await tab.greeted()
            await world.say("hello")
            await world.settle()
        await world.say("again", name="other")
        await world.settle(2)
        (got,) = await receiver.until(1)
        assert got.said["data"]["name"] == "other"


async def test_with_even_if_watched_the_connected_principals_are_named() -> None:
    async with Receiver() as receiver, running(to(receiver, even_if_watched=True)) as world:
        async with socket(world.url, "?user=bob", "room") as tab:
            await tab.greeted()
            await world.say("hello")
            await world.settle()
            (got,) = await receiver.until(1)
            assert got.said["data"]["connected"] == [{"id": "bob", "name": "Bob"}]


async def test_a_page_that_is_reloaded_counts_as_watching() -> None:
    async with Receiver() as receiver, running(to(receiver)) as world:
        await world.say("hello")  # no one is connected at this moment
        async with socket(world.url, "?user=ann", "room") as tab:
            await tab.greeted()
            await world.settle()
        assert [end.outcome for each, end in world.ends if each == NOTIFICATION_JOB] == ["done"]
        assert DELIVERY_JOB not in world.callbacks.values()
        assert receiver.all == []


async def test_after_a_restart_clients_have_time_to_come_back() -> None:
    clock, store = ManualClock(), MemoryLog()
    async with Receiver() as receiver:
        async with running(to(receiver), clock, store) as world:
            await world.say("hello")
        clock.advance(60)
        async with running(to(receiver), clock, store) as world:
            world.callbacks["notification-1"] = NOTIFICATION_JOB  # added by the process before
            end = await world.ended(NOTIFICATION_JOB, "stopped")
            assert end.due == clock.now() + 5000
            async with socket(world.url, "?user=ann", "room") as tab:
                await tab.greeted()
                await world.settle()
        assert receiver.all == []
        async with running(to(receiver), clock, store) as world:
            await world.say("again")
            await world.settle()
            await receiver.until(1)


# -- receivers that are down or refuse -------------------------------------------------------------------------------


async def test_a_receiver_that_is_down_for_an_hour_still_gets_it_and_others_only_once() -> None:
    down = Receiver()
    async with Receiver() as up, running(to(down, up)) as world:
        await world.say("hello")
        await world.settle()
        await up.until(1)
        passed = attempts = 0
        while passed < 60 * 60 * 1000:
            attempts += 1
            end = await world.ended(DELIVERY_JOB, "retry", attempts)
            assert end.due is not None
            assert "could not be reached" in (end.detail or "")
            passed += end.due - world.clock.now()
            world.clock.advance((end.due - world.clock.now()) / 1000)
        assert attempts < 12
        await world.ended(DELIVERY_JOB, "retry", attempts + 1)
        async with down:
            world.clock.advance(pause_after(attempts + 1) / 1000)
            (got,) = await down.until(1)
            await world.ended(DELIVERY_JOB, "done", 2)
        assert got.is_signed_by()
        assert (got.id, got.body) == (up.all[0].id, up.all[0].body)
        assert len(up.all) == 1


async def test_a_repeat_has_the_same_id_and_body_and_a_new_time() -> None:
    async with Receiver() as receiver, running(to(receiver)) as world:
        receiver.answers.append(Response(status_code=500))
        await world.say("hello")
        await world.settle()
        await world.ended(DELIVERY_JOB, "retry")
        world.clock.advance(pause_after(1) / 1000)
        first, again = await receiver.until(2)
        assert (first.id, first.body) == (again.id, again.body)
        assert int(again.headers["webhook-timestamp"]) == int(first.headers["webhook-timestamp"]) + 5
        assert again.is_signed_by()


async def test_a_receiver_that_is_gone_is_not_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    async with Receiver() as receiver, running(to(receiver)) as world:
        receiver.answers.append(Response(status_code=410))
        await world.say("hello")
        with caplog.at_level(logging.ERROR, "everyword.runtime"):
            await world.settle()
            end = await world.ended(DELIVERY_JOB, "failed")
        assert end.due is None
        assert "given up; unable to deliver to the webhook '0'; it answered 410" in caplog.text
        assert "hidden" not in caplog.text
        assert len(receiver.all) == 1


@pytest.mark.parametrize(
    ("answer", "attempts"),
    [
        (Response(status_code=400), DOUBTFUL_ATTEMPTS),
        (Response(status_code=404), DOUBTFUL_ATTEMPTS),
        (RedirectResponse("/hook"), DOUBTFUL_ATTEMPTS),
        (Response(status_code=429), ATTEMPTS),
        (Response(status_code=503), ATTEMPTS),
    ],
)
async def test_a_refusal_is_given_up_sooner_than_a_failure(answer: Response, attempts: int) -> None:
    async with Receiver() as receiver, running(to(receiver)) as world:
        receiver.answers.extend([answer] * attempts)
        await world.say("hello")
        await world.settle()
        for attempt in range(1, attempts):
            await world.ended(DELIVERY_JOB, "retry", attempt)
            world.clock.advance(pause_after(attempt) / 1000)
        await world.ended(DELIVERY_JOB, "failed")
        assert len(receiver.all) == attempts
        assert {each.id for each in receiver.all} == {receiver.all[0].id}


async def test_a_receiver_may_ask_for_a_longer_pause() -> None:
    async with Receiver() as receiver, running(to(receiver)) as world:
        receiver.answers.append(Response(status_code=429, headers={"retry-after": "600"}))
        receiver.answers.append(Response(status_code=503, headers={"retry-after": "999999999"}))
        await world.say("hello")
        await world.settle()
        first = await world.ended(DELIVERY_JOB, "retry")
        assert first.due == world.clock.now() + 600_000
        world.clock.advance(600)
        second = await world.ended(DELIVERY_JOB, "retry", 2)
        assert second.due == world.clock.now() + 3_600_000


async def test_a_long_answer_is_not_read_to_its_end() -> None:
    async with Receiver() as receiver, running(to(receiver)) as world:
        receiver.answers.append(Response(b"x" * 10_000_000))
        await world.say("hello")
        await world.settle()
        await world.ended(DELIVERY_JOB, "done")
        assert len(receiver.all) == 1


async def test_a_webhook_gets_only_the_events_that_it_asks_for() -> None:
    async with Receiver() as receiver:
        hook = Webhook(receiver.url, SECRET, events=["approval.requested"])
        async with running(NotificationOptions(webhooks=[hook])) as world:
            await world.say("hello")
            await world.say("pay", Till)
            await world.settle(2)
            (got,) = await receiver.until(1)
            assert got.said["type"] == "approval.requested"


async def test_the_framework_s_jobs_are_not_among_those_of_the_agent() -> None:
    async with Receiver() as receiver, running(to(receiver)) as world:
        await world.say("hello")
        agent = world.app._directory.peek(next(iter(world.app._directory._loaded))).owner  # type: ignore[union-attr]
        assert await agent.jobs.list() == []  # type: ignore[attr-defined]
        assert await agent.jobs.cancel_all() == 0  # type: ignore[attr-defined]
        await world.settle()
        await receiver.until(1)


# -- mistakes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: Webhook("ftp://example.com", SECRET),
        lambda: Webhook("https://", SECRET),
        lambda: Webhook("https://example.com", "whsec_c2hvcnQ="),
        lambda: Webhook("https://example.com", "no secret"),
        lambda: Webhook("https://example.com", []),
        lambda: Webhook("https://example.com", SECRET, events=["turn.begun"]),  # type: ignore[list-item]
        NotificationOptions,
        lambda: NotificationOptions(notify=print),  # type: ignore[arg-type]
        lambda: NotificationOptions(webhooks=[Webhook("https://a.com/1", SECRET), Webhook("https://a.com/2", SECRET)]),
        lambda: NotificationOptions(webhooks=[Webhook("https://a.com", SECRET)], delay=timedelta(seconds=-1)),
        lambda: NotificationOptions(webhooks=[Webhook("https://a.com", SECRET)], public_url="example.com"),
    ],
)
def test_settings_that_cannot_work_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(UsageError, match="unable to"):
        make()


def test_a_webhook_shows_neither_its_secret_nor_its_address() -> None:
    shown = repr(Webhook("https://hooks.example.com/very/hidden", SECRET))
    assert "hidden" not in shown
    assert SECRET not in shown
    assert "hooks.example.com" in shown


async def test_without_httpx_the_app_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "httpx", None)
    options = NotificationOptions(webhooks=[Webhook("https://example.com", SECRET)])
    with pytest.raises(UsageError, match="pip install httpx"):
        await Everyword([Chat], store="memory:", notifications=options).start()
