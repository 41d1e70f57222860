"""The one writer works without a task: commands that come during a commit wait for it, and every caller returns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest

from everyword.core.commands import Command, Emitted, ReplaceState, Submit
from everyword.core.decide import decide
from everyword.core.state import State
from everyword.errors import AgentStopped
from everyword.events import Chunk, Event, Outcome, StateSet, to_raw
from everyword.ids import Attempt, Seq, TurnId
from everyword.log.base import Stored
from everyword.log.memory import MemoryLog
from everyword.runtime.api import TurnCall
from everyword.testing import Gate, ManualClock, ScriptedResponder
from tests.runtime.facts import held, rounds, says, written
from tests.runtime.kit import AGENT, PATIENCE, SlowDisk, running, submit, watching

asked_by: ContextVar[str] = ContextVar("asked_by", default="nobody")


async def reopened(store: MemoryLog) -> list[Stored]:
    """Read the log of a store that is closed."""
    await store.open()
    events = await store.read(AGENT, Seq(0))
    await store.aclose()
    return events


async def test_what_is_asked_during_a_commit_is_decided_together_behind_it() -> None:
    store = SlowDisk()
    async with running(store, ScriptedResponder([])) as directory:
        async with directory.attach(AGENT) as loaded, asyncio.timeout(PATIENCE):
            first = asyncio.create_task(loaded.actor.ask(ReplaceState(to_raw(1))))
            await rounds()
            others = [asyncio.create_task(loaded.actor.ask(ReplaceState(to_raw(value)))) for value in (2, 3)]
            await rounds()
            assert store.appends == 1, "nothing is decided on what is not committed"
            assert not any(task.done() for task in (first, *others))
            store.gate.open()
            await asyncio.gather(first, *others)
            assert store.appends == 2
        assert [bytes(event.state) for event in await written(store) if isinstance(event, StateSet)] == [
            b"1",
            b"2",
            b"3",
        ]


async def test_a_caller_of_an_actor_cancelled_during_a_commit_gets_an_error() -> None:
    store = SlowDisk()
    async with running(store, ScriptedResponder(["yes"])) as directory:
        async with directory.attach(AGENT) as loaded, asyncio.timeout(PATIENCE):
            waiting = [asyncio.create_task(loaded.actor.ask(submit(name))) for name in ("r1", "r2")]
            await rounds()
            waiting.append(asyncio.create_task(loaded.actor.ask(submit("r3"))))
            await rounds()
            assert loaded.task is not None
            loaded.task.cancel()
            for task in waiting:
                with pytest.raises(AgentStopped, match="Reconnect"):
                    await task
            assert loaded.actor.tail.closed
            assert await written(store) == []


async def test_answers_run_in_the_agents_own_context() -> None:
    found: list[str] = []

    def answer(call: TurnCall) -> list[str]:
        found.append(asked_by.get())
        return ["yes"]

    async with running(MemoryLog(), ScriptedResponder(answer)) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            asked_by.set("somebody")
            await loaded.actor.ask(submit("r1"))
            assert (await watcher.ended(1)).outcome is Outcome.COMPLETED
    assert found == ["nobody"]


async def test_an_answer_that_is_there_at_once_is_two_commits_its_acceptance_and_all_of_it() -> None:
    store = SlowDisk()
    store.gate.open()
    async with running(store, ScriptedResponder(["One ", "two ", "three."])) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1"))
            assert (await watcher.ended(1)).outcome is Outcome.COMPLETED
    assert store.appends == 2


async def test_words_are_decided_in_order_with_what_else_waits() -> None:
    store, gate = SlowDisk(), Gate()
    store.gate.open()
    async with running(store, held(gate)) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1"))
            await watcher.until(says(b"Hello "))
            offer = partial(loaded.actor.offer, TurnId(1), Attempt(1))
            store.gate = Gate()
            assert offer([Emitted(b'{"type":"data-x","data":1}')])
            asked = asyncio.create_task(loaded.actor.ask(ReplaceState(to_raw(1))))
            await asyncio.sleep(0)
            assert offer([Emitted(b'{"type":"data-x","data":2}')])
            store.gate.open()
            await asked
            gate.open()
            await watcher.ended(1)
            said = [event for event in watcher.events if isinstance(event, StateSet) or says(b"data-x")(event)]
            assert [type(event) for event in said] == [Chunk, StateSet, Chunk]
            indexes = [event.index for event in watcher.events if isinstance(event, Chunk)]
            assert indexes == list(range(len(indexes)))


async def test_words_of_an_attempt_that_is_over_are_dropped_without_a_word() -> None:
    store, gate = SlowDisk(), Gate()
    store.gate.open()
    async with running(store, held(gate)) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1"))
            await watcher.until(says(b"Hello "))
            before = store.appends
            assert loaded.actor.offer(TurnId(1), Attempt(2), [Emitted(b'{"type":"data-x","data":1}')])
            await rounds()
            assert store.appends == before
            gate.open()
            assert (await watcher.ended(1)).outcome is Outcome.COMPLETED


def deciding(request: str, failure: BaseException) -> Callable[..., list[Event]]:
    """Return a `decide` that breaks at one request."""

    def broken(state: State, command: Command, *more: Any) -> list[Event]:
        if isinstance(command, Submit) and command.request == request:
            raise failure
        return decide(state, command, *more)

    return broken


async def test_an_actor_that_was_cut_short_in_a_decision_is_gone_and_nothing_of_it_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryLog()
    monkeypatch.setattr("everyword.runtime.decided_batch.decide", deciding("r2", asyncio.CancelledError()))
    async with running(store, ScriptedResponder(["yes"])) as directory:
        async with directory.attach(AGENT) as loaded, asyncio.timeout(PATIENCE):
            asked = [asyncio.create_task(loaded.actor.ask(submit(name))) for name in ("r1", "r2")]
            for task in asked:
                with pytest.raises(AgentStopped):
                    await task
            assert loaded.actor.tail.closed
            with pytest.raises(AgentStopped):  # not a state that was never committed
                await loaded.actor.inspect(lambda state: list(state.requests))
            assert await written(store) == []
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1"))
            assert (await watcher.ended(1)).outcome is Outcome.COMPLETED


@pytest.mark.parametrize("failure", [asyncio.CancelledError(), StopIteration(), ZeroDivisionError()], ids=repr)
async def test_an_error_after_a_commit_ends_the_actor_and_all_callers_return(failure: BaseException) -> None:
    def broken(*_: Any) -> None:
        raise failure

    async with running(MemoryLog(), ScriptedResponder(["yes"])) as directory:
        async with directory.attach(AGENT) as loaded, asyncio.timeout(PATIENCE):
            loaded.reconciler.changed = broken  # type: ignore[method-assign]
            with pytest.raises(AgentStopped):
                await loaded.actor.ask(submit("r1"))
            assert loaded.task is not None
            await asyncio.wait([loaded.task])


async def test_the_times_of_an_agent_never_go_back_whatever_the_clocks_of_its_owners_say() -> None:
    store, ahead, behind = MemoryLog(), ManualClock(2_000_000), ManualClock(1_000_000)
    for clock in (ahead, behind):
        async with running(store, ScriptedResponder([]), clock) as directory, directory.attach(AGENT) as loaded:
            await loaded.actor.ask(ReplaceState(to_raw(clock.now())))
    assert [stored.at for stored in await reopened(store)] == [2_000_000, 2_000_000]

    async with running(store, ScriptedResponder([]), behind) as directory, directory.attach(AGENT) as loaded:
        behind.advance(1_000.001)
        await loaded.actor.ask(ReplaceState(to_raw(3)))
        await loaded.actor.ask(ReplaceState(to_raw(4)))
    assert [stored.at for stored in await reopened(store)] == [2_000_000, 2_000_000, 2_000_001, 2_000_001]


async def test_what_one_command_raises_keeps_no_other_from_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("everyword.runtime.decided_batch.decide", deciding("r2", StopIteration()))
    async with running(MemoryLog(), ScriptedResponder(["yes"])) as directory:
        async with directory.attach(AGENT) as loaded, asyncio.timeout(PATIENCE):
            asked = [asyncio.create_task(loaded.actor.ask(submit(name))) for name in ("r1", "r2", "r3")]
            first, second, third = await asyncio.gather(*asked, return_exceptions=True)
            assert isinstance(second, RuntimeError)
            assert [isinstance(told, list) for told in (first, third)] == [True, True]
