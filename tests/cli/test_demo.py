"""The demo agent: the same words every time, and none lost or doubled wherever it was cut off."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everyword.client import ChatClient
from everyword.demo import Demo, words
from everyword.demo.agent import Sailor
from everyword.demo.scripts import script_for
from everyword.demo.words import ERROR_BEFORE, ERROR_TEXT, HELLO, LONG, TOOL_AFTER, TOOL_BEFORE
from everyword.log.memory import MemoryLog
from everyword.server import Everyword
from everyword.testing import CrashingLog
from tests.loaded_agents import loaded_agent
from tests.server.kit import ask, ending, folded, question, serving, text_of


class Quick(Demo):
    """The demo, without its pauses."""

    pause = 0.0


def _app(store: Any) -> Everyword:
    app = Everyword([Quick], store=store)
    app.grace = 0.0
    return app


def _client(app: Everyword) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost/agents/quick/ann")


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("hello", HELLO),
        ("Tell me a long story", LONG),
        ("Use a tool", TOOL_BEFORE + TOOL_AFTER),
        ("Run into an error", ERROR_BEFORE),
        ("Plan a day on the water", words.PLAN + words.PLAN_SOURCES),
        ("Survey the bay", words.SURVEY_BEFORE + words.SURVEY_AFTER),
        ("", HELLO),
    ],
)
async def test_the_question_decides_what_is_said(asked: str, expected: str) -> None:
    async with _app("memory:") as app, _client(app) as client:
        reader = await ask(client, question(text=asked))
        assert text_of(folded(reader.chunks)) == expected
        end = ending(reader.events)
        failed = {"type": "error", "errorText": ERROR_TEXT}
        assert end == failed if expected == ERROR_BEFORE else end["type"] == "finish"


async def test_a_tool_is_called_in_the_middle_and_shows_its_result() -> None:
    async with _app("memory:") as app, _client(app) as client:
        message = folded((await ask(client, question(text="tool"))).chunks)
        kinds = [part["type"] for part in message["parts"] if part["type"] != "step-start"]
        assert kinds == ["text", "tool-forecast", "text"]
        (call,) = [part for part in message["parts"] if part["type"] == "tool-forecast"]
        assert (call["state"], call["output"]["degrees"]) == ("output-available", 17)


async def test_a_plan_has_thoughts_a_picture_and_sources_and_says_what_it_used() -> None:
    async with _app("memory:") as app, _client(app) as client:
        message = folded((await ask(client, question(text="plan"))).chunks)
        kinds = [part["type"] for part in message["parts"] if part["type"] != "step-start"]
        assert kinds == ["reasoning", "text", "file", "text", "source-url", "source-url", "source-document"]
        assert [part["text"] for part in message["parts"] if part["type"] == "reasoning"] == [words.PLAN_THOUGHT]
        usage = message["metadata"]["usage"]
        assert usage["totalTokens"] == usage["inputTokens"] + usage["outputTokens"] > 100


async def test_a_survey_grows_its_data_in_place_and_keeps_no_notices() -> None:
    async with _app("memory:") as app, _client(app) as client:
        reader = await ask(client, question(text="survey"))
        assert sum(chunk["type"] == "data-notice" for chunk in reader.chunks) == len(words.SOUNDINGS)
        data = [part for part in folded(reader.chunks)["parts"] if part["type"].startswith("data-")]
        assert [part["type"] for part in data] == ["data-progress", "data-soundings"]
        assert data[1]["data"] == words.SOUNDINGS


@pytest.mark.parametrize(("approved", "said"), [(True, words.CHARTER_YES), (False, words.CHARTER_NO)])
async def test_a_boat_is_chartered_after_a_yes_and_only_then(approved: bool, said: str) -> None:
    async with _app("memory:") as app, serving(app) as url:
        async with ChatClient(url, "quick", "ann") as chat:
            await chat.send("Charter a boat")
            (asked,) = chat.pending_approvals
            assert asked["input"] == {"boat": "Everyword", "price": 120}
            await (chat.approve if approved else chat.deny)(asked["toolCallId"])
            answer = await chat.follow()
            assert answer.text == words.CHARTER_BEFORE + said
            state = "output-available" if approved else "output-denied"
            assert [part["state"] for part in answer.parts if part["type"] == "tool-charter"] == [state]


async def test_the_page_says_where_it_is_and_the_answer_goes_on_in_the_same_message() -> None:
    async with _app("memory:") as app, serving(app) as url:
        async with ChatClient(url, "quick", "ann") as chat:
            await chat.send("Where am I?")
            call = next(part for part in chat.messages[-1].parts if part["type"] == "tool-where")
            await chat.answer(call["toolCallId"], {"place": "at sea"})
            answer = await chat.follow()
            assert answer.text == words.WHERE_BEFORE + words.WHERE_AFTER.format(place="at sea")
            assert len(chat.messages) == 2


async def test_the_crew_are_agents_of_their_own_and_all_of_them_are_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sailor, "pause", 0.0)
    async with _app("memory:") as app, _client(app) as client:
        message = folded((await ask(client, question(text="Ask the crew"))).chunks)
        (call,) = [part for part in message["parts"] if part["type"] == "tool-ask_crew"]
        assert [heard["who"] for heard in call["output"]] == list(words.CREW)
        assert [heard["says"] for heard in call["output"]] == list(words.CREW.values())
        assert text_of(message) == words.CREW_BEFORE + words.CREW_AFTER
        agent = await loaded_agent(app.get(Quick, "ann"))
        assert [run.status for run in await agent.agent_tools.list()] == ["completed"] * len(words.CREW)


async def test_the_state_counts_the_questions() -> None:
    async with _app("memory:") as app, _client(app) as client:
        await ask(client, question("q1", text="plan"))
        await ask(client, question("q2", text="tool"))
        assert await app.get(Quick, "ann").get_state() == {"asked": 2, "last": "tool"}


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


def _kept(message: dict[str, Any]) -> dict[str, Any]:
    """Return what a message says and shows, however many parts an interruption made of it."""
    others = [part for part in message["parts"] if part["type"] not in ("text", "reasoning", "step-start")]
    thought = "".join(part["text"] for part in message["parts"] if part["type"] == "reasoning")
    return {"text": text_of(message), "thought": thought, "others": [{**part, "toolCallId": ""} for part in others]}


@pytest.mark.parametrize("asked", ["hello", "tool", "plan", "survey"])
async def test_wherever_it_dies_it_goes_on_with_the_next_word(asked: str) -> None:
    async with _app("memory:") as app, _client(app) as client:
        expected = _kept(folded((await ask(client, question(text=asked))).chunks))
    appends = await _appends(asked)
    assert appends > 10
    # Nearly every append is a word; between two words there is nothing new to find.
    stride = 1 if asked == "tool" else max(appends // 20, 1)
    for at in range(1, appends + 1, stride):
        assert _kept(await _crashed(asked, at)) == expected, at


@given(st.sampled_from(["hello", "long", "tool", "error", "plan", "charter", "where", "survey"]))
def test_a_script_is_the_same_every_time(asked: str) -> None:
    assert repr(script_for(asked)) == repr(script_for(asked))
    assert all(step for step in script_for(asked) if isinstance(step, str))
