"""How processes begin, end and rest: what was left is picked up, what runs is let finish, what idles is unloaded."""

from __future__ import annotations

import asyncio

import pytest

from everyword.errors import AgentStopped
from everyword.events import AttemptStarted, HookDone, Outcome, TurnAccepted, to_raw
from everyword.ids import AgentId, Epoch, Millis, Seq
from everyword.log.base import Batch, Entry
from everyword.log.memory import MemoryLog
from everyword.runtime.api import TurnResult
from everyword.runtime.directory import Directory, Settings
from everyword.runtime.wake_scheduler import HORIZON
from everyword.testing import Gate, ManualClock, ScriptedResponder
from tests.runtime.facts import accepted, ends, eventually, has_ended, held, rounds, says, written
from tests.runtime.kit import AGENT, PATIENCE, QUICK, running, soon, submit, texts, watching

# -- start-up --------------------------------------------------------------------------------------------------------


async def test_open_turns_are_picked_up_at_start_although_no_client_is_there() -> None:
    """P-18."""
    store, clock = MemoryLog(), ManualClock()
    await accepted(store, clock, "r1", "r2")
    async with running(store, ScriptedResponder(["fine"]), clock):
        await eventually(lambda: has_ended(store, "r2"))
        assert ends(await written(store)) == {1: 1, 2: 1}


async def test_every_agent_that_is_due_is_picked_up_however_many_they_are() -> None:
    store, count = MemoryLog(), 1_100
    await store.open()
    for number in range(count):
        agent = AgentId(f"chat/{number}")
        await store.activate(agent)
        store.commit(Batch(agent, Epoch(1), Seq(1), Millis(0), [Entry("chat.cleared", None, b"{}")], wake=Millis(0)))
    await store.aclose()
    async with running(store, ScriptedResponder(["fine"])) as directory:
        assert len(directory) == count


async def test_a_debounced_turn_whose_process_died_starts_in_the_next_one_at_its_time() -> None:
    store, clock = MemoryLog(), ManualClock()
    await accepted(store, clock, "r1", policy="debounce")
    responder = ScriptedResponder(["fine"])
    async with running(store, responder, clock) as directory:
        clock.advance(0.749)
        await rounds()
        assert (len(directory), responder.calls) == (0, [])
        clock.advance(0.001)
        await eventually(lambda: has_ended(store))
    assert [call.attempt for call in responder.calls] == [1]


async def test_the_wake_table_is_read_again_in_good_time_and_once() -> None:
    clock = ManualClock()

    class Counting(MemoryLog):
        reads = 0

        async def due(self, until: Millis, limit: int = 1000) -> list[tuple[AgentId, Millis]]:
            self.reads += 1
            return await super().due(until, limit)

    store = Counting()
    async with running(store, ScriptedResponder(["fine"]), clock):
        await rounds()
        assert store.reads == 1
        clock.advance((HORIZON // 2) / 1000)
        await rounds()
        assert store.reads == 2


async def test_a_response_hook_that_was_cut_off_is_called_again_as_recovered() -> None:
    store, clock, reached = MemoryLog(), ManualClock(), asyncio.Event()

    async def hang(result: TurnResult) -> None:
        reached.set()
        await asyncio.Event().wait()

    async with running(store, ScriptedResponder(["fine"], on_response=hang), clock) as directory:
        async with directory.attach(AGENT) as loaded:
            await loaded.actor.ask(submit("r1"))
            await reached.wait()

    async def note(result: TurnResult) -> None:
        pass

    second = ScriptedResponder(["never"], on_response=note)
    async with running(store, second, clock) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            await watcher.until(lambda event: isinstance(event, HookDone))
    assert [(result.outcome, result.recovered) for result in second.results] == [(Outcome.COMPLETED, True)]
    assert second.calls == []


# -- shutdown and idleness (R-19) ------------------------------------------------------------------------------------


async def test_shutdown_lets_running_turns_finish_and_starts_no_other() -> None:
    store, clock, first, last = MemoryLog(), ManualClock(), Gate(), Gate()
    responders = {AGENT: held(first), AgentId("chat/bob"): held(last)}
    directory = Directory(store, responders.__getitem__, clock=clock, settings=Settings(grace=PATIENCE))
    await directory.open()
    async with directory.attach(AGENT) as loaded, directory.attach(AgentId("chat/bob")) as other:
        for actor, gate in ((loaded.actor, first), (other.actor, last)):
            await actor.ask(submit("r1"))
            await gate.reached.wait()
        closing = asyncio.create_task(directory.aclose())
        await soon(lambda: directory.is_stopping)
        await loaded.actor.ask(submit("r2"))  # accepted, and left for the next process
        async with directory.attach(AGENT):
            pass  # until it is closed, what runs may need any agent
        first.open()
        await eventually(lambda: has_ended(store))
        await rounds()
        assert not closing.done(), "the other turn still has its grace"
        last.open()
        await closing
        with pytest.raises(AgentStopped, match="Reconnect"):
            await loaded.actor.ask(submit("r3"))
        with pytest.raises(AgentStopped, match="Reconnect"):
            async with directory.attach(AGENT):
                pass
    await store.open()
    log = await written(store)
    await store.aclose()
    assert [event.turn for event in log if isinstance(event, TurnAccepted)] == [1, 2]
    assert [event.turn for event in log if isinstance(event, AttemptStarted)] == [1]
    assert ends(log) == {1: 1}
    async with running(store, ScriptedResponder(["fine"]), clock):
        await eventually(lambda: has_ended(store, "r2"))


async def test_what_does_not_finish_in_the_grace_period_stays_open_and_the_next_process_ends_it() -> None:
    """P-19."""
    store, clock, gate = MemoryLog(), ManualClock(), Gate()
    async with running(store, held(gate), clock, Settings(grace=0.01)) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1"))
            await watcher.until(says(b"Hello "))
    assert not ends(watcher.events)
    async with running(store, held(gate), clock) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            assert (await watcher.ended(1)).outcome is Outcome.COMPLETED
            assert await loaded.actor.inspect(texts) == [("user", "hi"), ("assistant", "Hello world")]
    assert ends(watcher.events) == {1: 1}


async def test_shutdown_tells_readers_after_everything_committed_was_handed_out() -> None:
    store, clock = MemoryLog(), ManualClock()
    directory = Directory(store, ScriptedResponder(["fine"]), clock=clock, settings=QUICK)
    await directory.open()
    async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
        await loaded.actor.ask(submit("r1"))
        await watcher.ended(1)
        await directory.aclose()
        with pytest.raises(AgentStopped):
            await watcher.until(lambda event: False)
    await store.open()
    assert watcher.events == await written(store)


async def test_an_idle_agent_is_unloaded_and_comes_back_as_it_was() -> None:
    store, clock = MemoryLog(), ManualClock()
    async with running(store, ScriptedResponder(["fine"]), clock) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1"))
            await watcher.ended(1)
            before = await loaded.actor.inspect(texts)
            clock.advance((10 * directory.settings.idle_after) / 1000)
            await rounds()
            assert directory.peek(AGENT) is loaded, "somebody is attached"
        await asyncio.sleep(0)
        clock.advance(directory.settings.idle_after / 1000)
        await soon(lambda: len(directory) == 0)
        async with directory.attach(AGENT) as again, watching(again) as watcher:
            assert again is not loaded
            assert await again.actor.inspect(texts) == before
            await again.actor.ask(submit("r2"))
            assert (await watcher.ended(2)).outcome is Outcome.COMPLETED


async def test_an_unloaded_agent_wakes_for_a_turn_whose_time_has_come() -> None:
    store, clock = MemoryLog(), ManualClock()
    settings = Settings(grace=0.0, idle_after=100)
    async with running(store, ScriptedResponder(["fine"]), clock, settings) as directory:
        async with directory.attach(AGENT) as loaded:
            await loaded.actor.ask(submit("r1", policy="debounce"))
        await asyncio.sleep(0)
        clock.advance(0.1)
        await soon(lambda: len(directory) == 0)
        assert not ends(await written(store))
        clock.advance(0.65)
        await eventually(lambda: has_ended(store))


async def test_an_agent_with_a_running_turn_is_never_unloaded() -> None:
    store, clock, gate = MemoryLog(), ManualClock(), Gate()
    async with running(store, held(gate), clock) as directory:
        async with directory.attach(AGENT) as loaded:
            await loaded.actor.ask(submit("r1"))
            await gate.reached.wait()
        clock.advance((10 * directory.settings.idle_after) / 1000)
        await rounds()
        assert directory.peek(AGENT) is loaded
        gate.open()
        await eventually(lambda: has_ended(store))


async def test_a_turn_with_a_body_and_tools_goes_on_in_the_next_process_with_them() -> None:
    store, clock, gate = MemoryLog(), ManualClock(), Gate()
    responder = ScriptedResponder(lambda call: [gate] if call.attempt == 1 else [f"{call.body} {call.client_tools}"])
    asked = submit("r1", body=to_raw({"model": "x"}), client_tools=to_raw([{"name": "look"}]))
    async with running(store, responder, clock) as directory, directory.attach(AGENT) as loaded:
        await loaded.actor.ask(asked)
        await gate.reached.wait()
    async with running(store, responder, clock) as directory, directory.attach(AGENT) as loaded:
        async with watching(loaded) as watcher:
            await watcher.ended(1)
        said = (await loaded.actor.inspect(texts))[-1][1]
    assert said == "{'model': 'x'} [{'name': 'look'}]"
