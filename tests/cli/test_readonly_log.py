"""Reading a store beside its owner: the same answers, no lock, no trace; and a sentence for what cannot be read."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from everyword.cli.readonly_log import ReadOnlyLog, holder_of
from everyword.errors import LogError, LogTooNew, LogUnavailable, UsageError
from everyword.ids import AgentId, Millis, Seq, TurnId
from everyword.log.base import Batch, Entry
from everyword.log.sqlite.store import SqliteLog
from tests.cli.kit import damage

ANN, BOB = AgentId("chat/ann"), AgentId("chat/bob")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _has_lock(path: Path) -> bool:
    return Path(f"{path}.lock").exists()


def _foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")


def _versioned(path: Path, version: int) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA application_id = {0x686C6466}")
        connection.execute("CREATE TABLE store (one INTEGER)")
        connection.execute(f"PRAGMA user_version = {version}")


def _entries(count: int) -> list[Entry]:
    return [Entry("state.set", None, b'{"t":"state.set","state":1}') for _ in range(count)]


async def test_a_reader_beside_the_owner_sees_each_commit_as_the_owner_does(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    owner, reader = SqliteLog(path), ReadOnlyLog(path)
    await owner.open()
    await reader.open()
    heads = {ANN: Seq(0), BOB: Seq(0)}
    epochs = {agent: (await owner.activate(agent)).epoch for agent in heads}
    for at, (agent, count) in enumerate([(ANN, 1), (BOB, 300), (ANN, 600), (ANN, 2), (BOB, 1)], 1):
        await owner.append([Batch(agent, epochs[agent], Seq(heads[agent] + 1), Millis(at), _entries(count))])[0]
        heads[agent] = Seq(heads[agent] + count)
        assert await reader.head(agent) == heads[agent]
        for other in heads:
            assert await reader.read(other, Seq(0), 2000) == await owner.read(other, Seq(0), 2000)
            assert await reader.read(other, Seq(100), 50) == await owner.read(other, Seq(100), 50)
        assert await reader.agents() == await owner.agents()
    summaries = {summary.id: summary for summary in await reader.summaries()}
    assert (summaries[ANN].head, summaries[ANN].active_at, summaries[BOB].active_at) == (603, 4, 5)
    await owner.aclose()
    assert await reader.read(ANN, Seq(0), 2000) != []
    await reader.aclose()


async def test_what_is_loaded_is_of_one_moment_and_takes_no_lease(stored: Path) -> None:
    reader = ReadOnlyLog(stored)
    await reader.open()
    loaded = await reader.load(AgentId("chat/cid"))
    again = await reader.load(AgentId("chat/cid"))
    assert loaded == again and loaded.epoch == 1
    assert [row.status for row in loaded.turns] == ["running"] and loaded.chunks
    assert loaded.head == await reader.head(AgentId("chat/cid"))
    with pytest.raises(UsageError, match="no such agent"):
        await reader.load(AgentId("chat/nobody"))
    await reader.aclose()


async def test_reading_leaves_the_file_as_it_was(stored: Path) -> None:
    before = _digest(stored)
    reader = ReadOnlyLog(stored)
    await reader.open()
    agents = await reader.agents()
    assert len(agents) == 4
    for agent in agents:
        (await reader.conversation(agent))[1]
        await reader.turns(agent)
        await reader.kept(agent)
        await reader.agent_row(agent)
        assert await reader.read_turn(agent, TurnId(1)) != []
    assert await reader.damage() == []
    await reader.aclose()
    assert _digest(stored) == before
    assert not _has_lock(stored)


async def test_an_owner_comes_and_goes_during_a_read(stored: Path) -> None:
    reader = ReadOnlyLog(stored)
    await reader.open()
    before = await reader.head(ANN)
    assert holder_of(stored) is None
    owner = SqliteLog(stored, lock_timeout=1)
    await owner.open()
    assert holder_of(stored) == os.getpid()
    activation = await owner.activate(ANN)
    await owner.append([Batch(ANN, activation.epoch, Seq(before + 1), Millis(1), _entries(1))])[0]
    assert await reader.head(ANN) == before + 1
    await owner.aclose()
    assert holder_of(stored) is None
    assert await reader.head(ANN) == before + 1
    await reader.aclose()


async def test_a_destroyed_agent_is_gone_for_a_reader_that_knew_it(stored: Path) -> None:
    reader = ReadOnlyLog(stored)
    await reader.open()
    before = await reader.head(ANN)
    owner = SqliteLog(stored, lock_timeout=1)
    await owner.open()
    activation = await owner.activate(ANN)
    await owner.append([Batch(ANN, activation.epoch, Seq(before + 1), Millis(1), _entries(1))])[0]
    assert await reader.head(ANN) == before + 1 > 1
    await owner.destroy(ANN, activation.epoch)
    assert await reader.head(ANN) == 0
    assert ANN not in await reader.agents()
    activation = await owner.activate(ANN)
    await owner.append([Batch(ANN, activation.epoch, Seq(1), Millis(1), _entries(2))])[0]
    assert await reader.head(ANN) == 2
    assert len(await reader.read(ANN, Seq(0))) == 2
    await owner.aclose()
    await reader.aclose()


@pytest.mark.crash
async def test_what_a_killed_owner_left_in_the_write_ahead_log_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    script = f"""
import asyncio, os, signal
from everyword.ids import *
from everyword.log.base import Batch, Entry
from everyword.log.sqlite.store import SqliteLog
from tests.log.building import append_one
async def main():
    store = SqliteLog({str(path)!r})
    await store.open()
    activation = await store.activate(AgentId("chat/ann"))
    entry = Entry("state.set", None, b'{{"t":"state.set","state":1}}')
    await append_one(store, Batch(AgentId("chat/ann"), activation.epoch, Seq(1), Millis(1), [entry] * 5))
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    assert await asyncio.to_thread(subprocess.call, [sys.executable, "-c", script]) == -signal.SIGKILL
    assert await asyncio.to_thread(os.path.getsize, f"{path}-wal") > 0
    reader = ReadOnlyLog(path)
    await reader.open()
    assert await reader.head(ANN) == 5
    assert holder_of(path) is None
    await reader.aclose()


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda path: None, UsageError, "there is no such file"),
        (lambda path: path.mkdir(), UsageError, "there is no such file"),
        (lambda path: path.write_bytes(b""), LogError, "it is empty"),
        (lambda path: path.write_text("not a database at all " * 90), LogError, "file is not a database"),
        (_foreign, LogError, "the database of another program"),
        (lambda path: _versioned(path, 99), LogTooNew, "it has version 99.*Upgrade everyword"),
        (lambda path: _versioned(path, 1), LogError, "it has version 1.*everyword rebuild"),
    ],
)
async def test_what_cannot_be_read_is_a_sentence(
    make: object, error: type[Exception], sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / "some.db"
    assert callable(make)
    make(path)
    with pytest.raises(error, match=sentence):
        await ReadOnlyLog(path).open()
    assert not _has_lock(path)


async def test_damaged_text_is_said_to_be_corrupt(stored: Path) -> None:
    damage(stored, "UPDATE turn SET request = CAST(x'ff' AS TEXT) WHERE agent = 1 AND turn = 1")
    reader = ReadOnlyLog(stored)
    await reader.open()
    with pytest.raises(LogError, match="unable to read 'chat/ann'"):
        await reader.turns(ANN)
    await reader.aclose()


async def test_a_store_that_is_not_open_says_so(stored: Path) -> None:
    with pytest.raises(LogUnavailable, match="it is not open"):
        await ReadOnlyLog(stored).agents()
