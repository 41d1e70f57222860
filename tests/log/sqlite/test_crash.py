"""Killed processes: every acknowledged batch is stored, and the lock of the file is free."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from everyword.errors import LogLocked
from everyword.ids import AgentId
from everyword.log.sqlite.connection import Durability
from everyword.log.sqlite.store import SqliteLog
from tests.log.building import A, Owner, fact, read_all, seqs
from tests.log.sqlite.faults import look, opened
from tests.timeouts import PATIENCE

pytestmark = pytest.mark.crash

HOLD = """
import asyncio, sys
from everyword.log.sqlite.store import SqliteLog

async def main():
    store = SqliteLog(sys.argv[1], lock_timeout=float(sys.argv[2]))
    try:
        await store.open()
    except Exception as exc:
        print(type(exc).__name__, exc, flush=True)
        return
    print("open", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await store.aclose()

asyncio.run(main())
"""

FORK = """
import os, sys, threading
from everyword.log.sqlite.lock import FileLock

lock = FileLock(sys.argv[1])
lock.acquire(5, threading.Event())
if os.fork():
    print("open", flush=True)
sys.stdin.read()
"""

APPEND = """
import asyncio, sys
from tests.log.building import AgentId, Owner, chunk, fact, turn_row, message_row
from everyword.log.sqlite.store import SqliteLog

async def talk(store, number):
    owner = await Owner.take(store, AgentId(f"chat/{number}"))
    await owner.append(fact("turn.accepted", 1), rows=[turn_row(1)])
    for index in range(1_000_000):
        if index % 7 == 0:
            await owner.append(chunk(1, index), fact("x"), rows=[message_row(index)])
        else:
            await owner.append(chunk(1, index))
        print(number, owner.head, flush=True)

async def main():
    store = SqliteLog(sys.argv[1], durability=sys.argv[2])
    await store.open()
    await asyncio.gather(*(talk(store, number) for number in range(5)))

asyncio.run(main())
"""


@contextmanager
def child(script: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a script in another process, which is killed at the end of the block."""
    command = [sys.executable, "-c", script, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as found:
        try:
            yield found
        finally:
            found.kill()


def line(found: subprocess.Popen[str]) -> str:
    assert found.stdout is not None
    return found.stdout.readline().strip()


async def test_a_second_process_waits_for_the_lock_then_explains_the_error(tmp_path: Path) -> None:
    async with opened(tmp_path):
        with child(HOLD, str(tmp_path / "log.db"), "0.3") as second:
            text = await asyncio.to_thread(line, second)
    assert text.startswith("LogLocked unable to open")
    for hint in (f"(pid {os.getpid()})", "within 0.3 s", "stop the other server", "--workers", "store="):
        assert hint in text


async def test_a_second_process_gets_the_file_when_the_first_releases_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await (await Owner.take(store)).append(fact("x"))
        with child(HOLD, str(tmp_path / "log.db"), "30") as second:
            await store.aclose()
            assert await asyncio.to_thread(line, second) == "open"
            with pytest.raises(LogLocked, match=f"pid {second.pid}"):
                await SqliteLog(tmp_path / "log.db", lock_timeout=0).open()


@pytest.mark.parametrize("script", [HOLD, FORK], ids=["alone", "with a forked child"])
async def test_a_killed_process_releases_the_file_at_once(tmp_path: Path, script: str) -> None:
    with child(script, str(tmp_path / "log.db"), "0") as holder:
        assert await asyncio.to_thread(line, holder) == "open"
        store = SqliteLog(tmp_path / "log.db", lock_timeout=60)
        waiting = asyncio.ensure_future(store.open())
        await asyncio.sleep(0)
        assert not waiting.done()
        holder.send_signal(signal.SIGKILL)
        await asyncio.wait_for(waiting, PATIENCE)
        assert (await store.activate(A)).epoch == 1
        await store.aclose()


@pytest.mark.parametrize("durability", ["process", "power"])
@pytest.mark.parametrize("acknowledged", [1, 60, 400])
async def test_what_was_acknowledged_survives_a_kill(tmp_path: Path, durability: Durability, acknowledged: int) -> None:
    with child(APPEND, str(tmp_path / "log.db"), durability) as writer:
        heads = dict.fromkeys(range(5), 0)
        for _ in range(acknowledged):
            number, head = (await asyncio.to_thread(line, writer)).split()
            heads[int(number)] = int(head)
        writer.send_signal(signal.SIGKILL)
        assert writer.stdout is not None
        for late in (await asyncio.to_thread(writer.stdout.read)).splitlines(keepends=True):
            if late.endswith("\n"):  # printed before the kill, read after it
                number, head = late.split()
                heads[int(number)] = int(head)
    async with opened(tmp_path, lock_timeout=5) as store:
        for which, acknowledged_head in heads.items():
            owner = await Owner.take(store, AgentId(f"chat/{which}"))
            assert owner.head >= acknowledged_head
            events = await read_all(store, owner.agent)
            assert seqs(events) == list(range(1, owner.head + 1))
            # Batches are atomic: every event that was appended with a row has its row.
            rows = {row.node for row in (await store.conversation(owner.agent))[1]}
            assert len(rows) == sum(event.kind == "x" for event in events)
            await owner.append(fact("on we go"))
        assert look(tmp_path, "PRAGMA integrity_check") == [("ok",)]
