"""What pages are told of sub-agents at work: the same whenever they come, however often, and to the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from everyword import Everyword
from everyword.server import agent_tool_feeds as feeds
from tests.agents.crew import BASES, GATES, Crew, asked, crew
from tests.loaded_agents import loaded_agent
from tests.server.kit import PATIENCE, serving
from tests.server.sockets import Frame, Socket, open_socket

KIND = "agent-tool-event"


@asynccontextmanager
async def watching(url: str, name: str = "ann") -> AsyncIterator[Socket]:
    address = f"{url.replace('http', 'ws')}/agents/boss/{name}"
    async with open_socket(address, max_size=None, proxy=None) as connection:
        yield Socket(connection)


@asynccontextmanager
async def serving_crew(crewed: Crew, **options: Any) -> AsyncIterator[tuple[str, Any]]:
    """Serve the crew; yield the URL, and a boss."""
    app = Everyword([crewed.boss], **{"store": "memory:", **options})
    app.grace = 0.0
    async with serving(app) as url:
        yield url, await loaded_agent(app.get(crewed.boss, "ann"))


def told(socket: Socket, run: str | None = None) -> list[Frame]:
    """Return what the socket was told of runs, without the flag that tells replays."""
    found = [frame for frame in socket.frames if frame["type"] == KIND]
    plain = [{key: value for key, value in frame.items() if key != "replay"} for frame in found]
    return [frame for frame in plain if run in (None, frame["event"]["runId"])]


def is_end(run: str) -> Callable[[Frame], bool]:
    ends = {"finished", "error", "aborted", "interrupted"}
    return lambda frame: frame["type"] == KIND and frame["event"]["runId"] == run and frame["event"]["kind"] in ends


async def caught_up(url: str, *runs: str) -> Socket:
    """Return a socket of a page that came now, and has been told of the end of these runs."""
    async with watching(url) as late:
        for run in runs:
            await late.until(is_end(run))
        await late.settled()
        return late


@pytest.mark.parametrize("base", BASES)
async def test_live_and_late_clients_get_the_same_frames(base: str) -> None:
    """P-55."""
    crewed = crew(base)
    text = "one gate:1 two gate:2 three"
    async with serving_crew(crewed) as (url, boss), watching(url) as live:
        await live.greeted()
        running = asyncio.create_task(boss.run_agent_tool(crewed.kid, text, run_id="r", display={"icon": "x"}))
        late: list[Socket] = []
        async with asyncio.timeout(PATIENCE):
            async with watching(url) as first, watching(url) as second:
                for gate, socket in (("gate:1", first), ("gate:2", second)):
                    await GATES[gate].reached.wait()
                    await socket.until(lambda frame: frame["type"] == KIND and frame.get("replay") is not True)
                    GATES[gate].open()
                await running
                for socket in (live, first, second):
                    await socket.until(is_end("r"))
                    late.append(socket)
        late.append(await caught_up(url, "r"))
        expected = told(live)
        assert [frame["sequence"] for frame in expected] == list(range(len(expected)))
        assert expected[0]["event"]["display"] == {"icon": "x"}
        assert expected[-1]["event"] == {"kind": "finished", "runId": "r", "summary": "one two three "}
        for socket in late:
            assert told(socket) == expected


@pytest.mark.parametrize("base", BASES)
async def test_several_runs_of_one_turn_are_told_apart_and_end_before_the_model_goes_on(base: str) -> None:
    crewed = crew(base)
    async with serving_crew(crewed) as (url, _), watching(url) as page:
        await page.ask("r1", asked("a one", "b fail", "c three").text)
        assert (await page.ended("r1"))["outcome"] == "completed"
        kinds = [(frame["event"]["runId"][-2:], frame["event"]["kind"]) for frame in told(page)]
        for call, end in (("c0", "finished"), ("c1", "error"), ("c2", "finished")):
            own = [kind for run, kind in kinds if run == call]
            assert (own[0], own[-1]) == ("started", end)
            assert set(own[1:-1]) == {"chunk"}
        assert {frame["parentToolCallId"] for frame in told(page)} == {"c0", "c1", "c2"}
        for call in ("c0", "c1", "c2"):
            output = f'"tool-output-available","toolCallId":"{call}"'
            outputs = [at for at, frame in enumerate(page.frames) if output in frame.get("body", "")]
            ends = [at for at, frame in enumerate(page.frames) if is_end(f"agent-tool:{call}")(frame)]
            assert ends[0] < outputs[0]
        other = await caught_up(url, *(f"agent-tool:c{n}" for n in range(3)))
        for run in ("agent-tool:c0", "agent-tool:c1", "agent-tool:c2"):
            assert told(other, run) == told(page, run)


@pytest.mark.parametrize("base", BASES)
async def test_a_cut_at_every_frame_loses_and_doubles_nothing(base: str) -> None:
    """Trap 187: what is stored and what is new are one log."""
    crewed = crew(base)
    words = [f"w{n}" for n in range(6)]
    text = " ".join(f"{word} gate:{word}" for word in words)
    async with serving_crew(crewed) as (url, boss):
        running = asyncio.create_task(boss.run_agent_tool(crewed.kid, text, run_id="r"))
        seen: dict[int, Frame] = {}
        for word in words:
            async with watching(url) as page:  # a new socket for every word: comes, reads some, goes
                await page.until(lambda frame, word=word: f'"{word} ' in frame.get("event", {}).get("body", ""))  # type: ignore[misc]
                for frame in told(page):
                    assert seen.setdefault(frame["sequence"], frame) == frame
            GATES[f"gate:{word}"].open()
        await running
        last = told(await caught_up(url, "r"))
        assert [frame["sequence"] for frame in last] == list(range(len(last)))
        assert all(seen[number] == last[number] for number in seen)


async def test_a_connection_gets_the_runs_after_the_identity() -> None:
    """P-56."""
    crewed = crew("chat")
    async with serving_crew(crewed) as (url, boss):
        await boss.run_agent_tool(crewed.kid, "one", run_id="r")
        page = await caught_up(url, "r")
        kinds = [frame["type"] for frame in page.frames]
        assert kinds.index(KIND) > kinds.index("cf_agent_identity")
        assert all(frame["replay"] is True for frame in page.frames if frame["type"] == KIND)


async def test_progress_is_told_live_and_shifts_no_number() -> None:
    """Trap 195."""
    crewed = crew("chat")
    async with serving_crew(crewed) as (url, boss), watching(url) as live:
        await live.greeted()
        await boss.run_agent_tool(crewed.kid, "one slow two", run_id="r")
        await live.until(is_end("r"))
        progress = [frame for frame in told(live) if "data-agent-progress" in frame["event"].get("body", "")]
        assert len(progress) == 1
        after = told(await caught_up(url, "r"))
        assert [frame for frame in told(live) if frame not in progress] == after


async def test_after_their_chunks_are_pruned_runs_are_their_start_and_their_end() -> None:
    crewed = crew("chat")
    async with serving_crew(crewed, retention=timedelta(0)) as (url, boss), watching(url) as live:
        await live.greeted()
        await boss.run_agent_tool(crewed.kid, "one two", run_id="r")
        await live.until(is_end("r"))
        store = boss._runtime._directory.store
        while (await store.prune(boss._runtime._directory.clock.now() + 1)).more:
            pass
        after = told(await caught_up(url, "r"))
        assert after == [told(live)[0], told(live)[-1]]


async def test_only_so_many_ended_runs_are_replayed_and_all_that_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trap 198."""
    monkeypatch.setattr(feeds, "MOST_REPLAYED", 3)
    crewed = crew("chat")
    async with serving_crew(crewed) as (url, boss):
        opened = asyncio.create_task(boss.run_agent_tool(crewed.kid, "gate:a", run_id="open"))
        await GATES["gate:a"].reached.wait()
        for n in range(5):
            await boss.run_agent_tool(crewed.kid, "one", run_id=f"r{n}")
        page = await caught_up(url, "r3", "r4")
        assert {frame["event"]["runId"] for frame in told(page)} == {"open", "r3", "r4"}
        GATES["gate:a"].open()
        await opened


async def test_a_replay_that_takes_too_long_leaves_out_chunks_and_no_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trap 198: a page that connects does not wait for a store that hangs."""
    crewed = crew("chat")
    async with serving_crew(crewed) as (url, boss):
        for run in ("a", "b"):
            await boss.run_agent_tool(crewed.kid, "one", run_id=run)
        monkeypatch.setattr(feeds, "REPLAY_SECONDS", 0.0)

        async def hangs(*args: Any, **kwargs: Any) -> Any:
            await asyncio.Event().wait()

        store = boss._runtime._directory.store
        monkeypatch.setattr(store, "read", hangs)
        page = await caught_up(url, "a", "b")
        assert [frame["event"]["kind"] for frame in told(page)] == ["started", "finished"] * 2


async def test_a_client_of_the_sub_agent_itself_chats_with_it_and_sees_its_turn() -> None:
    crewed = crew("chat")

    async def open_to_all(self: Any, request: Any, child: Any) -> bool:
        return True

    crewed.boss.on_before_sub_agent = open_to_all
    async with serving_crew(crewed) as (url, boss):
        running = asyncio.create_task(boss.run_agent_tool(crewed.kid, "one gate:a two", run_id="r"))
        await GATES["gate:a"].reached.wait()
        async with watching(url, "ann/sub/kid/r") as drilled:
            offer = await drilled.until(lambda frame: frame["type"] == "cf_agent_stream_resuming")
            assert offer["id"] == "agent-tool:r"
            await drilled.send(type="cf_agent_stream_resume_ack", id=offer["id"])
            GATES["gate:a"].open()
            assert (await drilled.ended("agent-tool:r"))["outcome"] == "completed"
        assert (await running).summary == "one two "


async def test_a_sub_agent_of_a_sub_agent_is_its_parents_business_only() -> None:
    crewed = crew("chat")
    middle = type("Middle", (crewed.boss,), {"tools": crewed.boss.tools, "heard": []})
    async with serving_crew(crewed) as (url, boss), watching(url) as page:
        await page.greeted()
        result = await boss.run_agent_tool(middle, ["deep down"], run_id="m")
        assert (result.status, result.summary) == ("completed", '["deep down "]')
        await page.until(is_end("m"))
        assert {frame["event"]["runId"] for frame in told(page)} == {"m"}
