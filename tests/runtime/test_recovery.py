"""Turns whose attempt died, stalled or failed in a way that may pass: tried again, bounded, and told honestly."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from everyword.core import commands
from everyword.core.state import Rules
from everyword.errors import ChatError, LogUnavailable
from everyword.events import ABSENT, AttemptDelayed, AttemptStarted, Chunk, MessageEnded, Outcome, TurnEnded
from everyword.ids import AgentId, Attempt, RequestId, TurnId
from everyword.log.base import Activation
from everyword.log.memory import MemoryLog
from everyword.runtime.agent_runtime.agent_runtime import AgentRuntime
from everyword.runtime.directory import Settings
from everyword.runtime.recovery import Continue, Decision, Recovery, Retry, Stop, Wait, backoff
from everyword.testing import Gate, ManualClock, ScriptedResponder
from tests.runtime.kit import AGENT, PATIENCE, killed, running, submit, user, watching


class Dropped(ChatError):
    """A provider's connection that went away: may pass."""

    retryable = True


class Deciding(ScriptedResponder):
    """A scripted responder with a word in recovery."""

    def __init__(self, script: Any, decisions: list[Decision], **more: Any) -> None:
        super().__init__(script, **more)
        self.decisions = decisions
        self.asked: list[Recovery] = []
        self.exhausted: list[Recovery] = []
        self.given_up = asyncio.Event()

    async def on_recovery(self, recovery: Recovery) -> Decision:
        self.asked.append(recovery)
        return self.decisions.pop(0) if self.decisions else Continue()

    async def on_exhausted(self, recovery: Recovery) -> None:
        self.exhausted.append(recovery)
        self.given_up.set()


def dying(gate: Gate) -> Any:
    """Says half of it and waits for ever in the first attempt; goes on in the next."""
    return lambda call: ["half ", gate] if call.attempt == 1 else ["and the rest"]


async def pass_over(clock: ManualClock, milliseconds: int) -> None:
    """Wait until a task sleeps for exactly this long, then let that time pass."""
    async with asyncio.timeout(PATIENCE):
        while clock.now() + milliseconds not in clock._sleepers.values():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0)
    clock.advance(milliseconds / 1000)


async def left_open(store: MemoryLog, clock: ManualClock) -> None:
    """Run a process that dies in the middle of an answer."""
    gate = Gate()
    async with killed(store, ScriptedResponder(dying(gate)), clock) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1"))
            await gate.reached.wait()
            await watcher.until(lambda event: isinstance(event, Chunk) and b"half" in bytes(event.body))


async def recovered(store: MemoryLog, clock: ManualClock, responder: ScriptedResponder) -> Any:
    async with running(store, responder, clock) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded, 0) as watcher:
            ended = await watcher.ended(1)
            if ended.reason == "attempts-exhausted" and isinstance(responder, Deciding):
                async with asyncio.timeout(PATIENCE):
                    await responder.given_up.wait()
            return ended, watcher.events


async def test_the_hook_is_told_what_happened_and_the_answer_goes_on() -> None:
    store, clock = MemoryLog(), ManualClock()
    await left_open(store, clock)
    clock.advance(5)
    responder = Deciding(dying(Gate()), [Continue()])
    ended, _ = await recovered(store, clock, responder)
    assert ended.outcome is Outcome.COMPLETED
    (asked,) = responder.asked
    assert (asked.cause, asked.attempt, asked.request_id, asked.age, asked.idle) == ("crash", 2, "r1", 5.0, 5.0)
    assert asked.partial is not None and asked.partial.text == "half "
    assert responder.calls[0].partial is not None


async def test_retry_forgets_what_was_said() -> None:
    store, clock = MemoryLog(), ManualClock()
    await left_open(store, clock)
    responder = Deciding(dying(Gate()), [Retry()])
    ended, events = await recovered(store, clock, responder)
    assert ended.outcome is Outcome.COMPLETED
    assert responder.calls[0].partial is None
    message = next(event for event in events if type(event).__name__ == "MessageEnded").message
    assert b"half" not in bytes(message) and b"and the rest" in bytes(message)


@pytest.mark.parametrize(("text", "outcome"), [(None, Outcome.ABORTED), ("gone", Outcome.ERROR)])
async def test_stop_keeps_what_was_said_and_ends_the_turn(text: str | None, outcome: Outcome) -> None:
    store, clock = MemoryLog(), ManualClock()
    await left_open(store, clock)
    ended, events = await recovered(store, clock, Deciding(dying(Gate()), [Stop(text)]))
    assert (ended.outcome, ended.error, ended.reason) == (outcome, text, "recovery-stopped")
    assert b"half " in bytes(next(event for event in events if type(event).__name__ == "MessageEnded").message)


@pytest.mark.parametrize(("text", "outcome"), [(None, Outcome.ABORTED), ("gone", Outcome.ERROR)])
async def test_stop_can_forget_what_was_said(text: str | None, outcome: Outcome) -> None:
    store, clock = MemoryLog(), ManualClock()
    await left_open(store, clock)
    responder = Deciding(dying(Gate()), [Stop(text, forget=True)])
    ended, events = await recovered(store, clock, responder)
    assert (ended.outcome, ended.error, ended.reason) == (outcome, text, "recovery-stopped")
    assert [type(event) for event in events[-2:]] == [AttemptStarted, TurnEnded]
    assert not [event for event in events if isinstance(event, MessageEnded)]
    assert responder.calls == [], "nobody is asked for the attempt that says nothing"


async def test_wait_asks_again_later() -> None:
    store, clock = MemoryLog(), ManualClock()
    await left_open(store, clock)
    responder = Deciding(dying(Gate()), [Wait(61), Wait(17), Continue()])
    async with running(store, responder, clock) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded, 0) as watcher:
            await watcher.until(lambda event: event == AttemptDelayed(TurnId(1), Attempt(2), "crash"))
            await pass_over(clock, 61_000)
            await pass_over(clock, 17_000)
            assert (await watcher.ended(1)).outcome is Outcome.COMPLETED
            assert sum(isinstance(event, AttemptDelayed) for event in watcher.events) == 1
    assert len(responder.asked) == 3


async def test_a_process_that_dies_while_a_turn_waits_leaves_it_recovering_for_the_next() -> None:
    store, clock = MemoryLog(), ManualClock()
    await left_open(store, clock)
    for wait in (61, 17):
        async with running(store, Deciding(dying(Gate()), [Wait(wait)]), clock) as directory:
            async with directory.attach(AGENT) as loaded, watching(loaded, 0) as watcher:
                await watcher.until(lambda event: isinstance(event, AttemptDelayed))
                assert await loaded.actor.inspect(lambda state: state.open[TurnId(1)].recovers_with) == 2
    ended, events = await recovered(store, clock, Deciding(dying(Gate()), []))
    assert ended.outcome is Outcome.COMPLETED
    assert [type(event) for event in events if isinstance(event, AttemptDelayed | AttemptStarted)] == [
        *(AttemptStarted, AttemptDelayed, AttemptStarted),
    ]


async def test_an_answer_that_was_said_to_its_end_is_only_ended() -> None:
    store, clock = MemoryLog(), ManualClock()
    gate = Gate()
    words = [{"type": "text-start", "id": "t"}, {"type": "text-delta", "id": "t", "delta": "all"}]
    script = [*words, {"type": "finish", "messageMetadata": {"usage": {"outputTokens": 7}}}]
    async with running(store, ScriptedResponder([*script]), clock, Settings(grace=0.0)) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1"))
            await watcher.ended(1)
    log = store._logs[AGENT]
    while log.events[-1].kind != "chunk":
        log.events.pop()
    responder = ScriptedResponder(["again", gate])
    assert bytes(log.events[-1].body).count(b'"finish"') == 1
    ended = await _end_of(store, responder, clock)
    assert (ended.outcome, bytes(ended.usage)) == (Outcome.COMPLETED, b'{"outputTokens":7}')
    assert responder.calls == []


async def test_what_another_turn_of_the_message_took_is_not_taken_twice() -> None:
    store, clock = MemoryLog(), ManualClock()
    took = {"type": "finish", "messageMetadata": {"usage": {"outputTokens": 7}}}
    script = lambda call: ["more"] if call.is_continuation else ["all", took]  # noqa: E731 - the shape of a script
    async with running(store, ScriptedResponder(script), clock) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1"))
            await watcher.ended(1)
            await loaded.actor.ask(commands.ContinueTurn(RequestId("r2")))
            await watcher.ended(2)
    log = store._logs[AGENT]
    while log.events[-1].kind != "chunk":
        log.events.pop()
    ended = await _end_of(store, ScriptedResponder([]), clock, turn=2)
    assert (ended.outcome, ended.usage) == (Outcome.COMPLETED, ABSENT)


async def _end_of(store: MemoryLog, responder: ScriptedResponder, clock: ManualClock, *, turn: int = 1) -> TurnEnded:
    """Rebuild the rows that the cut log implies, then load it."""
    from everyword.runtime.rebuild import rebuild

    await store.open()
    await rebuild(store, AGENT, clock.now())
    await store.aclose()
    async with running(store, responder, clock) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded, 0) as watcher:
            return await watcher.ended(turn)


async def test_a_failure_that_may_pass_is_tried_again_after_a_while_and_keeps_what_was_said() -> None:
    clock = ManualClock()
    responder = Deciding(lambda call: ["a", Dropped("x")] if call.attempt < 3 else ["b"], [])
    async with running(MemoryLog(), responder, clock) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1"))
            for attempt in (2, 3):
                await pass_over(clock, backoff(attempt))
            assert (await watcher.ended(1)).outcome is Outcome.COMPLETED
            tries = [event for event in watcher.events if isinstance(event, AttemptStarted | AttemptDelayed)]
    assert tries == [
        AttemptStarted(TurnId(1), Attempt(1), "first"),
        AttemptDelayed(TurnId(1), Attempt(2), "retry"),
        AttemptStarted(TurnId(1), Attempt(2), "retry"),
        AttemptDelayed(TurnId(1), Attempt(3), "retry"),
        AttemptStarted(TurnId(1), Attempt(3), "retry"),
    ]


async def test_a_silent_model_is_given_up_and_asked_again() -> None:
    clock = ManualClock()
    gate = Gate()
    script = lambda call: ["a", gate] if call.attempt == 1 else ["b"]  # noqa: E731 - the shape of a script
    async with running(MemoryLog(), ScriptedResponder(script, rules=Rules(stall_after=1_000)), clock) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1"))
            await gate.reached.wait()
            await pass_over(clock, 1_000)
            await pass_over(clock, backoff(2))
            assert (await watcher.ended(1)).outcome is Outcome.COMPLETED
            started = [event for event in watcher.events if isinstance(event, AttemptStarted)]
    assert [event.cause for event in started] == ["first", "stall"]


async def test_a_failure_that_does_not_pass_ends_the_turn_with_its_own_text_and_the_hook_hears_of_it_once() -> None:
    clock = ManualClock()
    responder = Deciding(["a", Dropped("no luck")], [], rules=Rules(max_attempts=3))
    async with running(MemoryLog(), responder, clock) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1"))
            for attempt in (2, 3):
                await pass_over(clock, backoff(attempt))
            ended = await watcher.ended(1)
            assert (ended.outcome, ended.error) == (Outcome.ERROR, "no luck")
            async with asyncio.timeout(PATIENCE):
                await responder.given_up.wait()
    assert [recovery.attempt for recovery in responder.exhausted] == [4]


async def test_a_turn_that_kills_every_process_is_given_up_once_and_the_hook_hears_of_it() -> None:
    store, clock = MemoryLog(), ManualClock()
    rules = Rules(max_attempts=3, exhausted_text="given up")
    await left_open(store, clock)
    for _ in range(2):
        gate = Gate()
        async with killed(store, ScriptedResponder([gate], rules=rules), clock):
            await gate.reached.wait()
    responder = Deciding([], [], rules=rules)
    ended, events = await recovered(store, clock, responder)
    assert (ended.outcome, ended.error) == (Outcome.ERROR, "given up")
    assert responder.calls == [] and [recovery.attempt for recovery in responder.exhausted] == [4]
    assert b"half " in bytes(next(event for event in events if type(event).__name__ == "MessageEnded").message)


async def test_words_now_and_then_do_not_keep_a_turn_alive_that_is_silent_over_attempts() -> None:
    store, clock = MemoryLog(), ManualClock()
    rules = Rules(max_attempts=9, give_up_after=60_000)
    await left_open(store, clock)
    for _ in range(2):
        gate = Gate()
        async with killed(store, ScriptedResponder([gate], rules=rules), clock):
            await gate.reached.wait()
            clock.advance(40)
    ended, _ = await recovered(store, clock, Deciding([], [], rules=rules))
    assert ended.outcome is Outcome.ERROR and ended.detail is not None and "no output for 80 s" in ended.detail


class NeverLoads(MemoryLog):
    """A store that cannot be reached, and says so at once."""

    attempts = 0

    async def activate(self, agent: AgentId, *, recent: int = 256) -> Activation:
        self.attempts += 1
        raise LogUnavailable("unable to load; connection refused")


async def test_a_caller_waits_before_it_loads_an_agent_again_that_could_not_be_loaded() -> None:
    store = NeverLoads()
    async with running(store, ScriptedResponder(["yes"])) as directory:
        asking = asyncio.create_task(AgentRuntime(directory, AGENT).run_turn([user("u1")], request=RequestId("r1")))
        for _ in range(1000):
            await asyncio.sleep(0)
        assert 1 <= store.attempts < 10
        asking.cancel()
