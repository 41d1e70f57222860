"""Stopping in good order: what may go on, what is recorded, and which attempts count (R-17, R-19)."""

from __future__ import annotations

import asyncio
import logging
from typing import Literal

import pytest

from everyword.core.commands import CancelTurns
from everyword.core.state import Rules
from everyword.errors import LogUnavailable
from everyword.events import AttemptDelayed, AttemptInterrupted, AttemptStarted, MessageEnded, Outcome, TurnEnded
from everyword.ids import AgentId, Millis, RequestId
from everyword.log.base import Pruned
from everyword.log.memory import MemoryLog
from everyword.messages.message import UIMessage
from everyword.runtime.api import TurnCall
from everyword.runtime.directory import Directory, Settings
from everyword.testing import CrashingLog, Gate, ManualClock, ScriptedResponder
from everyword.testing.scripted_responder import Item
from tests.runtime.kit import AGENT, PATIENCE, QUICK, SlowDisk, kill_everything, killed, running, soon, submit, watching

STEPS = 30


def stepping(gates: list[Gate]) -> ScriptedResponder:
    """Answers in thirty steps; before each of them it waits at the next gate, while there are some."""

    def script(call: TurnCall) -> list[Item]:
        done = sum(part["type"] == "text" for part in call.partial.parts) if call.partial is not None else 0
        items: list[Item] = []
        for number in range(done, STEPS):
            items += [*gates[:1], {"type": "start-step"}, f"step {number}", {"type": "finish-step"}]
            del gates[:1]
        return items

    return ScriptedResponder(script, rules=Rules(max_attempts=2))


async def test_a_long_turn_survives_many_shutdowns_and_many_kills() -> None:
    store, clock = MemoryLog(), ManualClock()
    for life in range(24):
        gates = [Gate(), Gate()]
        process = killed if life % 2 else running
        async with process(store, stepping(list(gates)), clock) as directory:
            async with directory.attach(AGENT) as loaded:
                await loaded.actor.ask(submit("r1"))
                gates[0].open()
                await gates[1].reached.wait()
    async with running(store, stepping([]), clock) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded, 0) as watcher:
            ended = await watcher.ended(1)
            events = watcher.events
    assert ended.outcome is Outcome.COMPLETED
    (message,) = [UIMessage.decode(bytes(event.message)) for event in events if isinstance(event, MessageEnded)]
    assert [part["text"] for part in message.parts if part["type"] == "text"] == [f"step {n}" for n in range(STEPS)]
    assert sum(isinstance(event, AttemptInterrupted) for event in events) == 12
    causes = [event.cause for event in events if isinstance(event, AttemptStarted)]
    assert causes == ["first", *["shutdown", "crash"] * 12]


async def test_a_turn_without_progress_survives_shutdowns_but_not_as_many_kills() -> None:
    store, clock, rules = MemoryLog(), ManualClock(), Rules(max_attempts=3)
    for process in [running] * 7 + [killed] * 3:
        gate = Gate()
        async with process(store, ScriptedResponder([gate], rules=rules), clock) as directory:
            async with directory.attach(AGENT) as loaded:
                await loaded.actor.ask(submit("r1"))
                await gate.reached.wait()
    async with running(store, ScriptedResponder(["late"], rules=rules), clock) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded, 0) as watcher:
            ended = await watcher.ended(1)
    assert (ended.outcome, ended.reason) == (Outcome.ERROR, "attempts-exhausted")
    assert ended.detail == "3 attempts did not end"


async def test_a_failure_that_may_pass_is_tried_again_as_often_after_a_shutdown() -> None:
    class Passing(Exception):
        retryable = True

    store, clock, rules, gate = MemoryLog(), ManualClock(), Rules(max_attempts=2), Gate()
    async with running(store, ScriptedResponder([gate], rules=rules), clock) as directory:
        async with directory.attach(AGENT) as loaded:
            await loaded.actor.ask(submit("r1"))
            await gate.reached.wait()
    responder = ScriptedResponder([Passing("busy")], rules=rules)
    async with running(store, responder, clock) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded, 0) as watcher:
            await soon(lambda: len(responder.calls) == 1)
            await watcher.until(lambda event: type(event).__name__ == "AttemptDelayed")
            clock.advance(60)
            ended = await watcher.ended(1)
    assert [call.attempt for call in responder.calls] == [2, 3]
    assert ended.outcome is Outcome.ERROR


async def test_while_it_drains_only_turns_that_our_own_code_asked_for_begin() -> None:
    store, clock, gate = MemoryLog(), ManualClock(), Gate()
    other = AgentId("chat/bob")
    responders = {AGENT: ScriptedResponder([gate]), other: ScriptedResponder(["yes"])}
    directory = Directory(store, responders.__getitem__, clock=clock, settings=Settings(grace=PATIENCE))
    await directory.open()
    async with directory.attach(AGENT) as loaded:
        await loaded.actor.ask(submit("r1"))
        await gate.reached.wait()
        closing = asyncio.create_task(directory.aclose())
        await soon(lambda: directory.is_stopping)
        async with directory.attach(other) as beside, watching(beside, 0) as watcher:
            await beside.actor.ask(submit("ours", trusted=True))
            assert (await watcher.ended(1)).outcome is Outcome.COMPLETED
            await beside.actor.ask(submit("theirs"))
        gate.open()
        await closing
    assert [call.request for call in responders[other].calls] == ["ours"]


async def test_a_stop_that_is_committed_while_the_process_stops_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    store, clock, answering = SlowDisk(), ManualClock(), Gate()
    store.gate.open()
    directory = Directory(store, ScriptedResponder(["so far", answering]), clock=clock, settings=QUICK)
    await directory.open()
    async with directory.attach(AGENT) as loaded, asyncio.timeout(PATIENCE):
        await loaded.actor.ask(submit("r1"))
        await answering.reached.wait()
        store.gate = Gate()
        cancelling = asyncio.create_task(loaded.actor.insist(CancelTurns(RequestId("r1"))))
        await store.gate.reached.wait()
        closing = asyncio.create_task(directory.aclose())
        await soon(lambda: directory.is_closed)
        store.gate.open()
        await closing
        assert len(await cancelling) == 1, "who asked is told that it is committed"
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
    async with running(store, ScriptedResponder([]), clock) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded, 0) as watcher:
            assert (await watcher.ended(1)).outcome is Outcome.ABORTED


async def test_nothing_is_written_after_the_interruption_whatever_the_code_does() -> None:
    class Stubborn(ScriptedResponder):
        async def stream(self, call: TurnCall):  # type: ignore[no-untyped-def, override]
            yield "before"
            try:
                await gate.wait()
            except asyncio.CancelledError:
                yield "after"
                raise ValueError("after, too") from None

    store, clock, gate = MemoryLog(), ManualClock(), Gate()
    async with running(store, Stubborn([]), clock) as directory:
        async with directory.attach(AGENT) as loaded:
            await loaded.actor.ask(submit("r1"))
            await gate.reached.wait()
    await store.open()
    bodies = [bytes(stored.body) for stored in await store.read(AGENT, 0, 100)]  # type: ignore[arg-type]
    await store.aclose()
    assert b"attempt.interrupted" in bodies[-1]
    assert not any(b"after" in body for body in bodies) and any(b"before" in body for body in bodies)
    assert not any(TurnEnded.__struct_config__.tag.encode() in body for body in bodies)  # type: ignore[union-attr]


async def test_a_turn_whose_beginning_is_being_committed_when_the_drain_begins_is_run() -> None:
    store, clock, gate, other = SlowDisk(), ManualClock(), Gate(), AgentId("chat/bob")
    responders = {AGENT: ScriptedResponder(["yes"]), other: ScriptedResponder([gate])}
    directory = Directory(store, responders.__getitem__, clock=clock, settings=Settings(grace=PATIENCE))
    store.gate.open()
    await directory.open()
    async with directory.attach(other) as beside, directory.attach(AGENT) as loaded, watching(loaded, 0) as watcher:
        await beside.actor.ask(submit("r1"))
        await gate.reached.wait()
        store.gate = Gate()
        asking = asyncio.create_task(loaded.actor.ask(submit("r1")))
        await store.gate.reached.wait()
        closing = asyncio.create_task(directory.aclose())
        await soon(lambda: directory.is_stopping)
        store.gate.open()
        await asking
        assert (await watcher.ended(1)).outcome is Outcome.COMPLETED
        gate.open()
        await closing


@pytest.mark.parametrize("kills", [0, 1])
async def test_an_attempt_whose_beginning_is_being_committed_at_the_interruption_does_not_count(kills: int) -> None:
    store, clock, rules = SlowDisk(), ManualClock(), Rules(max_attempts=kills + 1)
    store.gate.open()
    for _ in range(kills):
        gate = Gate()
        async with killed(store, ScriptedResponder([gate], rules=rules), clock) as directory:
            async with directory.attach(AGENT) as loaded:
                await loaded.actor.ask(submit("r1"))
                await gate.reached.wait()
    store.gate = Gate()
    directory = Directory(store, ScriptedResponder(["no"], rules=rules), clock=clock, settings=Settings(grace=0.0))
    await directory.open()
    async with directory.attach(AGENT) as loaded:
        asking = asyncio.create_task(loaded.actor.ask(submit("r1")))
        await store.gate.reached.wait()
        closing = asyncio.create_task(directory.aclose())
        await soon(lambda: directory.is_closed)
        store.gate.open()
        await closing
        await asyncio.wait([asking])
    async with running(store, ScriptedResponder(["yes"], rules=rules), clock) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded, 0) as watcher:
            assert (await watcher.ended(1)).outcome is Outcome.COMPLETED
            causes = [event.cause for event in watcher.events if isinstance(event, AttemptStarted)]
    assert causes == ["first", *["crash"] * kills, "shutdown"]


async def test_a_turn_that_waits_before_its_next_attempt_does_not_delay_the_shutdown() -> None:
    class Passing(Exception):
        retryable = True

    store, clock = MemoryLog(), ManualClock()
    endless = Settings(grace=1_000_000.0)
    async with running(store, ScriptedResponder([Passing("busy")]), clock, endless) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded, 0) as watcher:
            await loaded.actor.ask(submit("r1"))
            await watcher.until(lambda event: isinstance(event, AttemptDelayed))
    async with running(store, ScriptedResponder(["yes"]), clock) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded, 0) as watcher:
            assert (await watcher.ended(1)).outcome is Outcome.COMPLETED


@pytest.mark.parametrize(("when", "cause"), [("before", "crash"), ("after", "shutdown")])
async def test_a_process_that_dies_at_its_last_commit_leaves_a_turn_that_goes_on(
    when: Literal["before", "after"], cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("everyword.runtime.directory.LET_GO", 0.01)
    store, clock, gate = MemoryLog(), ManualClock(), Gate()
    log = CrashingLog(store, at=2, when=when)  # the first append is the question, with its attempt
    directory = Directory(log, ScriptedResponder([gate]), clock=clock, settings=Settings(grace=0.0))
    await directory.open()
    async with directory.attach(AGENT) as loaded:
        await loaded.actor.ask(submit("r1"))
        await gate.reached.wait()
    await directory.aclose()
    assert log.crashed.is_set(), "the shutdown does not wait for a store that hangs"
    await kill_everything()
    await store.aclose()
    async with running(store, ScriptedResponder(["yes"]), clock) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded, 0) as watcher:
            assert (await watcher.ended(1)).outcome is Outcome.COMPLETED
            causes = [event.cause for event in watcher.events if isinstance(event, AttemptStarted)]
    assert causes == ["first", cause]


class LostConnection(MemoryLog):
    """Hangs from now on, and answers a cancellation with an error, as a driver whose connection is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.hangs_in = ""
        self.reached = asyncio.Event()

    async def prune(self, before: Millis, *, limit: int = 2000) -> Pruned:
        await self._hang("prune")
        return await super().prune(before, limit=limit)

    async def due(self, until: Millis, limit: int = 1000) -> list[tuple[AgentId, Millis]]:
        await self._hang("due")
        return await super().due(until, limit)

    async def _hang(self, method: str) -> None:
        if method == self.hangs_in:
            self.reached.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise LogUnavailable("unable to go on; the connection was closed") from None


@pytest.mark.parametrize("method", ["prune", "due"])
async def test_a_store_that_swallows_a_cancellation_does_not_stop_the_shutdown(method: str) -> None:
    store, clock = LostConnection(), ManualClock()
    async with asyncio.timeout(PATIENCE), running(store, ScriptedResponder([]), clock) as directory:
        store.hangs_in = method
        directory.wakes.look_again()
        clock.advance(directory.settings.retention_every / 1000)
        await store.reached.wait()
    assert directory.is_closed
