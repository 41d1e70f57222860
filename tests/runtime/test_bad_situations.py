"""Full disks, damaged files, two owners, dead processes, shutdowns: what is promised then, and that work goes on after."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.state import Rules
from holdfast.errors import AgentStopped, Fenced, LogUnavailable, UsageError
from holdfast.events import AttemptStarted, Chunk, Event, HookDone, MessageEnded, Outcome, TurnAccepted, TurnEnded
from holdfast.events import decode_event
from holdfast.ids import AgentId, Epoch, Millis, RequestId, Seq
from holdfast.log.base import Batch, Entry, LogStore
from holdfast.log.memory import MemoryLog
from holdfast.log.sqlite.store import SqliteLog
from holdfast.runtime.api import TurnCall, TurnResult
from holdfast.runtime.directory import Directory, Settings
from holdfast.runtime.runner import Runner
from holdfast.testing import CrashingLog, Gate, ManualClock, ScriptedResponder
from tests.crash.world import kill_everything
from tests.runtime.kit import AGENT, PATIENCE, QUICK, running, soon, submit, texts, user, watching


class FailingDisk(MemoryLog):
    """A disk that is full, or worse, while `failure` says so; `tries` are the times at which somebody tried."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self.failure: Exception | None = None
        self.tries: list[int] = []
        self._clock = clock

    async def append(self, batch: Batch) -> None:
        if self.failure is not None:
            self.tries.append(self._clock.now())
            raise self.failure
        await super().append(batch)


FULL = LogUnavailable("unable to append; the disk is full")


async def eventually(fact: Callable[[], Awaitable[bool]]) -> None:
    """Wait for a fact that must be asked for."""
    async with asyncio.timeout(PATIENCE):
        while not await fact():
            await asyncio.sleep(0)


async def written(store: LogStore) -> list[Event]:
    return [decode_event(stored.body) for stored in await store.read(AGENT, Seq(0), 10_000)]


def ends(events: list[Event]) -> Counter[int]:
    return Counter(event.turn for event in events if isinstance(event, TurnEnded))


def says(words: bytes) -> Callable[[Event], bool]:
    return lambda event: isinstance(event, Chunk) and words in bytes(event.body)


def held(gate: Gate) -> ScriptedResponder:
    """Answer "Hello world", waiting between the words the first time."""
    return ScriptedResponder(lambda call: ["Hello ", gate, "world"] if call.partial is None else ["world"])


# -- the disk -------------------------------------------------------------------------------------------------------


async def test_a_full_disk_loses_nothing_that_was_seen_and_the_turn_goes_on_when_there_is_space() -> None:
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
        assert directory.peek(AGENT) is None
        assert await written(store) == seen
        assert not ends(seen)
        store.failure = None
        clock.advance(directory.settings.retry_after)
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


@pytest.mark.parametrize("command", [submit("r1"), submit("r1", user("u1"), trusted=True)])
async def test_a_store_that_breaks_in_an_unknown_way_leaves_nobody_waiting(command: Any) -> None:
    clock = ManualClock()
    store = FailingDisk(clock)
    async with running(store, ScriptedResponder(["yes"]), clock) as directory:
        store.failure = OSError("bang")
        async with directory.attach(AGENT) as loaded, asyncio.timeout(PATIENCE):
            with pytest.raises(AgentStopped, match="Reconnect"):
                await loaded.actor.ask(command)


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
        for count in range(1, 6):
            await soon(lambda: len(store.tries) == count and directory.peek(AGENT) is None)  # noqa: B023
            clock.advance(999)
            await asyncio.sleep(0)
            while len(store.tries) == count:
                clock.advance(1)
                for _ in range(20):
                    await asyncio.sleep(0)
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
        for _ in range(100):
            await asyncio.sleep(0)
        assert store.tries <= 2
        before, store.is_broken = store.tries, False
        clock.advance(directory.settings.retry_after)
        await soon(lambda: store.tries == before + 1)


# -- damaged files ----------------------------------------------------------------------------------------------------


def damage(path: Path, sql: str, *values: Any) -> None:
    """Change the file behind holdfast's back; exactly one row must be hit."""
    connection = sqlite3.connect(path)
    with connection:
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


@pytest.mark.parametrize(
    "body",
    [
        *(b"\x00\xff\x00", b'{"t":"chunk","tu', b"7", b'{"t":"nothing.known","turn":1}'),
        b'{"t":"chunk","turn":1,"attempt":1,"index":3,"body":7}',
        b'{"t":"chunk","turn":1,"attempt":1,"index":3,"body":{"type":[]}}',
        b'{"t":"call.answered","node":99,"call":"k","kind":"result","value":1,"turn":1}',
    ],
)
async def test_a_damaged_chunk_is_reported_or_passed_over_and_its_turn_still_ends_once(
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
    if not body.startswith(b'{"t":"chunk"'):
        assert any("event" in problem for problem in problems(caplog))


@pytest.mark.parametrize("column", ["accepted", "status", "kind"])
@pytest.mark.parametrize("is_open", [False, True])
async def test_a_damaged_turn_is_reported_and_left_out_and_the_agent_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, column: str, is_open: bool
) -> None:
    path = tmp_path / "log.db"
    if is_open:
        await left_open(path)
    else:
        await one_turn(path, "r1")
    damage(path, "DROP TRIGGER turn_ends_once") if False else None
    connection = sqlite3.connect(path)
    connection.execute("DROP TRIGGER turn_ends_once")
    connection.commit()
    connection.close()
    damage(path, f"UPDATE turn SET {column} = ? WHERE request = 'r1'", "nonsense" if column != "accepted" else b"{")
    shown = await one_turn(path, "r2")
    assert shown[-2:] == [("user", "hi"), ("assistant", "fine")]
    assert any("turn 1" in problem for problem in problems(caplog))
