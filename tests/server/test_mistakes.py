"""Mistakes in agents and pages: each is answered with a sentence that says what to do."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Any, ClassVar

import pytest

from everyword import Agent, AIChatAgent, Every, Everyword, callable
from everyword.errors import EverywordError, Rejected, UsageError
from tests.loaded_agents import loaded_agent
from tests.server.kit import serving
from tests.server.sockets import socket


class Chat(AIChatAgent):
    """Makes mistakes in its turns, on demand."""

    mistakes: ClassVar[list[EverywordError]] = []
    mistake: ClassVar[Callable[[Any], Any] | None] = None

    async def on_chat_message(self, turn: Any) -> str:
        mistake = type(self).mistake
        if mistake is not None:
            try:
                await mistake(self)
            except EverywordError as exc:
                self.mistakes.append(exc)
        return "answered all the same"

    @callable
    async def add(self, amount: int, by: str = "me") -> int:
        return amount

    async def hidden(self) -> None: ...

    async def work(self, payload: Any) -> None: ...


class Plain(Agent):
    """Has nothing for clients."""

    async def work(self, payload: Any) -> None: ...


@pytest.fixture(autouse=True)
def fresh() -> None:
    Chat.mistakes, Chat.mistake = [], None


def app_of() -> Everyword:
    app = Everyword([Chat, Plain], store="memory:")
    app.grace = 0.0
    return app


@pytest.mark.parametrize(
    ("method", "args", "told", "logged"),
    [
        ("nobody", [], "Method nobody does not exist", "clients may call: add"),
        ("hidden", [], "Method hidden is not callable", "put @callable_method on it if clients may"),
        ("destroy", [], "Method destroy is not callable", "put @callable_method on it if clients may"),
        ("add", [], "missing a required argument: 'amount'. It takes (amount: int, by: str = 'me') -> int", ""),
        ("add", [1, "x", 3], "too many positional arguments. It takes (amount: int", ""),
        ("add", ["one"], "unable to call add; amount: Input should be a valid integer", ""),
        ("add", [1, 2], "unable to call add; by: Input should be a valid string", ""),
    ],
)
async def test_a_wrong_call_is_answered_and_the_log_says_what_to_do(
    method: str, args: list[Any], told: str, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "everyword.agents")
    async with serving(app_of()) as url, socket(url) as tab:
        await tab.send(type="rpc", id="1", method=method, args=args)
        reply = await tab.until(lambda frame: frame.get("id") == "1")
        assert reply["success"] is False and told in reply["error"]
        assert logged in caplog.text
        await tab.send(type="rpc", id="2", method="add", args=[5])
        assert (await tab.until(lambda frame: frame.get("id") == "2"))["result"] == 5


@pytest.mark.parametrize(
    ("call", "why", "cure"),
    [
        (lambda a: a.queue("nobody"), "no public method 'nobody'", "Give the name of a method"),
        (lambda a: a.queue("_private"), "no public method '_private'", "Give the name of a method"),
        (lambda a: a.schedule(5, "nobody"), "no public method 'nobody'", "Give the name of a method"),
        (
            lambda a: a.schedule("every day", "work"),
            "not a cron expression of five fields",
            "such as '0 9 * * mon-fri'",
        ),
        (lambda a: a.schedule("0 0 31 2 *", "work"), "it never occurs", "day"),
        (lambda a: a.schedule("* * * * *", "work", zone="Mars"), "not a time zone", "such as 'Europe/Berlin'"),
        (lambda a: a.schedule(Every(), "work"), "every 0 seconds", "such as Every(minutes=5)"),
        (lambda a: a.schedule(datetime(2030, 1, 1), "work"), "without a time zone", "timezone.utc"),  # noqa: DTZ001
        (lambda a: a.run_fiber("work", a.work(None).close()), "as a fiber", "give a function"),
    ],
)
@pytest.mark.parametrize("cls", [Chat, Plain])
async def test_work_that_cannot_be_put_aside_is_refused_with_what_to_do(
    cls: type[Any], call: Callable[[Any], Any], why: str, cure: str
) -> None:
    async with app_of() as app:
        agent = await loaded_agent(app.get(cls, "ann"))
        with pytest.raises(UsageError) as refused:
            await call(agent)
        assert str(refused.value).startswith("unable to ")
        assert why in str(refused.value) and cure in str(refused.value)
        assert (await agent.jobs.list(queued=True), await agent.jobs.list(queued=False)) == ([], [])


@pytest.mark.parametrize(
    "mistake",
    [
        lambda agent: agent.save_messages([{"id": "u2", "role": "user", "parts": []}]),
        lambda agent: agent.save_messages(lambda messages: []),
        lambda agent: agent.continue_last_turn(),
        lambda agent: agent.run_fiber("more", lambda: agent.save_messages([{"id": "u2", "role": "user", "parts": []}])),
    ],
)
async def test_a_turn_inside_a_turn_is_refused_with_what_to_do(mistake: Callable[[Any], Any]) -> None:
    Chat.mistake = staticmethod(mistake)
    async with app_of() as app:
        chat = app.get(Chat, "ann")
        result = await chat.save_messages([{"id": "u1", "role": "user", "parts": []}])
        assert result.status == "completed"
        (refused,) = Chat.mistakes
        assert isinstance(refused, UsageError)
        assert str(refused) == (
            "unable to start a turn inside a turn; it would wait for itself. Use `on_chat_response`."
        )


async def test_an_id_of_a_fiber_that_was_used_is_refused_with_what_to_do() -> None:
    async with app_of() as app:
        agent = await loaded_agent(app.get(Plain, "ann"))
        await agent.run_fiber("once", lambda: 1, fiber_id="only")
        with pytest.raises(Rejected, match=r"unable to run fiber 'only' again; it has ended \(done\). Use another id"):
            await agent.run_fiber("once", lambda: 1, fiber_id="only")


async def test_an_agent_that_answers_nothing_says_what_to_define() -> None:
    class Mute(AIChatAgent):
        pass

    async with Everyword([Mute], store="memory:") as app:
        result = await app.get(Mute, "ann").save_messages([{"id": "u1", "role": "user", "parts": []}])
        assert result.status == "error"
        assert result.error == "Something went wrong while answering. Please try again."


@pytest.mark.parametrize("item", [None, 7, {"type": "hologram"}])
async def test_a_wrong_item_ends_the_answer_with_a_safe_text_and_the_log_says_what_to_do(
    item: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Any) -> Any:
            yield "said "
            yield item

    app = Everyword([Chat], store="memory:")
    app.grace = 0.0
    async with serving(app) as url, socket(url) as tab:
        await tab.ask("r1")
        ending = await tab.ended("r1")
        assert ending["error"] is True
        assert ending["body"] == "Something went wrong while answering. Please try again."
    assert "Chat.on_chat_message yielded" in caplog.text and "It may yield str" in caplog.text


@pytest.mark.parametrize(
    ("agents", "why"),
    [
        (Chat, r"^unable to serve Chat; give a list of classes: Everyword\(\[Chat\]\)$"),
        ("Chat", r"^unable to serve 'Chat'; give a list of agent classes: Everyword\(\[Chat\]\)$"),
        (None, r"^unable to serve None; give a list"),
        ({"chat": Chat}, r"^unable to serve 'chat'; it is str, not an agent class"),
        (["Chat"], r"^unable to serve 'Chat'; it is str, not an agent class"),
        ([Every], r"^unable to serve Every; it is no subclass of Agent, AIChatAgent or Think"),
        ([Chat, Every(1)], r"^unable to serve Every\(.*\); it is Every, not an agent class"),
    ],
)
def test_an_app_of_something_else_than_classes_says_what_to_write(agents: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        Everyword(agents, store="memory:")


def test_an_app_of_an_agent_says_that_it_takes_classes() -> None:
    with pytest.raises(UsageError, match=r"it is Plain, not an agent class. Give the class itself: Plain$"):
        Everyword([Plain(None)], store="memory:")  # type: ignore[arg-type, list-item]


def test_any_collection_of_classes_is_served() -> None:
    collections: list[Any] = [(Chat, Plain), {Chat, Plain}, iter([Chat, Plain])]
    for agents in collections:
        assert set(Everyword(agents, store="memory:").classes) == {"chat", "plain"}


@pytest.mark.parametrize("path", [None, 7, b"/agents"])
def test_a_base_path_that_is_no_text_is_refused(path: Any) -> None:
    with pytest.raises(UsageError, match=r"unable to serve agents at .*; base_path is text, such as '/agents'"):
        Everyword([Chat], store="memory:", base_path=path)
