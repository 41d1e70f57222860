"""Full disks, damaged files, two owners, code that breaks: what is promised then, and that work goes on after."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from everyword.core.state import Rules
from everyword.errors import AgentStopped, Fenced, LogUnavailable, UsageError
from everyword.events import AttemptStarted, Outcome, TurnAccepted
from everyword.ids import AgentId, Millis
from everyword.log.base import Batch, LogStore
from everyword.log.memory import MemoryLog
from everyword.log.sqlite.store import SqliteLog
from everyword.runtime.directory import Directory, Settings
from everyword.runtime.turn_runner import TurnRunner
from everyword.testing import CrashingLog, Gate, ManualClock, ScriptedResponder
from tests.runtime.facts import accepted, ends, eventually, has_ended, held, rounds, says, written
from tests.runtime.kit import AGENT, PATIENCE, QUICK, kill_everything, running, soon, submit, texts, watching


class FailingDisk(MemoryLog):
    """A disk that is full, or worse, while `failure` says so; `tries` are the times of the writes."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self.failure: Exception | None = None
        self.tries: list[int] = []
        self._clock = clock

    async def append_one(self, batch: Batch) -> None:
        if self.failure is not None:
            self.tries.append(self._clock.now())
            raise type(self.failure)(*self.failure.args)
        await super().append_one(batch)


FULL = LogUnavailable("unable to append; the disk is full")


# -- the disk --------------------------------------------------------------------------------------------------------


async def test_a_full_disk_loses_nothing_that_was_seen_and_the_turn_goes_on_when_there_is_space() -> None:
    """P-10."""
    clock, gate = ManualClock(), Gate()
    store = FailingDisk(clock)
    async with running(store, held(gate), clock) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1"))
            await watcher.until(says(b"Hello "))
            store.failure = FULL
            gate.open()
            with pytest.raises(AgentStopped):
                await watcher.ended(1)
            seen = list(watcher.events)
        await soon(lambda: directory.peek(AGENT) is None)
        assert await written(store) == seen
        assert not ends(seen)
        store.failure = None
        clock.advance(directory.settings.retry_after / 1000)
        await soon(lambda: directory.peek(AGENT) is not None)
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            assert (await watcher.ended(1)).outcome is Outcome.COMPLETED
            assert await loaded.actor.inspect(texts) == [("user", "hi"), ("assistant", "Hello world")]
        assert (await written(store))[: len(seen)] == seen
        assert ends(await written(store)) == {1: 1}


async def test_asking_while_the_disk_is_full_is_refused_with_the_reason_and_asking_again_works() -> None:
    clock = ManualClock()
    store = FailingDisk(clock)
    async with running(store, ScriptedResponder(["yes"]), clock) as directory:
        store.failure = FULL
        async with directory.attach(AGENT) as loaded:
            with pytest.raises(LogUnavailable, match="disk is full"):
                await loaded.actor.ask(submit("r1"))
        assert await written(store) == []
        store.failure = None
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1"))
            assert (await watcher.ended(1)).outcome is Outcome.COMPLETED


async def test_a_store_that_breaks_in_an_unknown_way_leaves_no_caller_waiting() -> None:
    clock = ManualClock()
    store = FailingDisk(clock)
    async with running(store, ScriptedResponder(["yes"]), clock) as directory:
        store.failure = OSError("bang")
        async with directory.attach(AGENT) as loaded, asyncio.timeout(PATIENCE):
            with pytest.raises(AgentStopped, match="Reconnect"):
                await loaded.actor.ask(submit("r1"))


async def test_an_agent_that_cannot_be_written_is_tried_less_and_less_often() -> None:
    clock, gate = ManualClock(0), Gate()
    store = FailingDisk(clock)
    settings = Settings(grace=0.0, retry_after=1_000, retry_at_most=4_000)
    async with running(store, held(gate), clock, settings) as directory:
        async with directory.attach(AGENT) as loaded:
            await loaded.actor.ask(submit("r1"))
            await gate.reached.wait()
        store.failure = FULL
        gate.open()
        while len(store.tries) < 6:
            clock.advance(0.25)
            await rounds()
        waits = [later - earlier for earlier, later in zip(store.tries, store.tries[1:], strict=False)]
        assert waits == [1_000, 2_000, 4_000, 4_000, 4_000]


async def test_a_wake_table_that_cannot_be_read_is_tried_again_after_a_pause() -> None:
    clock = ManualClock()

    class Unreadable(MemoryLog):
        tries = 0
        is_broken = True

        async def due(self, until: Millis, limit: int = 1000) -> list[tuple[AgentId, Millis]]:
            self.tries += 1
            if self.is_broken:
                raise LogUnavailable("unable to read; the disk is gone")
            return await super().due(until, limit)

    store = Unreadable()
    async with running(store, ScriptedResponder(["x"]), clock) as directory:
        await rounds(100)
        assert store.tries <= 2
        before, store.is_broken = store.tries, False
        clock.advance(directory.settings.retry_after / 1000)
        await soon(lambda: store.tries == before + 1)


# -- damaged files ---------------------------------------------------------------------------------------------------


def damage(path: Path, sql: str, *values: Any) -> None:
    """Change the file behind everyword's back, and behind its triggers'; exactly one row must be hit."""
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("DROP TRIGGER IF EXISTS turn_ends_once")
        assert connection.execute(sql, values).rowcount == 1
    connection.close()


async def one_turn(path: Path, request: str, *, said: str = "fine") -> list[tuple[str, str]]:
    """Let a process answer one more question, and return what is shown then."""
    async with running(SqliteLog(path), ScriptedResponder([said])) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            accepted = await loaded.actor.ask(submit(request))
            assert isinstance(accepted[0], TurnAccepted)
            assert (await watcher.ended(accepted[0].turn)).outcome is Outcome.COMPLETED
            return await loaded.actor.inspect(texts)


def problems(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("body", [b"\x00\xff\x00", b'{"id":"u-r1","ro', b"7", b"{}"])
async def test_a_damaged_message_is_reported_and_left_out_and_the_agent_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, body: bytes
) -> None:
    path = tmp_path / "log.db"
    await one_turn(path, "r1")
    damage(path, "UPDATE message SET body = ? WHERE id = 'u-r1'", body)
    assert await one_turn(path, "r2") == [("assistant", "fine"), ("user", "hi"), ("assistant", "fine")]
    assert any("u-r1" in problem for problem in problems(caplog))


async def left_open(path: Path) -> None:
    """Let a process leave a turn open after "Hello "."""
    async with running(SqliteLog(path), held(Gate())) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1"))
            await watcher.until(says(b"Hello "))


@pytest.mark.parametrize("body", [b"\x00\xff\x00", b'{"t":"chunk","tu', b"7", b'{"t":"nothing.known","turn":1}'])
async def test_a_damaged_chunk_is_reported_and_passed_over_and_its_turn_still_ends_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, body: bytes
) -> None:
    path = tmp_path / "log.db"
    await left_open(path)
    damage(path, "UPDATE event SET body = ? WHERE kind = 'chunk' AND instr(body, 'Hello') > 0", body)
    async with running(SqliteLog(path), ScriptedResponder(["again"])) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            assert (await watcher.ended(1)).outcome is Outcome.COMPLETED
            shown = await loaded.actor.inspect(texts)
        assert shown == [("user", "hi"), ("assistant", "again")]
        assert ends(watcher.events) == {1: 1}
    assert await one_turn(path, "r2") == [*shown, ("user", "hi"), ("assistant", "fine")]
    reported = [problem for problem in problems(caplog) if "unable to read event" in problem]
    assert len(reported) >= 2, "once when it is loaded, once per reader"


@pytest.mark.parametrize(("column", "nonsense"), [("accepted", b"\x00{"), ("accepted", b"{}"), ("status", "nonsense")])
@pytest.mark.parametrize("leave", ["open", "ended"])
async def test_a_damaged_turn_is_reported_and_left_out_and_the_agent_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, column: str, nonsense: str | bytes, leave: str
) -> None:
    path = tmp_path / "log.db"
    if leave == "open":
        await left_open(path)
    else:
        await one_turn(path, "r1")
    damage(path, f"UPDATE turn SET {column} = ? WHERE request = 'r1'", nonsense)
    assert (await one_turn(path, "r2"))[-2:] == [("user", "hi"), ("assistant", "fine")]
    assert any("turn 1" in problem for problem in problems(caplog))
    async with running(SqliteLog(path), ScriptedResponder(["x"])) as directory, directory.attach(AGENT) as loaded:
        assert await loaded.actor.ask(submit("r1")) == [], "its request id was accepted, and stays so"


# -- two owners ------------------------------------------------------------------------------------------------------


class Shared:
    """One store for two directories: opened and closed by neither."""

    def __init__(self, store: LogStore) -> None:
        self._store = store

    async def open(self) -> None:
        pass

    async def aclose(self) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def test_a_second_owner_fences_the_first_which_stops_writing_and_tells_its_readers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store, gate = MemoryLog(), Gate()
    await store.open()
    first = running(Shared(store), held(gate))
    second = running(Shared(store), ScriptedResponder(["world"]))
    async with first as old, old.attach(AGENT) as fenced, watching(fenced) as told:
        await fenced.actor.ask(submit("r1"))
        await told.until(says(b"Hello "))
        async with second as new, new.attach(AGENT) as loaded, watching(loaded) as watcher:
            assert (await watcher.ended(1)).outcome is Outcome.COMPLETED
            gate.open()
            with pytest.raises(AgentStopped):
                await told.ended(1)
            with pytest.raises(AgentStopped):
                await fenced.actor.ask(submit("r2"))
            await soon(lambda: old.peek(AGENT) is None)
            log = await written(store)
    assert told.events == log[: len(told.events)]
    assert ends(log) == {1: 1}
    assert [event.attempt for event in log if isinstance(event, AttemptStarted)] == [1, 2]
    assert any("another owner" in problem for problem in problems(caplog))


async def test_a_fenced_owners_client_is_told_why_its_command_was_not_taken() -> None:
    store = MemoryLog()
    await store.open()
    first, second = (running(Shared(store), ScriptedResponder(["x"])) for _ in range(2))
    async with first as old, second as new, old.attach(AGENT) as fenced:
        async with new.attach(AGENT):
            with pytest.raises(Fenced, match="lease"):
                await fenced.actor.ask(submit("r1"))
    assert await written(store) == []


# -- what breaks inside, and what breaks again and again -------------------------------------------------------------


async def test_a_runner_that_breaks_internally_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, broken = TurnRunner._call, [RuntimeError("first"), RuntimeError("second")]

    def sometimes(runner: TurnRunner, state: Any, **more: Any) -> Any:
        if broken:
            raise broken.pop()
        return whole(runner, state, **more)

    monkeypatch.setattr(TurnRunner, "_call", sometimes)
    async with running(MemoryLog(), ScriptedResponder(["yes"])) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1"))
            assert (await watcher.ended(1)).outcome is Outcome.COMPLETED
            started = [event for event in watcher.events if isinstance(event, AttemptStarted)]
            assert [(event.attempt, event.cause) for event in started] == [(1, "first"), (2, "retry"), (3, "retry")]


async def test_a_runner_that_always_breaks_is_given_up_and_the_next_turn_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = TurnRunner._call

    def broken(runner: TurnRunner, state: Any, **more: Any) -> Any:
        if runner.turn == 1:
            raise RuntimeError("always")
        return whole(runner, state, **more)

    monkeypatch.setattr(TurnRunner, "_call", broken)
    rules = Rules(max_attempts=3)
    async with running(MemoryLog(), ScriptedResponder(["yes"], rules=rules)) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1"))
            await loaded.actor.ask(submit("r2"))
            ended = await watcher.ended(1)
            assert (ended.outcome, ended.error) == (Outcome.ERROR, rules.exhausted_text)
            assert (await watcher.ended(2)).outcome is Outcome.COMPLETED


async def die(store: MemoryLog, responder: ScriptedResponder, clock: ManualClock, at: Callable[[], bool]) -> None:
    """Run a process on the store until a condition holds, then let it die without a shutdown."""
    log = CrashingLog(store)
    directory = Directory(log, responder, clock=clock, settings=QUICK)
    await directory.open()
    await soon(at)
    log.crashed.set()
    await kill_everything()
    await store.aclose()


async def test_a_turn_that_kills_its_process_every_time_is_given_up_and_the_server_goes_on() -> None:
    store, clock, rules = MemoryLog(), ManualClock(), Rules(max_attempts=3)
    await accepted(store, clock, "r1", "r2")
    for attempt in range(2, rules.max_attempts + 1):
        responder = ScriptedResponder(["Hel", Gate()], rules=rules)
        await die(store, responder, clock, lambda: bool(responder.calls))  # noqa: B023
        assert responder.calls[0].attempt == attempt
    async with running(store, ScriptedResponder(["fine"], rules=rules), clock) as directory:
        async with directory.attach(AGENT) as loaded, watching(loaded) as watcher:
            ended = await watcher.ended(1)
            assert (ended.outcome, ended.error) == (Outcome.ERROR, rules.exhausted_text)
            assert ended.reason == "attempts-exhausted"
            assert (await watcher.ended(2)).outcome is Outcome.COMPLETED
            causes = [e.cause for e in watcher.events if isinstance(e, AttemptStarted) and e.turn == 1]
            assert causes == ["first", "crash", "crash"]


async def test_an_agent_that_cannot_be_made_does_not_keep_others_from_loading(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store, other = MemoryLog(), AgentId("gone/bob")
    async with running(store, ScriptedResponder([Gate()])) as directory:
        for agent in (other, AGENT):
            async with directory.attach(agent) as loaded:
                await loaded.actor.ask(submit("r1"))
    responder = ScriptedResponder(["fine"])

    def responders(agent: AgentId) -> ScriptedResponder:
        if agent == other:
            raise UsageError(f"unable to make {agent!r}; no class of that name is served")
        return responder

    async with Directory(store, responders, clock=ManualClock(), settings=QUICK):
        await eventually(lambda: has_ended(store))
    assert any(other in problem for problem in problems(caplog))
