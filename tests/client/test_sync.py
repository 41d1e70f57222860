"""The chat client for scripts without asyncio."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from everyword.client import ChatFailed, ClientError, Unreachable
from everyword.client.sync import SyncChatClient
from everyword.errors import ChatError
from tests.client.kit import QUICK, is_growing
from tests.client.test_chat import FINISH, asks, call, two_steps
from tests.server.kit import chat, scripted, serving


async def with_script(script: Any, work: Any) -> Any:
    """Run a blocking function against a server, beside the loop that the server runs in."""
    async with serving(chat(scripted(script))) as url:
        async with asyncio.timeout(20):
            return await asyncio.to_thread(work, url)


def opened(url: str, **options: Any) -> SyncChatClient:
    return SyncChatClient(url, agent="chat", name="ann", backoff=QUICK, **options)


async def test_a_script_asks_and_reads_the_growing_answer() -> None:
    def work(url: str) -> None:
        with opened(url) as chat:
            reply = chat.send("hi")
            seen = list(reply)
            assert seen[-1].text == "Hello world"
            assert is_growing(seen)
            assert reply.outcome == chat.outcome == "completed"
            assert chat.status == "ready"
            chat.clear()
            assert chat.messages == chat.history() == []

    await with_script(["Hello ", "world"], work)


async def test_a_failure_raises_in_a_script() -> None:
    def work(url: str) -> str:
        with opened(url) as chat:
            with pytest.raises(ChatFailed, match="shown") as raised:
                chat.send("hi").wait()
            return str(raised.value)

    assert await with_script(["Half", ChatError("shown")], work) == "shown"


async def test_a_script_has_tools_and_gives_approvals() -> None:
    def locate() -> str:
        return "at sea"

    def work(url: str) -> str:
        with opened(url, tools=[locate]) as chat:
            chat.send("hi").wait()
            for part in chat.pending_approvals:
                chat.deny(part["toolCallId"], "no")
            answer = chat.follow().wait()
            assert answer is not None
            return answer.text

    script = two_steps(["May I? ", call("pay", {}), asks(), FINISH], ["Then not."])
    assert await with_script(script, work) == "May I? Then not."


async def test_a_script_regenerates_and_edits() -> None:
    answers = iter([["A."], ["B."], ["C."]])

    def work(url: str) -> list[str]:
        with opened(url) as chat:
            chat.send("hi").wait()
            chat.regenerate().wait()
            chat.edit(chat.messages[0].id, "ho").wait()
            return [message.text for message in chat.messages]

    assert await with_script(lambda turn: next(answers), work) == ["ho", "C."]


def test_using_a_client_that_is_not_open_raises() -> None:
    with pytest.raises(ClientError, match="open it with"):
        opened("http://127.0.0.1:1").send("hi")


def test_a_missing_server_raises_unreachable() -> None:
    with pytest.raises(Unreachable, match="Is the server running"):
        opened("http://127.0.0.1:1", connect_timeout=0.1).__enter__()
