"""A real process is killed a hundred times while clients watch; nothing that a client saw is ever lost (I-3)."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from everyword.events import MessageEnded, Outcome, TurnAccepted, TurnEnded
from everyword.log.base import Stored
from everyword.log.sqlite.store import SqliteLog
from everyword.messages.message import UIMessage
from tests.crash.child import AGENTS, ANSWER
from tests.crash.proofs import check_log, check_projections, of_kind, read_all
from tests.crash.reader import Record

KILLS = 100
STARTING_KILLS = 10
"""Additional kills, of a process before any client has seen a chunk of it."""
READERS = 2
COMPLETED = (Outcome.COMPLETED, None)
EXHAUSTED = (Outcome.ERROR, "attempts-exhausted")
"""How a turn ends that was running at five deaths."""
PATIENCE = 60.0
ROOT = Path(__file__).resolve().parents[2]


class Stage:
    """The nursery of processes to kill, the readers, and what all of them have said so far."""

    def __init__(self, nursery: Process, readers: list[Process]) -> None:
        self.pid: int | None = None
        self.is_ready = False
        self.lives = self.deaths = 0
        self.heads: int | None = None
        self.cursors = [0] * len(readers)
        self._nursery, self._readers = nursery, readers
        self._changed = asyncio.Event()

    async def until(self, fact: Callable[[], bool]) -> None:
        """Wait for a fact, as told by the others; a process that dies unasked is a failure."""
        async with asyncio.timeout(PATIENCE):
            while not fact():
                assert self.lives == self.deaths + 1, "the process went by itself"
                self._changed.clear()
                await self._changed.wait()

    async def start(self, how: str) -> None:
        self.lives, self.pid, self.is_ready = self.lives + 1, None, False
        _say(self._nursery, how)
        await self.until(lambda: self.pid is not None)

    async def connect_readers(self) -> None:
        await self.until(lambda: self.is_ready)
        for reader in self._readers:
            _say(reader, "connect")

    async def end(self, sign: signal.Signals) -> None:
        """Send the signal and wait until the process is gone."""
        assert self.pid is not None and self.deaths == self.lives - 1, "nobody is there to be killed"
        os.kill(self.pid, sign)
        async with asyncio.timeout(PATIENCE):
            while self.deaths < self.lives:
                self._changed.clear()
                await self._changed.wait()

    async def listen_to_nursery(self) -> None:
        async for word, number in _hear(self._nursery):
            match word:
                case "pid":
                    self.pid = number
                case "ready":
                    self.is_ready = True
                case "settled":
                    self.heads = number
                case "dead":
                    self.deaths += 1
            self._changed.set()

    async def listen_to_reader(self, place: int) -> None:
        async for _, number in _hear(self._readers[place]):
            self.cursors[place] = number
            self._changed.set()


def _say(process: Process, line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n".encode())


async def _hear(process: Process) -> AsyncIterator[tuple[str, int]]:
    assert process.stdout is not None
    async for line in process.stdout:
        word, _, number = line.decode().strip().partition(" ")
        yield word, int(number or 0)


@asynccontextmanager
async def staged(tmp_path: Path) -> AsyncIterator[Stage]:
    path, address = str(tmp_path / "log.db"), str(tmp_path / "s")
    nursery = await _program("tests.crash.child", path, address)
    readers = [await _program("tests.crash.reader", address, str(tmp_path / f"{n}.seen")) for n in range(READERS)]
    stage = Stage(nursery, readers)
    ears = [asyncio.create_task(stage.listen_to_nursery())]
    ears += [asyncio.create_task(stage.listen_to_reader(place)) for place in range(READERS)]
    try:
        yield stage
    finally:
        if stage.deaths < stage.lives and stage.pid is not None:
            os.kill(stage.pid, signal.SIGKILL)
        for process in (nursery, *readers):
            assert process.stdin is not None
            process.stdin.close()  # which ends them
        await asyncio.gather(*(process.wait() for process in (nursery, *readers)), *ears)


async def _program(module: str, *arguments: str) -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *arguments, stdin=PIPE, stdout=PIPE, cwd=ROOT
    )


@pytest.mark.crash
@pytest.mark.timeout(300)
async def test_nothing_that_a_reader_saw_is_lost_when_the_process_is_killed_again_and_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """P-9."""
    chance = random.Random(20)
    kills = [*("talking" for _ in range(KILLS)), *chance.choices(["begotten", "ready"], k=STARTING_KILLS)]
    chance.shuffle(kills)
    async with staged(tmp_path) as stage:
        for kill in kills:
            await stage.start("talk")
            if kill == "ready":
                await stage.until(lambda: stage.is_ready)
            elif kill == "talking":
                enough = sum(stage.cursors) + chance.randint(1, 500)
                await stage.connect_readers()
                await stage.until(lambda: sum(stage.cursors) >= enough)  # noqa: B023
            await stage.end(signal.SIGKILL)
        await stage.start("finish")
        await stage.connect_readers()
        await stage.until(lambda: stage.heads is not None and min(stage.cursors) >= stage.heads)
        await stage.end(signal.SIGTERM)
    logs = await checked_logs(tmp_path / "log.db")
    notebooks = [read_notebook(tmp_path / f"{place}.seen") for place in range(READERS)]
    lost = sum(count_lost(notebook, logs) for notebook in notebooks)
    summary = f"\nkills: {len(kills)}, events seen by readers: {sum(map(len, notebooks))}, lost: {lost}\n"
    sys.stdout.write(summary)  # for -rA, which works with workers too
    with capsys.disabled():
        sys.stdout.write(summary)
    assert lost == 0
    for notebook in notebooks:
        check_notebook(notebook, logs)


async def checked_logs(path: Path) -> list[list[Stored]]:
    """Check what the file holds, agent by agent, and return it."""
    store = SqliteLog(path)
    await store.open()
    try:
        logs = [await read_all(store, agent) for agent in AGENTS]
        for agent, log in zip(AGENTS, logs, strict=True):
            check_log(log)
            check_turns(log)
            await check_projections(store, agent)
        return logs
    finally:
        await store.aclose()


def check_turns(log: list[Stored]) -> None:
    """Every turn that was accepted ended once; one that completed said everything, however often it was cut off."""
    ends = of_kind(log, TurnEnded)
    assert Counter(event.turn for event in ends) == Counter(event.turn for event in of_kind(log, TurnAccepted))
    assert {(event.outcome, event.reason) for event in ends} <= {COMPLETED, EXHAUSTED}
    said = {event.turn: UIMessage.decode(bytes(event.message)).text for event in of_kind(log, MessageEnded)}
    assert {said[event.turn] for event in ends if event.outcome is Outcome.COMPLETED} == {ANSWER}


def read_notebook(path: Path) -> list[Record]:
    return msgspec.msgpack.decode(path.read_bytes(), type=list[Record])


def count_lost(notebook: list[Record], logs: list[list[Stored]]) -> int:
    """Count what was seen and is not in the log, byte for byte, at the same place."""
    kept = [{stored.seq: stored.body for stored in log} for log in logs]
    return sum(kept[record.agent].get(record.seq) != record.body for record in notebook)  # type: ignore[call-overload]


def check_notebook(notebook: list[Record], logs: list[list[Stored]]) -> None:
    """A reader that came back by cursor after every death has seen the whole log: each event once, in order."""
    for agent, log in enumerate(logs):
        seen = [record.seq for record in notebook if record.agent == agent]
        assert seen == [stored.seq for stored in log]
