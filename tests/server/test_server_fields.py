"""Author and time of messages, on every way into the server (R-37)."""

from __future__ import annotations

from typing import Any

from starlette.requests import HTTPConnection

from everyword import AIChatAgent, Everyword, Principal, Turn, callable_method, convert_to_model_messages
from everyword.messages.message import UIMessage
from everyword.messages.server_fields import SERVER_FIELDS, Author
from tests.server.kit import ask, bare, chat, connect, question, serving, user
from tests.server.sockets import socket

NAMES = {"ann": "Ann", "bob": None}
FORGED = {SERVER_FIELDS: {"time": 1, "author": {"id": "root"}}}


class Desk(AIChatAgent):
    kind = "chat"
    read: list[Any] = []  # noqa: RUF012 - of one test's class

    async def on_chat_message(self, turn: Turn) -> Any:
        self.read.append(convert_to_model_messages(self.messages))
        yield "Hello."

    @callable_method
    async def remind(self) -> None:
        await self.save_messages("Remember me.")


def by_query(connection: HTTPConnection) -> Principal:
    who = connection.query_params["user"]
    return Principal(who, name=NAMES[who], claims={"secret": 1})


def desk() -> Everyword:
    agent = type("Desk", (Desk,), {"read": [], "kind": "chat"})
    return chat(agent, authenticate=by_query, authorize=lambda *asked: True)


async def stored(url: str) -> list[UIMessage]:
    async with connect(f"{url}/agents/chat/ann") as http:
        messages = (await http.get("get-messages", params={"user": "bob"})).json()
    return [UIMessage.from_dict(message) for message in messages]


async def test_a_question_on_a_socket_comes_back_with_its_author_and_time() -> None:
    async with serving(desk()) as url, socket(url, "?user=ann") as client:
        await client.ask("r1")
        await client.ended("r1")
        asked, answer = await stored(url)
        frame = next(frame for frame in client.frames if "u-r1" in str(frame))
        told = frame["messages"][0] if frame["type"] == "cf_agent_chat_messages" else frame["message"]
        assert told == asked.to_dict()
        assert (asked.author, answer.author) == (Author("ann", "Ann"), None)
        assert asked.time is not None and answer.time is not None and asked.time <= answer.time
        assert "secret" not in str(asked.metadata), "claims stay on the server"


async def test_a_posted_question_and_one_of_the_agents_own_code_have_their_author() -> None:
    async with serving(desk()) as url:
        async with connect(f"{url}/agents/chat/ann", params={"user": "bob"}) as http:
            await ask(http, question(metadata=FORGED))
        async with socket(url, "?user=ann") as client:
            await client.send(type="rpc", id="c1", method="remind", args=[])
            await client.until(lambda frame: frame.get("type") == "rpc" and frame.get("id") == "c1")
        authors = [message.author for message in await stored(url) if message.role == "user"]
    assert authors == [Author("bob"), Author("ann", "Ann")]


async def test_a_list_that_a_client_sets_has_its_author_whatever_it_says_and_what_it_repeats_keeps_its_own() -> None:
    async with serving(desk()) as url:
        async with socket(url, "?user=ann") as client:
            await client.ask("r1")
            await client.ended("r1")
        first = await stored(url)
        copies = [{**message, "metadata": FORGED} for message in bare(each.to_dict() for each in first)]
        async with socket(url, "?user=bob") as client:
            await client.send(type="cf_agent_chat_messages", messages=[*copies, {**user("u2"), "metadata": FORGED}])
            await client.until(lambda frame: frame["type"] == "cf_agent_chat_messages" and len(frame["messages"]) == 3)
        *same, added = await stored(url)
    assert same == first
    assert (added.author, bare([added.to_dict()])) == (Author("bob"), [user("u2")])


async def test_a_model_is_sent_no_server_fields() -> None:
    app = desk()
    async with serving(app) as url, socket(url, "?user=ann") as client:
        await client.ask("r1")
        await client.ended("r1")
        await client.ask("r2")
        await client.ended("r2")
    told = str([agent.read for agent in app.classes.values()])  # type: ignore[attr-defined]
    assert "hi" in told and "Hello." in told
    assert SERVER_FIELDS not in told and "Ann" not in told
