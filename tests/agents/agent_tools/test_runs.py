"""Agents as tools: what becomes of a run is what its own turn says, in both base classes, watched or not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from everyword import Agent, AgentToolLimits, AIChatAgent, ChatError, Everyword
from everyword.agents.agent_tools import agent_tool
from everyword.errors import Rejected, UsageError
from everyword.log.memory import MemoryLog
from tests.agents.crew import BASES, GATES, asked, crew, running, until, user
from tests.loaded_agents import loaded_agent

pytestmark = pytest.mark.parametrize("base", BASES)


async def _tailed(boss: Any, run: str, after: int = -1) -> list[tuple[int, str]]:
    chunks = [(chunk.sequence, json.loads(chunk.body)) async for chunk in boss.agent_tools.tail(run, after)]
    return [(sequence, body["delta"]) for sequence, body in chunks if body["type"] == "text-delta"]


@pytest.mark.obligation("000-8.a")
async def test_a_run_is_a_turn_of_a_sub_agent_of_that_name_and_a_record_here(base: str) -> None:
    """P-53."""
    async with running(crew(base)) as boss:
        result = await boss.run_agent_tool(_kid(boss), "one two", run_id="r")
        assert (result.run_id, result.status, result.summary) == ("r", "completed", "one two ")
        kid = await loaded_agent(await boss.sub_agent(_kid(boss), "r"))
        assert (kid.messages[0].id, kid.messages[0].text) == ("agent-tool-r-input", "one two")
        record = await kid._runtime.submissions.find("agent-tool:r")
        assert record is not None and record.status == "completed"
        (run,) = await boss.agent_tools.list()
        assert (run.run_id, run.agent_type, run.status, run.input) == ("r", "kid", "completed", "one two")
        assert [text for _, text in await _tailed(boss, "r")] == ["one ", "two "]


@pytest.mark.obligation("000-9.5", "000-8.1", "000-Q3")
async def test_a_failed_run_without_a_watcher_is_recorded_with_its_text(base: str) -> None:
    async with running(crew(base)) as boss:
        result = await boss.run_agent_tool(_kid(boss), "one fail", run_id="r")
        assert (result.status, result.error) == ("error", "no good: one fail")
        run = await boss.agent_tools.get("r")
        assert (run.status, run.error) == ("error", "no good: one fail")


@pytest.mark.obligation("000-9.6")
async def test_tailing_late_or_often_gives_everything_and_changes_nothing(base: str) -> None:
    async with running(crew(base)) as boss:
        await boss.run_agent_tool(_kid(boss), "one two fail", run_id="r")
        before = await boss.agent_tools.get("r")
        first, second = await asyncio.gather(_tailed(boss, "r"), _tailed(boss, "r"))
        assert [text for _, text in first] == ["one ", "two "] and first == second
        assert await _tailed(boss, "r", first[0][0]) == first[1:]
        assert await boss.agent_tools.get("r") == before


@pytest.mark.obligation("000-9.7", "000-8.2", "000-Q4")
async def test_siblings_at_work_at_once_never_borrow_each_others_error(base: str) -> None:
    """Trap 186."""
    async with running(crew(base)) as boss:
        kid = _kid(boss)
        work = [boss.run_agent_tool(kid, text, run_id=text) for text in ("gate:a bad fail", "gate:b good", "gate:a ok")]
        tails = [_until_known(boss, text) for text in ("gate:a bad fail", "gate:b good", "gate:a ok")]
        opening = asyncio.create_task(_open_in_turn("gate:a", "gate:b"))
        *results, bad, good, okay = await asyncio.gather(*work, *tails)
        await opening
        assert [(result.status, result.error) for result in results] == [
            ("error", "no good: gate:a bad fail"),
            ("completed", None),
            ("completed", None),
        ]
        assert [[text for _, text in said] for said in (bad, good, okay)] == [["bad "], ["good "], ["ok "]]


async def _open_in_turn(*gates: str) -> None:
    for gate in gates:
        await GATES[gate].reached.wait()
        GATES[gate].open()


async def _until_known(boss: Any, run: str) -> list[tuple[int, str]]:
    async def is_known() -> bool:
        return await boss.agent_tools.get(run) is not None

    await until(is_known)
    return await _tailed(boss, run)


async def test_a_model_calls_sub_agents_and_reads_what_they_say_or_why_they_failed(base: str) -> None:
    crewed = crew(base)
    async with running(crewed) as boss:
        result = await boss.save_messages([asked("one", "two fail", "three")])
        assert result.status == "completed"
        failed = {"ok": False, "status": "error", "error": "no good: two fail", "retryable": False}
        assert json.loads(result.message.text) == ["one ", failed, "three "]
        runs = await boss.agent_tools.list()
        assert sorted((run.run_id, run.parent_tool_call_id, run.status) for run in runs) == [
            ("agent-tool:c0", "c0", "completed"),
            ("agent-tool:c1", "c1", "error"),
            ("agent-tool:c2", "c2", "completed"),
        ]
        heard = sorted(crewed.boss.heard)
        assert heard[:1] == [("finish", "agent-tool:c0", "completed")] and len(heard) == 6


async def test_a_known_run_is_waited_for_and_not_run_twice(base: str) -> None:
    async with running(crew(base)) as boss:
        kid = _kid(boss)
        first = asyncio.create_task(boss.run_agent_tool(kid, "gate:a done", run_id="r"))
        await GATES["gate:a"].reached.wait()
        second = asyncio.create_task(boss.run_agent_tool(kid, "something else", run_id="r"))
        GATES["gate:a"].open()
        assert await first == await second == await boss.run_agent_tool(kid, "anything", run_id="r")
        assert len(await (await boss.sub_agent(kid, "r")).get_messages()) == 2


async def test_stopping_the_turn_stops_what_works_for_it(base: str) -> None:
    """P-54."""
    async with running(crew(base)) as boss:
        turn = asyncio.create_task(boss.save_messages([asked("said gate:a more", "gate:b")]))
        await GATES["gate:a"].reached.wait()
        await GATES["gate:b"].reached.wait()
        await boss.abort_all_requests()
        assert (await turn).status == "aborted"
        for run in ("agent-tool:c0", "agent-tool:c1"):
            ended = await boss._runtime.runs.wait(run)
            assert (ended.status, ended.reason) == ("aborted", "The turn that asked for it has ended.")
        kid = await loaded_agent(await boss.sub_agent(_kid(boss), "agent-tool:c0"))
        assert (kid.messages[-1].text, (await kid._runtime.submissions.find("agent-tool:agent-tool:c0")).status) == (
            "said ",
            "aborted",
        )


async def test_cancelling_a_run_ends_it_and_not_its_siblings(base: str) -> None:
    async with running(crew(base)) as boss:
        turn = asyncio.create_task(boss.save_messages([asked("gate:a", "gate:b fine")]))
        await GATES["gate:a"].reached.wait()
        run = await boss.agent_tools.cancel("agent-tool:c0")
        assert (run.status, run.reason) == ("aborted", "It was cancelled.")
        assert await boss.agent_tools.cancel("agent-tool:c0", "again") == run
        assert await boss.agent_tools.cancel("nobody") is None
        GATES["gate:b"].open()
        told = json.loads((await turn).message.text)
        assert told[0] == {
            "ok": False,
            "status": "aborted",
            "error": "It was cancelled.",
            "retryable": False,
            "reason": "It was cancelled.",
        }
        assert told[1] == "fine "


async def test_a_caller_that_gives_up_waiting_stops_the_run(base: str) -> None:
    async with running(crew(base)) as boss:
        waiting = asyncio.create_task(boss.run_agent_tool(_kid(boss), "gate:a", run_id="r"))
        await GATES["gate:a"].reached.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        ended = await boss._runtime.runs.wait("r")
        assert (ended.status, ended.reason) == ("aborted", "Its caller does not wait for it any longer.")


async def test_a_detached_run_returns_at_once_outlives_its_turn_and_tells_its_end(base: str) -> None:
    crewed = crew(base)
    crewed.boss.tools = [agent_tool(crewed.kid, detached=True)]
    async with running(crewed) as boss:
        result = await boss.save_messages([asked("gate:a done")])
        assert json.loads(result.message.text) == [{"runId": "agent-tool:c0", "agentType": "kid", "status": "running"}]
        started = await boss.agent_tools.start(crewed.kid, "gate:a done", run_id="other")
        assert (started.status, started.detached) == ("running", True)
        GATES["gate:a"].open()
        for run in ("agent-tool:c0", "other"):
            assert (await boss._runtime.runs.wait(run)).summary == "done "
        await until(lambda: ("finish", "other", "completed") in crewed.boss.heard)


async def test_a_cleared_sub_agents_run_counts_as_an_error(base: str) -> None:
    """No caller asked for the end `skipped`."""
    async with running(crew(base)) as boss:
        kid = await loaded_agent(await boss.sub_agent(_kid(boss), "r"))
        busy = asyncio.create_task(kid.save_messages([user("u", "gate:a")]))
        await GATES["gate:a"].reached.wait()
        waiting = asyncio.create_task(boss.run_agent_tool(_kid(boss), "late", run_id="r"))

        async def is_asked() -> bool:
            return await kid._runtime.submissions.find("agent-tool:r") is not None

        await until(is_asked)
        await kid.clear_history()
        await busy
        result = await waiting
        assert (result.status, "cleared" in result.error) == ("error", True)


async def test_a_destroyed_sub_agents_run_is_over(base: str) -> None:
    async with running(crew(base)) as boss:
        waiting = asyncio.create_task(boss.run_agent_tool(_kid(boss), "gate:a", run_id="r"))
        await GATES["gate:a"].reached.wait()
        assert await boss.sub_agents.delete(_kid(boss), "r")
        result = await waiting
        assert (result.status, result.reason) == ("aborted", "The sub-agent was destroyed.")


async def test_a_sub_agent_that_asks_the_page_something_is_an_error_that_says_so(base: str) -> None:
    async with running(crew(base)) as boss:
        result = await boss.run_agent_tool(_kid(boss), "ask", run_id="r")
        assert (result.status, "page" in result.error) == ("error", True)


async def test_a_sub_agent_may_end_without_words(base: str) -> None:
    """Trap 197."""
    async with running(crew(base)) as boss:
        result = await boss.run_agent_tool(_kid(boss), "slow", run_id="r")
        assert (result.status, result.summary) == ("completed", "")


async def test_more_runs_than_allowed_fail_with_a_text_that_says_so(base: str) -> None:
    async with running(crew(base, agent_tool_limits=AgentToolLimits(max_concurrent=1))) as boss:
        first = asyncio.create_task(boss.run_agent_tool(_kid(boss), "gate:a one", run_id="a"))
        await GATES["gate:a"].reached.wait()
        second = await boss.run_agent_tool(_kid(boss), "two", run_id="b")
        assert (second.status, second.error.split(":")[0]) == ("error", "AgentToolLimits.max_concurrent (1) exceeded")
        GATES["gate:a"].open()
        assert (await first).status == "completed"
        assert (await boss.run_agent_tool(_kid(boss), "three", run_id="c")).status == "completed"


async def test_agents_stand_only_so_deep_below_each_other(base: str) -> None:
    crewed = crew(base)
    async with running(crewed) as boss:
        agent: Any = boss
        for _ in range(4):
            agent = await loaded_agent(await agent.sub_agent(crewed.kid, "deeper"))
        result = await agent.run_agent_tool(crewed.kid, "one")
        assert (result.status, result.error.split(":")[0]) == ("error", "AgentToolLimits.max_depth (4) exceeded")
        above = await loaded_agent(await boss.sub_agent(crewed.kid, "deeper"))
        assert (await above.run_agent_tool(crewed.kid, "one")).status == "completed"


async def test_what_cannot_be_run_is_refused_with_what_to_do(base: str) -> None:
    class Plain(Agent):
        pass

    async with running(crew(base)) as boss:
        with pytest.raises(UsageError, match="only an AIChatAgent"):
            await boss.run_agent_tool(Plain, "x")
        with pytest.raises(UsageError, match="only an AIChatAgent"):
            agent_tool(Plain)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="without NUL"):
            await boss.run_agent_tool(_kid(boss), "x", run_id="")
        with pytest.raises(Rejected, match="there is none"):
            await _tailed(boss, "nobody")
        assert await boss.agent_tools.get("nobody") is None


class Found(BaseModel):
    title: str
    year: int


@dataclass
class Query:
    words: list[str]
    limit: int = 3


async def test_an_output_of_a_type_is_checked_and_returned(base: str) -> None:
    async with running(crew(base)) as boss:
        kid = _structured(base)
        good = await boss.run_agent_tool(kid, '{"title": "Sea", "year": 1851}', output_type=Found)
        assert (good.status, good.output) == ("completed", Found(title="Sea", year=1851))
        bad = await boss.run_agent_tool(kid, '{"title": "Sea"}', output_type=Found)
        assert bad.status == "error" and bad.output is None


def _structured(base: str) -> type[Any]:
    """Return a sub-agent that answers with the object that it is asked for: whatever its question says."""
    if base == "chat":

        class Structured(AIChatAgent):
            async def on_chat_message(self, turn: Any) -> AsyncIterator[str]:
                yield self.messages[-1].text

        return Structured
    from pydantic_ai.models.function import DeltaToolCall, FunctionModel

    from everyword import Think
    from tests.agents.crew import _question

    async def give(messages: Any, info: Any) -> AsyncIterator[Any]:
        yield {0: DeltaToolCall(name="final_result", json_args=_question(messages), tool_call_id="f")}

    return type("Structured", (Think,), {"model": FunctionModel(stream_function=give), "output_retries": 0})


async def test_a_tool_takes_an_input_of_a_type_and_refuses_others(base: str) -> None:
    offered = agent_tool(crew(base).kid, name="find", description="Finds.", input_type=Query)
    definition = offered.definition()
    assert (definition["name"], definition["description"]) == ("find", "Finds.")
    assert definition["parameters"]["required"] == ["words"]
    assert offered.check({"words": ["a"]}) == {"input": {"words": ["a"], "limit": 3}}
    with pytest.raises(Exception, match="words"):
        offered.check({"words": "a"})


async def test_hooks_that_raise_change_nothing_for_the_run_or_for_others(base: str) -> None:
    """Trap 192: each end is told on its own."""
    crewed = crew(base)
    heard: list[str] = []

    async def start(self: Any, run: Any) -> None:
        raise ChatError("start")

    async def finish(self: Any, run: Any, result: Any) -> None:
        heard.append(run.run_id)
        raise ChatError("finish")

    crewed.boss.on_agent_tool_start, crewed.boss.on_agent_tool_finish = start, finish
    async with running(crewed) as boss:
        for run in ("a", "b"):
            assert (await boss.run_agent_tool(crewed.kid, "one", run_id=run)).status == "completed"
        await until(lambda: heard == ["a", "b"])


async def test_a_parents_run_is_known_after_a_restart_and_its_hook_told_of_it(base: str) -> None:
    store, crewed = MemoryLog(), crew(base)
    async with running(crewed, store) as boss:
        await boss.agent_tools.start(crewed.kid, "one gate:a two", run_id="r")
        await GATES["gate:a"].reached.wait()
    assert crewed.boss.heard == [("start", "r", "running")]
    GATES["gate:a"].open()
    async with running(crewed, store) as boss:
        ended = await boss._runtime.runs.wait("r")
        assert (ended.status, ended.summary) == ("completed", "one two " if base == "chat" else ended.summary)
        await until(lambda: ("finish", "r", "completed") in crewed.boss.heard)


async def test_a_sub_agent_reports_how_far_it_is_and_what_it_has_reached(base: str) -> None:
    crewed = crew(base)

    async def answer(self: Any, turn: Any) -> AsyncIterator[str]:
        for _ in range(3):
            await self.agent_tools.report_progress(
                fraction=0.1, message="again and again"
            )  # at most five times a second
        await self.agent_tools.report_milestone("halfway", message="half")
        await self.agent_tools.report_milestone("there")
        await self.agent_tools.report_progress(fraction=1.0)
        yield "done"

    crewed.kid.on_chat_message = answer
    async with running(crewed) as boss:
        await boss.run_agent_tool(crewed.kid, "x", run_id="r")
        said = [json.loads(chunk.body) async for chunk in boss.agent_tools.tail("r")]
        told = [chunk["data"] for chunk in said if chunk["type"] == "data-agent-progress"]
        assert told == [{"fraction": 0.1, "message": "again and again"}, {"fraction": 1.0}]
        kid = await loaded_agent(await boss.sub_agent(crewed.kid, "r"))
        kept = [part["data"] for part in kid.messages[-1].parts if part["type"].startswith("data-agent-")]
        assert [(each["name"], each["sequence"], each.get("message")) for each in kept] == [
            ("halfway", 0, "half"),
            ("there", 1, None),
        ]
        with pytest.raises(UsageError, match="no turn of this agent"):
            await kid.agent_tools.report_progress(fraction=0.5)


async def test_pages_are_shown_so_much_of_an_input_and_no_more(base: str) -> None:
    async with running(crew(base)) as boss:
        for run, given, preview in [("a", "x" * 900, None), ("b", ["y"], None), ("c", "secret", "something")]:
            await boss.agent_tools.start(_kid(boss), given, run_id=run, input_preview=preview, display_order=7)
        runs = await boss.agent_tools.list()
        assert [run.input_preview for run in runs] == ["x" * 499 + "…", '["y"]', "something"]
        assert [run.input for run in runs] == ["x" * 900, ["y"], "secret"]


async def test_clearing_the_conversation_stops_what_works_for_it(base: str) -> None:
    async with running(crew(base)) as boss:
        turn = asyncio.create_task(boss.save_messages([asked("gate:a")]))
        await GATES["gate:a"].reached.wait()
        await boss.clear_history()
        assert (await turn).status == "aborted"
        assert (await boss._runtime.runs.wait("agent-tool:c0")).status == "aborted"


def _kid(boss: Any) -> type[Any]:
    kid: type[Any] = boss.tools[0].child_class
    return kid


def test_an_agents_tools_say_which_sub_agents_it_has(base: str) -> None:
    crewed = crew(base)
    assert Everyword([crewed.boss], store="memory:").classes == {"boss": crewed.boss}
    from everyword.agents.sub_agent_classes import child_classes

    assert child_classes(crewed.boss) == {"kid": crewed.kid}
