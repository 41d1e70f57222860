"""A server under load is killed at random, again and again; left alone at last, it has lost and doubled nothing.

`CHAOS_SECONDS` says for how long (60), `CHAOS_SEED` repeats a run's plan: who asks what, and when the server dies.
"""

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

import pytest

from tests.browser.server_app import listening
from tests.chaos.agents import KINDS
from tests.chaos.crowd import PATIENCE, Looker, Tab, come_to_rest
from tests.chaos.proofs import prove
from tests.chaos.serving import LOG

SECONDS = float(os.environ.get("CHAOS_SECONDS") or 60)
TABS = 2
"""Pages per conversation."""
MOST_FRAMES = 3_000
"""Maximum number of frames that all clients together are shown in one life."""
LONGEST_LIFE = 4.0
ROOT = Path(__file__).resolve().parents[2]

DEATHS = {"talking": 12, "deployed": 2, "ready": 1, "begotten": 1}
"""Weights of the ends: killed while streaming, stopped by a signal, killed before a client came, before it listened."""


class Stage:
    """The forking parent process and its newest child; implements `crowd.Server`."""

    def __init__(self, nursery: Process, port: int) -> None:
        self.port, self.is_closing = port, False
        self.frames = self.lives = self.deaths = 0
        self.pid: int | None = None
        self._nursery = nursery
        self._up, self._changed = asyncio.Event(), asyncio.Event()

    async def until_up(self) -> None:
        await self._up.wait()

    def heard(self) -> None:
        self.frames += 1
        self._changed.set()

    async def until(self, fact: Callable[[], bool]) -> None:
        while not fact():
            self._changed.clear()
            await self._changed.wait()

    async def start(self, *, is_awaited: bool = True) -> None:
        self.lives, self.pid = self.lives + 1, None
        assert self._nursery.stdin is not None
        self._nursery.stdin.write(b"\n")
        async with asyncio.timeout(PATIENCE):
            await self.until(lambda: self.pid is not None)
            if is_awaited:
                await self.until(lambda: self._up.is_set() or self.deaths == self.lives)
        assert self.deaths < self.lives, "the server went by itself"

    async def end(self, sign: signal.Signals) -> None:
        """Send the signal and wait until the process is gone."""
        assert self.pid is not None and self.deaths < self.lives, "the server went by itself"
        os.kill(self.pid, sign)
        self._up.clear()
        async with asyncio.timeout(PATIENCE):
            await self.until(lambda: self.deaths == self.lives)
        self._up.clear()

    async def listen(self) -> None:
        assert self._nursery.stdout is not None
        async for line in self._nursery.stdout:
            word, _, number = line.decode().strip().partition(" ")
            match word:
                case "pid":
                    self.pid = int(number)
                case "ready":
                    self._up.set()
                case "dead":
                    self.deaths += 1
            self._changed.set()


@asynccontextmanager
async def staged(folder: Path) -> AsyncIterator[Stage]:
    with listening() as free:
        port = free.getsockname()[1]
    command = (sys.executable, "-m", "tests.chaos.serving", str(folder), str(port))
    nursery = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, cwd=ROOT)
    stage = Stage(nursery, port)
    ears = asyncio.create_task(stage.listen())
    try:
        yield stage
    finally:
        if stage.deaths < stage.lives and stage.pid is not None:
            os.kill(stage.pid, signal.SIGKILL)
        assert nursery.stdin is not None
        nursery.stdin.close()  # which ends it
        await asyncio.gather(nursery.wait(), ears)


async def wreak_havoc(stage: Stage, chance: random.Random) -> Counter[str]:
    """Start and kill the server until the time is over; return how its lives ended."""
    ends: Counter[str] = Counter()
    until = asyncio.get_running_loop().time() + SECONDS
    while asyncio.get_running_loop().time() < until:
        how = chance.choices(list(DEATHS), list(DEATHS.values()))[0]
        ends[how] += 1
        await stage.start(is_awaited=how != "begotten")
        if how in ("talking", "deployed"):
            enough = stage.frames + round(MOST_FRAMES ** chance.random())
            try:
                async with asyncio.timeout(LONGEST_LIFE):
                    await stage.until(lambda: stage.frames >= enough)  # noqa: B023
            except TimeoutError:
                ends["late"] += 1
        await stage.end(signal.SIGTERM if how == "deployed" else signal.SIGKILL)
    return ends


@pytest.mark.obligation("000-3.a", "003-6", "003-7")
@pytest.mark.crash
@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 3 * PATIENCE)
async def test_a_server_that_is_killed_again_and_again_under_load_loses_nothing_and_does_nothing_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = int(os.environ.get("CHAOS_SEED") or random.SystemRandom().randrange(10**6))
    chance = random.Random(seed)
    async with staged(tmp_path) as stage:
        tabs = [Tab(stage, kind, number, random.Random(chance.random())) for kind in KINDS for number in range(TABS)]
        looker = Looker(stage, KINDS, random.Random(chance.random()))
        people = [asyncio.create_task(each.run()) for each in (*tabs, looker)]
        try:
            ends = await wreak_havoc(stage, chance)
            stage.is_closing = True
            await stage.start()
            await come_to_rest(stage, tabs)
        finally:
            for person in people:
                person.cancel()
            await asyncio.gather(*people, return_exceptions=True)
        await stage.end(signal.SIGTERM)
    findings = await prove(tmp_path, tabs, looker.memories.values())
    counts = findings.counts
    summary = f"\nchaos: seed {seed}, {stage.lives} lives {dict(ends)}, "
    summary += f"{sum(len(tab.asked) for tab in tabs)} questions, {looker.looks} looks, {dict(counts)}\n"
    sys.stdout.write(summary)  # for -rA, which works with workers too
    with capsys.disabled():
        sys.stdout.write(summary)
    problems = "\n".join(findings.problems[:20])
    log = tmp_path / LOG
    assert not findings.problems, f"CHAOS_SEED={seed}: {len(findings.problems)} problems\n{problems}\nserver: {log}"
    assert counts["completed"] > 0 and counts["results"] > 0 and looker.looks > 0, "there was no load to speak of"
