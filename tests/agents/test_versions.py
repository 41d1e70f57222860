"""Versions as pages ask for them: which of how many is shown, at every place of the conversation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from everyword.agents import AIChatAgent, Turn
from everyword.agents.callables import check_arguments, find_callable
from everyword.core.commands import Submit
from everyword.errors import Rejected, UsageError
from everyword.ids import MessageId, RequestId
from tests.agents.kit import AGENT, Served, served


def user(text: str, message_id: str) -> dict[str, Any]:
    return {"id": message_id, "role": "user", "parts": [{"type": "text", "text": text}]}


class Chat(AIChatAgent):
    """Answers with the request's id; fails without a word when it is asked to, and waits when it is asked to."""

    hold: asyncio.Event

    async def on_chat_message(self, turn: Turn) -> AsyncIterator[str]:
        if turn.id.startswith("fail"):
            raise ValueError("secret")
        if turn.id.startswith("wait"):
            await type(self).hold.wait()
        yield f"answer {turn.id}"


async def submit(serving: Served, request: str, *messages: dict[str, Any]) -> None:
    async with serving.directory.attach(AGENT) as loaded:
        await loaded.actor.ask(Submit(RequestId(request), MessageId(f"a-{request}"), messages))


async def ask(serving: Served, request: str, *messages: dict[str, Any]) -> None:
    await submit(serving, request, *messages)
    await serving.agent._runtime.wait_until_idle()


async def called(agent: AIChatAgent, method: str, *given: Any) -> Any:
    """Call a method as a page does."""
    found = find_callable(agent, method)
    return await found(*check_arguments(found, method, given))


def counted(places: list[dict[str, Any]]) -> list[tuple[Any, Any, Any, int]]:
    return [(each["messageId"], each["afterMessageId"], each["shown"], len(each["versions"])) for each in places]


async def test_a_page_learns_which_of_how_many_answers_is_shown_and_shows_another() -> None:
    async with served(Chat) as serving:
        agent = serving.agent
        await ask(serving, "r1", user("hi", "u1"))
        assert await called(agent, "get_versions") == []
        for request in ("r2", "r3"):
            await ask(serving, request, user("hi", "u1"))
        (place,) = await called(agent, "get_versions")
        assert counted([place]) == [("a-r3", "u1", 2, 3)]
        await called(agent, "switch_version", place["versions"][1])
        assert [message.text for message in agent.messages] == ["hi", "answer r2"]
        assert counted(await called(agent, "get_versions")) == [("a-r2", "u1", 1, 3)]
        await called(agent, "switch_version", "a-r1")
        assert counted(await called(agent, "get_versions")) == [("a-r1", "u1", 0, 3)]


async def test_an_edited_question_and_its_answers_are_places_of_their_own() -> None:
    async with served(Chat) as serving:
        agent = serving.agent
        await ask(serving, "r1", user("cats", "u1"))
        await ask(serving, "r2", user("dogs", "u1"))
        await ask(serving, "r3", user("dogs", "u1"))
        question, answer = await called(agent, "get_versions")
        assert counted([question, answer]) == [("u1", None, 1, 2), ("a-r3", "u1", 1, 2)]
        with pytest.raises(UsageError, match="give the id of a version"):
            await called(agent, "switch_version", "u1")
        await called(agent, "switch_version", question["versions"][0])
        assert [message.text for message in agent.messages] == ["cats", "answer r1"]
        assert counted(await called(agent, "get_versions")) == [("u1", None, 0, 2)]


async def test_an_answer_counts_from_the_moment_it_is_asked_for() -> None:
    Chat.hold = asyncio.Event()
    async with served(Chat) as serving:
        await ask(serving, "r1", user("hi", "u1"))
        await submit(serving, "wait", user("hi", "u1"))
        assert counted(await called(serving.agent, "get_versions")) == [("a-wait", "u1", 1, 2)]
        Chat.hold.set()
        await serving.agent._runtime.wait_until_idle()
        assert counted(await called(serving.agent, "get_versions")) == [("a-wait", "u1", 1, 2)]


async def test_after_an_answer_that_failed_without_a_word_the_way_back_is_there() -> None:
    async with served(Chat) as serving:
        agent = serving.agent
        await ask(serving, "r1", user("hi", "u1"))
        await ask(serving, "fail", user("hi", "u1"))
        assert [message.text for message in agent.messages] == ["hi"]
        (place,) = await called(agent, "get_versions")
        assert counted([place]) == [(None, "u1", None, 1)]
        await called(agent, "switch_version", place["versions"][0])
        assert [message.text for message in agent.messages] == ["hi", "answer r1"]
        assert await called(agent, "get_versions") == []


async def test_a_version_that_is_not_there_is_refused_and_nothing_changes() -> None:
    async with served(Chat) as serving:
        await ask(serving, "r1", user("hi", "u1"))
        for unknown in (4711, "nobody"):
            with pytest.raises(Rejected, match="unable to show"):
                await called(serving.agent, "switch_version", unknown)
        assert [message.text for message in serving.agent.messages] == ["hi", "answer r1"]
