"""The state as the agent's own code reads it, at once, and as all others read it, once it is committed (R-21)."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from everyword import AIChatAgent, Turn, get_current_agent
from everyword.agents.state import change_state
from everyword.errors import AgentGone, AgentStopped, LogUnavailable, NoJsonForm, UsageError
from everyword.log.memory import MemoryLog
from everyword.runtime.agent_runtime.agent_runtime import AgentRuntime
from everyword.testing import CrashingLog, ManualClock
from tests.agents.state.kit import Counter, FullDisk, connection, directory_of, loaded, states, unawaited
from tests.runtime.facts import rounds, written
from tests.runtime.kit import AGENT, SlowDisk, kill_everything, soon
from tests.timeouts import PATIENCE

# -- when it takes effect ---------------------------------------------------------------------------------------------


async def test_a_state_is_visible_to_the_agent_at_once_and_to_others_when_committed() -> None:
    store = SlowDisk()
    async with loaded(store=store) as scene:
        change = scene.own.set_state({"n": 1})
        assert scene.own.state == {"n": 1}
        await soon(lambda: store.appends == 1)
        assert (scene.outside().state, scene.committed) == ({"n": 0}, None)
        store.gate.open()
        assert await change == {"n": 1}
        assert (scene.own.state, scene.outside().state, scene.committed) == ({"n": 1}, {"n": 1}, {"n": 1})


@pytest.mark.parametrize("method", ["add", "count"])
async def test_fifty_callers_at_once_lose_nothing(method: str) -> None:
    store = MemoryLog()
    async with loaded(store=store) as scene:
        results = await asyncio.gather(*(getattr(scene.own, method)() for _ in range(50)))
        assert scene.own.state == scene.committed == {"n": 50}
        assert states(await written(store)) == [{"n": number} for number in range(1, 51)]
        if method == "count":
            assert sorted(results) == list(range(1, 51)), "each is told the state that it made"


async def test_what_is_set_is_a_copy_and_what_is_read_is_one_too() -> None:
    async with loaded() as scene:
        initial = scene.own.state
        initial["n"] = 7
        assert (Counter.initial_state, scene.own.state) == ({"n": 0}, {"n": 0})
        given = {"n": 1, "list": [1]}
        change = scene.own.set_state(given)
        given["list"].append(2)  # type: ignore[attr-defined]
        scene.own.state["list"].append(3)
        result = await change
        result["list"].append(4)
        assert scene.own.state == scene.committed == {"n": 1, "list": [1]}
        assert await scene.own.update_state(lambda state: state.update(n=2) or state) == {"n": 2, "list": [1]}


async def test_a_client_that_sets_the_state_is_heard_by_the_agent_at_once_too() -> None:
    store = SlowDisk()
    async with loaded(store=store) as scene:
        theirs = change_state(scene.own, lambda owner: {"n": 10}, connection("tab"))
        ours = scene.own.update_state(lambda state: {"n": state["n"] + 1})
        later = change_state(scene.own, lambda owner: {"n": owner.state["n"] * 2}, connection("tab"))
        assert (scene.own.state, scene.committed) == ({"n": 22}, None)
        store.gate.open()
        assert [await theirs, await ours, await later] == [{"n": 10}, {"n": 11}, {"n": 22}]
        assert states(await written(store)) == [{"n": 10}, {"n": 11}, {"n": 22}]
        assert scene.own.heard == [(10, "tab"), (11, "server"), (22, "tab")]


async def test_code_outside_the_agent_reads_its_own_states_and_updates() -> None:
    store = SlowDisk()
    async with loaded(store=store) as scene:
        one, other = scene.outside(), scene.outside()
        first, second = one.set_state({"n": 1}), other.update_state(lambda state: {"n": state["n"] + 10})
        assert (one.state, other.state, scene.own.state) == ({"n": 1}, {"n": 11}, {"n": 11})
        assert scene.outside().state == {"n": 0}
        store.gate.open()
        await first, await second
        assert scene.own.heard == [(1, "server"), (11, "server")], "the hook is the loaded agent's"
        assert one.heard == other.heard == []


async def test_an_agent_that_is_not_loaded_is_loaded_for_its_states_in_their_order() -> None:
    store, clock = MemoryLog(), ManualClock()
    directory = directory_of(Counter, store, clock)
    async with asyncio.timeout(PATIENCE), directory:
        agent = Counter(AgentRuntime(directory, AGENT))
        changes = [agent.set_state({"n": 1}), agent.update_state(lambda state: {"n": state["n"] + 1})]
        assert directory.peek(AGENT) is None
        await agent._runtime.load()
        changes.append(agent.set_state({"n": 30}))
        assert [await change for change in changes] == [{"n": 1}, {"n": 2}, {"n": 30}]
        assert states(await written(store)) == [{"n": 1}, {"n": 2}, {"n": 30}]


# -- refused and failed -----------------------------------------------------------------------------------------------


async def test_a_refused_state_never_takes_effect_so_nothing_is_built_on_it() -> None:
    store = SlowDisk()
    async with loaded(store=store) as scene:
        first = scene.own.set_state({"n": 1})
        refused = scene.own.set_state({"n": -5})
        assert scene.own.state == {"n": 1}
        later = scene.own.update_state(lambda state: {"n": state["n"] + 1})
        with pytest.raises(ValueError, match="less than nothing"):
            await refused
        store.gate.open()
        assert [await first, await later] == [{"n": 1}, {"n": 2}]
        assert states(await written(store)) == [{"n": 1}, {"n": 2}]
        assert scene.own.heard == [(1, "server"), (2, "server")]


async def test_what_was_set_after_a_state_that_could_not_be_committed_fails_with_it() -> None:
    store = FullDisk()
    async with loaded(store=store) as scene:
        store.gate.open()
        await scene.own.set_state({"n": 1})
        store.gate, store.is_full = type(store.gate)(), True
        own, seen = scene.own, []
        changes = [own.set_state({"n": 2})]
        await rounds()  # it is being appended, alone
        changes += [own.update_state(lambda state: {"n": state["n"] + 1}) for _ in range(2)]
        assert own.state == {"n": 4}
        store.gate.open()
        for change in changes:
            with pytest.raises((LogUnavailable, AgentStopped)):
                await change
            seen.append(own.state)
        assert seen == [{"n": 1}] * 3, "the committed one is in force again"
        assert states(await written(store)) == [{"n": 1}] and own.heard == [(1, "server")]
        store.is_full = False
        await soon(lambda: scene.directory.peek(AGENT) is None)
        scene.clock.advance(1_000)
        await soon(lambda: scene.directory.peek(AGENT) is not None)
        assert await scene.own.add() == 2


async def test_a_state_that_is_not_awaited_is_stored_without_a_warning() -> None:
    store = SlowDisk()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        async with loaded(store=store) as scene:
            scene.own.set_state({"n": 1})
            scene.outside().set_state({"n": 2})
            gc.collect()
            store.gate.open()
            await soon(lambda: scene.committed == {"n": 2})
            await soon(lambda: len(scene.own.heard) == 2)
            assert scene.own.heard == [(1, "server"), (2, "server")]


async def test_a_failure_that_is_not_awaited_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    store = FullDisk()
    async with loaded(store=store) as scene:
        scene.own.set_state({"n": -1})
        assert unawaited(caplog) == ["a state of Counter('ann') was not stored, and no code awaited it"]
        assert caplog.records[-1].exc_info is not None and caplog.records[-1].levelno == logging.ERROR
        assert caplog.records[-1].exc_info[0] is ValueError
        caplog.clear()
        store.is_full = True
        scene.own.set_state({"n": 1})
        store.gate.open()
        await soon(lambda: bool(unawaited(caplog)))
        assert len(unawaited(caplog)) == 1


async def test_a_failure_that_is_awaited_late_or_twice_is_raised_and_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with loaded() as scene:
        refused = scene.own.set_state({"n": -1})
        await rounds()
        for _ in range(2):
            with pytest.raises(ValueError, match="less than nothing"):
                await refused
        del refused
        gc.collect()
        assert unawaited(caplog) == []


async def test_a_failure_whose_caller_was_cancelled_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    store = FullDisk()
    async with loaded(store=store) as scene:
        store.is_full = True
        caller = asyncio.create_task(scene.own.add())
        await rounds()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        del caller
        store.gate.open()
        await soon(lambda: len(unawaited(caplog)) == 1)


async def test_a_caller_that_is_cancelled_takes_nothing_from_the_others() -> None:
    store = SlowDisk()
    async with loaded(store=store) as scene:
        change = scene.own.set_state({"n": 1})

        async def wait() -> Any:
            return await change

        tasks = [asyncio.create_task(wait()) for _ in range(3)]
        await rounds()
        tasks[0].cancel()
        await rounds()
        store.gate.open()
        assert (await tasks[1], await tasks[2], scene.committed) == ({"n": 1}, {"n": 1}, {"n": 1})


async def not_plain(state: Any) -> Any:
    return state


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda state: None, "the function returned None. Return the new state"),
        (not_plain, "the function is async"),
    ],
)
async def test_a_function_that_makes_no_state_is_refused(change: Callable[[Any], Any], text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        async with loaded() as scene:
            with pytest.raises(UsageError, match=text):
                await scene.own.update_state(change)
            gc.collect()
            assert scene.own.state == {"n": 0}


async def test_what_a_function_raises_is_the_callers_and_changes_nothing() -> None:
    async with loaded() as scene:
        with pytest.raises(KeyError):
            await scene.own.update_state(lambda state: {"n": state["missing"]})
        with pytest.raises(NoJsonForm):
            await scene.own.set_state({"n": 1, "file": threading.Lock()})
        assert scene.own.state == {"n": 0}


# -- the hook ---------------------------------------------------------------------------------------------------------


async def test_the_hook_is_called_after_the_commit_and_has_begun_when_the_caller_goes_on() -> None:
    seen: list[Any] = []

    class Hooked(Counter):
        async def on_state_changed(self, state: Any, source: Any) -> None:
            loaded = self._runtime._directory.peek(AGENT)  # type: ignore[attr-defined]
            seen.append((state["n"], loaded.reconciler.view.state_value is not None, get_current_agent() is self))
            if state["n"] < 3:
                await self.add()

    async with loaded(Hooked) as scene:
        await scene.outside(Hooked).set_state({"n": 1})
        assert seen == [(1, True, True)]
        await soon(lambda: seen == [(1, True, True), (2, True, True), (3, True, True)])


async def test_a_hook_that_is_slow_or_fails_delays_no_caller(caplog: pytest.LogCaptureFixture) -> None:
    class Slow(Counter):
        async def on_state_changed(self, state: Any, source: Any) -> None:
            if state["n"] == 1:
                await asyncio.Event().wait()
            raise RuntimeError("a bug")

    async with loaded(Slow) as scene:
        assert [await scene.own.add(), await scene.own.add()] == [1, 2]
        await soon(lambda: "on_state_changed of Slow('ann') raised" in caplog.text)


# -- where it is set --------------------------------------------------------------------------------------------------


async def test_states_of_on_start_jobs_fibers_turns_and_sub_agents_are_not_lost() -> None:
    class Busy(AIChatAgent):
        initial_state: ClassVar[Any] = {"n": 0}

        async def on_start(self) -> None:
            self.add()
            assert self.state["n"] >= 1

        def add(self) -> None:
            self.update_state(lambda state: {"n": state["n"] + 1})

        async def job(self, payload: Any) -> None:
            self.add()

        async def on_chat_message(self, turn: Turn) -> Any:
            self.add()
            yield f"{self.state['n'] > 1}"

        async def all(self) -> None:
            async def fiber(context: Any) -> None:
                self.add()

            below = await self.sub_agent(Busy, "below")
            jobs = [self.queue("job") for _ in range(10)]
            fibers = [self.run_fiber("count", fiber) for _ in range(10)]
            kid = [below.add() for _ in range(10)]
            turn = self.save_messages([{"id": "u", "role": "user", "parts": [{"type": "text", "text": "hi"}]}])
            await asyncio.gather(turn, *jobs, *fibers, *kid)
            assert await below.get_state() == {"n": 11}

    store = MemoryLog()
    async with loaded(Busy, store) as scene:
        await scene.own.all()
        await soon(lambda: scene.own.state == {"n": 22})
        await soon(lambda: scene.committed == {"n": 22})
        assert scene.own.messages[-1].text == "True"


async def test_a_thread_waits_for_the_commit_and_is_told_what_is_refused() -> None:
    async with loaded() as scene:

        def work() -> str:
            scene.own.set_state({"n": 1})
            assert scene.committed == {"n": 1}
            try:
                scene.own.set_state({"n": -1})
            except ValueError as exc:
                return str(exc)
            return "not refused"

        assert await asyncio.to_thread(work) == "less than nothing"
        assert scene.own.state == {"n": 1}


async def test_threads_that_update_the_state_lose_nothing() -> None:
    async with loaded() as scene:

        def work() -> None:
            for _ in range(25):
                scene.own.update_state(lambda state: {"n": state["n"] + 1})

        await asyncio.gather(*(asyncio.to_thread(work) for _ in range(4)))
        assert scene.own.state == scene.committed == {"n": 100}


# -- beginnings and ends ----------------------------------------------------------------------------------------------


async def test_more_states_than_a_mailbox_holds_are_all_stored() -> None:
    store = MemoryLog()
    async with loaded(store=store) as scene:
        for number in range(1, 3_001):
            scene.own.set_state({"n": number})
        await soon(lambda: scene.committed == {"n": 3_000})
        assert len(states(await written(store))) == 3_000


async def test_an_agent_is_not_unloaded_before_its_states_are_committed() -> None:
    store = SlowDisk()
    async with loaded(store=store) as scene:
        scene.own.set_state({"n": 1})
        scene.clock.advance(200_000)
        await rounds()
        assert scene.directory.peek(AGENT) is not None
        store.gate.open()
        await soon(lambda: scene.committed == {"n": 1})
        await rounds()
        scene.clock.advance(200_000)
        await soon(lambda: scene.directory.peek(AGENT) is None)


async def test_a_state_that_was_set_before_a_shutdown_is_stored_and_one_set_after_it_is_refused() -> None:
    store = MemoryLog()
    async with loaded(store=store) as scene:
        own = scene.own
        own.set_state({"n": 1})
        await scene.directory.aclose()
        with pytest.raises(AgentStopped):
            await own.set_state({"n": 2})
        with pytest.raises(AgentStopped):
            await Counter(AgentRuntime(scene.directory, AGENT)).set_state({"n": 3})
    await store.open()
    assert states(await written(store)) == [{"n": 1}]


async def test_a_destroyed_agent_takes_no_state() -> None:
    async with loaded() as scene:
        own = scene.own
        await own.destroy()
        with pytest.raises(AgentGone):
            await own.set_state({"n": 1})
        fresh = scene.outside()
        assert await fresh.set_state({"n": 1}) == {"n": 1}


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", range(1, 7))
async def test_after_a_crash_the_state_is_the_last_that_was_committed(at: int, when: Any) -> None:
    store, clock = MemoryLog(), ManualClock()
    log = CrashingLog(store, at, when)
    directory = directory_of(Counter, log, clock)  # type: ignore[arg-type]
    told: list[int] = []

    async def call(own: Counter) -> None:
        told.append(await own.count())

    async with asyncio.timeout(PATIENCE):
        await directory.open()
        await AgentRuntime(directory, AGENT).load()
        own: Any = directory.peek(AGENT).owner  # type: ignore[union-attr]
        calls = []
        for _ in range(6):
            calls.append(asyncio.create_task(call(own)))
            await rounds(9)
        await log.crashed.wait()
        await kill_everything()
    await store.aclose()
    async with loaded(store=store) as scene:
        n = scene.own.state["n"]
        assert set(told) <= set(range(1, n + 1)), "what a caller was told is stored"
        assert n == len(states(await written(store)))
        assert [await scene.own.count() for _ in range(2)] == [n + 1, n + 2]
