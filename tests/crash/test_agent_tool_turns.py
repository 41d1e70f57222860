"""The process dies at every append of a boss and its sub-agents; each of them does its work once.

Both logs are in one store, so every append of either is a point to die at: the run's start and end in the boss's log,
the turn's in the sub-agent's, and every word of both.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import pytest

from everyword.agents import responder_for
from everyword.agents.sub_agent_classes import class_of
from everyword.events import AttemptStarted, MessageEnded, Outcome, RunEnded, RunStarted, TurnAccepted, TurnEnded
from everyword.ids import AgentId, RequestId, RunId, agent_id, sub_agent_id
from everyword.log.base import LogStore, Stored
from everyword.log.memory import MemoryLog
from everyword.messages.message import UIMessage
from everyword.messages.repair_tool_calls import INTERRUPTED
from everyword.messages.tool_calls import tool_parts
from everyword.runtime.agent_runtime.agent_runtime import AgentRuntime
from everyword.runtime.directory import Directory
from everyword.testing import CrashingLog, ManualClock
from tests.agents.crew import BASES, Crew, asked, crew
from tests.core.histories import refold
from tests.crash.proofs import check_log, of_kind, read_all
from tests.crash.world import Crash
from tests.runtime.kit import PATIENCE, QUICK, kill_everything

BOSS = agent_id("boss", "ann")
INPUTS = ["one two", "three fail"]
RUNS = {"agent-tool:c0": "completed", "agent-tool:c1": "error", "d": "completed"}
APPENDS = {"chat": 20, "think": 20}
"""At least how many points to die at there are."""


def process(crewed: Crew, log: LogStore, clock: ManualClock) -> Directory:
    directory: Directory

    def responder(agent: AgentId) -> Any:
        cls = class_of(agent, {"boss": crewed.boss})
        assert cls is not None
        return responder_for(cls, AgentRuntime(directory, agent))

    directory = Directory(log, responder, clock=clock, settings=QUICK)
    return directory


async def script(crewed: Crew, directory: Directory) -> None:
    """Ask, wait for the answer, start a detached sub-agent, wait for it; every step may be run again."""
    async with asyncio.timeout(PATIENCE), directory:
        port = AgentRuntime(directory, BOSS)
        await port.run_turn([asked(*INPUTS).to_dict()], request=RequestId("r"))
        await crewed.boss(port).agent_tools.start(crewed.kid, "six seven", run_id="d")
        await port.runs.wait(RunId("d"))
        async with directory.attach(BOSS) as loaded, loaded.subscribe() as subscription:
            while await loaded.actor.inspect(lambda state: any(run.hook_due for run in state.runs.values())):
                await subscription.next()


async def play(crewed: Crew, store: LogStore, *crashes: Crash) -> int:
    """Play the script through processes that die where `crashes` say; return how many appends the last one made."""
    clock = ManualClock()
    for crash in [*crashes, None]:
        log = CrashingLog(store) if crash is None else CrashingLog(store, crash.at, crash.when)
        life = asyncio.create_task(script(crewed, process(crewed, log, clock)))
        death = asyncio.create_task(log.crashed.wait())
        await asyncio.wait([life, death], return_when=asyncio.FIRST_COMPLETED)
        death.cancel()
        if life.done():
            await life
            return log.appends
        await kill_everything()
        await store.aclose()
    raise AssertionError("the last process does not die")


async def verify(crewed: Crew, store: LogStore) -> int:
    """Every run began and ended once, as its own turn did, and the boss was told of all of them; return how many."""
    await store.open()
    log = await read_all(store, BOSS)
    check_log(log)
    ends = {event.run: event for event in of_kind(log, RunEnded)}
    begun = Counter(event.run for event in of_kind(log, RunStarted))
    if is_cut_off(log):  # a call whose input was still on its way is not made, and the model told so
        assert begun == {"d": 1}
        return 1
    assert begun == dict.fromkeys(RUNS, 1)
    assert {run: end.status for run, end in ends.items()} == RUNS and len(of_kind(log, RunEnded)) == len(RUNS)
    (answer,) = of_kind(log, MessageEnded)
    failed = {"ok": False, "status": "error", "error": "no good: three fail", "retryable": False}
    text = "".join(part.get("text", "") for part in json.loads(bytes(answer.message))["parts"])
    told = json.dumps(["one two ", failed])
    assert text and not text.replace(told, ""), "a model that is asked again may say it again, and nothing else"
    assert {run for kind, run, _ in crewed.boss.heard if kind == "finish"} == set(RUNS)
    for run, status in RUNS.items():
        await verify_child(store, sub_agent_id(BOSS, "kid", run), run, status, ends[RunId(run)])
    kept = {row.key: row for row in await store.kept(BOSS) if row.kind == "run"}
    assert set(kept) == set(RUNS)
    return len(RUNS)


def is_cut_off(log: list[Stored]) -> bool:
    (answer,) = of_kind(log, MessageEnded)
    calls = list(tool_parts(UIMessage.decode(bytes(answer.message))))
    return bool(calls) and all(part.get("errorText") == INTERRUPTED for part in calls)


async def verify_child(store: LogStore, child: AgentId, run: str, status: str, end: RunEnded) -> None:
    log = await read_all(store, child)
    check_log(log)
    (accepted,), (ended,) = of_kind(log, TurnAccepted), of_kind(log, TurnEnded)
    assert accepted.request == f"agent-tool:{run}"
    assert ended.outcome is (Outcome.COMPLETED if status == "completed" else Outcome.ERROR)
    assert ended.error == end.error
    assert 1 <= len(of_kind(log, AttemptStarted)) <= 3
    state = refold([(event, stored.at) for stored in log for event in of_kind([stored], object)])  # type: ignore[arg-type]
    assert not state.open


@pytest.mark.parametrize("base", BASES)
async def test_undisturbed_the_script_has_this_many_points_to_die_at(base: str) -> None:
    crewed, store = crew(base), MemoryLog()
    appends = await play(crewed, store)
    await verify(crewed, store)
    assert appends >= APPENDS[base], appends


@pytest.mark.crash
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("base", BASES)
async def test_dying_at_any_append_of_either_log_runs_each_sub_agent_once(base: str, when: Any) -> None:
    """Traps 188 and 190."""
    appends = await play(crew(base), MemoryLog())
    for at in range(1, appends + 1):
        crewed, store = crew(base), MemoryLog()
        await play(crewed, store, Crash(at, when))
        assert await verify(crewed, store) >= 1


@pytest.mark.crash
@pytest.mark.parametrize("base", BASES)
async def test_dying_twice_is_as_good_as_dying_once(base: str) -> None:
    for first, second in [(5, 3), (9, 7), (14, 2), (20, 6), (22, 4), (25, 1)]:
        crewed, store = crew(base), MemoryLog()
        await play(crewed, store, Crash(first, "after"), Crash(second, "before"))
        assert await verify(crewed, store) >= 1
