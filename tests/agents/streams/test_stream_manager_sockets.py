"""Managed streams over real sockets: several tabs, late ones, ones that come back; all end with the same words."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from everyword import Everyword
from everyword.client import AgentClient
from tests.agents.streams.kit import Script, Talk, fresh_script, until
from tests.agents.streams.tabs import tab
from tests.loaded_agents import loaded_agent
from tests.server.kit import serving


@asynccontextmanager
async def served(store: Any = "memory:", *words: str) -> AsyncIterator[tuple[str, Script, Everyword]]:
    """Serve an agent that says the question again, or these words."""
    script = fresh_script()
    if words:
        script.say = lambda options: list(words)
    app = Everyword([Talk], store=store)
    app.grace = 0.0
    async with serving(app) as url:
        yield url, script, app


@pytest.mark.obligation("004-5", "004-30", "004-31", "004-33", "004-34", "004-35")
async def test_tabs_that_watch_come_late_or_ask_for_the_history_end_with_the_same_words() -> None:
    async with served() as (url, script, app), tab(url) as one, tab(url) as two:
        sent = await one.call("send_message", "a b hold:1 c d hold:2 e")
        stream = sent["streamId"]
        for page in (one, two):
            await page.shows(stream, "a b ")
        async with tab(url) as late:
            assert late.state["activeStreamId"] == stream
            await late.shows(stream, "a b ")
            script.gates["1"].set()
            for page in (one, two, late):
                await page.shows(stream, "a b c d ")
            script.gates["2"].set()
            for page in (one, two, late):
                await page.ended(stream)
            talk = await loaded_agent(app.get(Talk, "ann"))
            stored = await talk.streams.get_stream_history(stream)
            joined = "".join(chunk["content"] for chunk in stored["chunks"])
            assert joined == "a b c d e "
            for page in (one, two, late):
                assert page.stream(stream).text == joined
                assert page.stream(stream).applied == 5, "each index once"
                assert page.state["messages"] == await talk.streams.load_messages()
                assert page.stream(stream).status == "completed"
        async with tab(url) as after:
            assert after.state == one.state
            assert await after.call("get_stream_history", stream) == stored


@pytest.mark.obligation("004-35")
async def test_a_tab_that_is_cut_off_and_comes_back_shows_no_word_twice(tmp_path: Path) -> None:
    async with served(str(tmp_path / "log.db")) as (url, script, _), tab(url) as watcher:
        async with tab(url) as gone:
            stream = (await gone.call("send_message", "a b hold:1 c hold:2 d"))["streamId"]
            await gone.shows(stream, "a b ")
            kept = gone.stream(stream)
        script.gates["1"].set()
        await watcher.shows(stream, "a b c ")
        async with tab(url) as back:
            back.streams[stream] = kept
            await back.shows(stream, "a b c ")
            script.gates["2"].set()
            await back.ended(stream)
            assert (kept.text, kept.applied) == ("a b c d ", 4)
        await watcher.ended(stream)
        assert watcher.stream(stream).text == "a b c d "


async def test_a_failed_stream_ends_with_its_error_for_every_client() -> None:
    async with served() as (url, script, _), tab(url) as one, tab(url) as two:
        stream = (await one.call("send_message", "a hold:1 fail"))["streamId"]
        await two.shows(stream, "a ")
        script.gates["1"].set()
        for page in (one, two):
            await page.ended(stream)
            assert (page.stream(stream).status, page.stream(stream).text) == ("error", "a ")
            assert "reason" not in (page.stream(stream).error or "")
        stored = await two.call("get_stream_history", stream)
        assert stored["metadata"]["error"] == one.stream(stream).error


async def test_an_agent_that_does_not_chat_says_nothing_of_a_chat() -> None:
    async with served() as (url, _, _), tab(url) as one, tab(url) as two:
        for word in ("a", "fail", "b"):
            stream = (await one.call("send_message", word))["streamId"]
            for page in (one, two):
                await page.ended(stream)
        await one.call("clear")
        await two.until(lambda: two.state == Talk.initial_state)
        for page in (one, two):
            kinds = {frame["type"] for frame in page.frames}
            assert kinds <= {"cf_agent_identity", "cf_agent_state", "cf_agent_mcp_servers", "rpc"} | {
                "rsm_stream_chunk",
                "rsm_stream_end",
            }


async def test_a_cleared_stream_ends_for_every_client_without_an_error() -> None:
    async with served() as (url, _, _), tab(url) as one, tab(url) as two:
        stream = (await one.call("send_message", "a hold:never b"))["streamId"]
        await two.shows(stream, "a ")
        await one.call("clear")
        for page in (one, two):
            await page.ended(stream)
            assert (page.stream(stream).status, page.stream(stream).error) == ("cleared", None)
            assert page.state == Talk.initial_state
        assert await two.call("get_stream_history", stream) == {"chunks": [], "metadata": None}


async def test_the_state_that_names_a_stream_comes_before_its_first_chunk_and_the_message_after_its_end() -> None:
    async with served() as (url, _, _), tab(url) as one, tab(url) as two:
        stream = (await one.call("send_message", "a b c"))["streamId"]
        await two.ended(stream)
        told = [
            ("state", frame["state"]["activeStreamId"], len(frame["state"]["messages"]))
            if frame["type"] == "cf_agent_state"
            else (frame["type"], frame.get("index"))
            for frame in two.frames
            if frame["type"] == "cf_agent_state" or frame["type"].startswith("rsm_")
        ]
        assert told[1:] == [
            ("state", stream, 1),
            *(("rsm_stream_chunk", index) for index in range(3)),
            ("rsm_stream_end", None),
            ("state", None, 2),
        ]


async def test_a_tab_that_does_not_read_for_long_still_gets_every_chunk() -> None:
    large = [f"{number}:{'x' * 20_000}" for number in range(300)]
    async with served("memory:", *large) as (url, _, _), tab(url) as sleeper, tab(url) as one:
        stream = (await one.call("send_message", "go"))["streamId"]
        await one.ended(stream)
        await sleeper.ended(stream)
        assert sleeper.stream(stream).text == one.stream(stream).text
        assert sleeper.stream(stream).applied == 300


async def test_the_python_client_can_follow_a_stream_too() -> None:
    async with served() as (url, script, _), AgentClient(url, agent="talk", name="ann") as me:
        sent = await me.call("send_message", "a hold:1 b")
        script.gates["1"].set()
        await until(lambda: len(me.state["messages"]) == 2 and not me.state["activeStreamId"])
        history = await me.call("get_stream_history", sent["streamId"])
        assert [chunk["content"] for chunk in history["chunks"]] == ["a ", "b "]


async def test_a_tab_that_asks_while_a_stream_is_taken_back_does_not_bring_old_words_back(tmp_path: Path) -> None:
    path = str(tmp_path / "log.db")
    async with served(path, "a", "old", "words", "hold:never") as (url, _, _), tab(url) as one:
        stream = (await one.call("send_message", "go"))["streamId"]
        await one.shows(stream, "a old words ")
        kept = one.stream(stream)
    async with served(path, "a", "hold:1", "new") as (url, script, _), tab(url) as back:
        back.streams[stream] = kept
        stale = await back.call("get_stream_history", stream)
        script.gates["1"].set()
        await back.ended(stream)
        back.stream(stream).history(stale)
        assert (kept.text, kept.restarts) == ("a new ", 1)
