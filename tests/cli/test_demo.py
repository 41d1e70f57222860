"""The demo agent: the same words every time, and none lost or doubled wherever it was cut off."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.demo import ERROR_BEFORE, ERROR_TEXT, HELLO, LONG, TOOL_AFTER, TOOL_BEFORE, Demo, script_for
from holdfast.log.memory import MemoryLog
from holdfast.server import Holdfast
from holdfast.testing import CrashingLog
from tests.server.kit import ask, ending, folded, question, text_of


class Quick(Demo):
    """The demo, without its pauses."""

    pause = 0.0


def _app(store: Any) -> Holdfast:
    app = Holdfast([Quick], store=store)
    app.grace = 0.0
    return app


def _client(app: Holdfast) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost/agents/quick/ann")


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("hello", HELLO),
        ("Tell me a long story", LONG),
        ("Use a tool", TOOL_BEFORE + TOOL_AFTER),
        ("Run into an error", ERROR_BEFORE),
        ("", HELLO),
    ],
)
async def test_the_question_decides_what_is_said(asked: str, expected: str) -> None:
    async with _app("memory:") as app, _client(app) as client:
        reader = await ask(client, question(text=asked))
        assert text_of(folded(reader.chunks)) == expected
        failed = {"type": "error", "errorText": ERROR_TEXT}
        assert ending(reader.events) == (failed if expected == ERROR_BEFORE else {"type": "finish"})


async def test_a_tool_is_called_in_the_middle_and_shows_its_result() -> None:
    async with _app("memory:") as app, _client(app) as client:
        message = folded((await ask(client, question(text="tool"))).chunks)
        kinds = [part["type"] for part in message["parts"] if part["type"] != "step-start"]
        assert kinds == ["text", "tool-forecast", "text"]
        (call,) = [part for part in message["parts"] if part["type"] == "tool-forecast"]
        assert (call["state"], call["output"]["degrees"]) == ("output-available", 17)


async def _appends(asked: str) -> int:
    log = CrashingLog(MemoryLog())
    async with _app(log) as app, _client(app) as client:
        await ask(client, question(text=asked), idempotency_key="r1")
    return log.appends


async def _crashed(asked: str, at: int) -> dict[str, Any]:
    """Let the process die at one append, start another on the same log, and return the message in the end."""
    store = MemoryLog()
    log = CrashingLog(store, at, "after" if at % 2 else "before")
    first = _app(log)
    await first.start()
    async with _client(first) as client:
        asking = asyncio.create_task(ask(client, question(text=asked), idempotency_key="r1"))
        await log.crashed.wait()
        asking.cancel()
        await asyncio.wait({asking})
    for task in asyncio.all_tasks():
        if task is not asyncio.current_task():
            task.cancel()
    await asyncio.sleep(0)
    await store.aclose()
    async with _app(store) as second, _client(second) as client:
        reader = await ask(client, question(text=asked), idempotency_key="r1")
        return folded(reader.chunks)


@pytest.mark.parametrize("asked", ["hello", "tool"])
async def test_wherever_it_dies_it_goes_on_with_the_next_word(asked: str) -> None:
    expected = HELLO if asked == "hello" else TOOL_BEFORE + TOOL_AFTER
    appends = await _appends(asked)
    assert appends > 10
    for at in range(1, appends + 1):
        message = await _crashed(asked, at)
        assert text_of(message) == expected, at
        calls = [part for part in message["parts"] if part["type"] == "tool-forecast"]
        assert [call["state"] for call in calls] == ["output-available"] * (asked == "tool")


@given(st.sampled_from(["hello", "long", "tool", "error"]))
def test_a_script_is_the_same_every_time(asked: str) -> None:
    assert repr(script_for(asked)) == repr(script_for(asked))
    assert all(step for step in script_for(asked) if isinstance(step, str))
