"""What the event loop writes itself, what it leaves to the thread, and that it waits for nothing."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from everyword.errors import LogUnavailable
from everyword.ids import AgentId, Seq
from everyword.log.sqlite import checkpoints, commit_policy
from everyword.log.sqlite.store import SqliteLog
from tests.log.building import A, B, C, Owner, append_one, append_together, chunk, fact, message_row, read_all, seqs
from tests.log.sqlite.faults import BROKEN, Faults, opened
from tests.timeouts import PATIENCE


class Watch:
    """Who made which commit (names of threads, in order), and how many milliseconds each waits for a lock."""

    def __init__(self) -> None:
        self.commits: list[str] = []
        self.waits: dict[str, int] = {}
        watch = self

        class Watched(sqlite3.Connection):
            def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
                if sql == "COMMIT":
                    watch.commits.append(threading.current_thread().name)
                if sql == "BEGIN IMMEDIATE":
                    (waits,) = super().execute("PRAGMA busy_timeout").fetchone()
                    watch.waits[threading.current_thread().name] = waits
                return super().execute(sql, *values)

        self.factory = Watched


@pytest.fixture
def pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every commit come after a moment without one."""
    monkeypatch.setattr(commit_policy, "PAUSE", -1.0)


async def appending(folder: Path, *events: Any, **options: Any) -> list[str]:
    """Return who committed these events, each appended by itself."""
    watch = Watch()
    store = SqliteLog(folder / "log.db", factory=watch.factory, **options)
    await store.open()
    owner = await Owner.take(store)
    watch.commits.clear()
    for event in events:
        await owner.append(event)
    commits = list(watch.commits)
    assert seqs(await read_all(store)) == list(range(1, len(events) + 1))
    await store.aclose()
    return commits


HERE, THREAD = threading.current_thread().name, "everyword-writer"


@pytest.mark.usefixtures("pause")
async def test_the_loop_makes_a_light_commit_itself(tmp_path: Path) -> None:
    assert await appending(tmp_path, chunk(1, 0), chunk(1, 1)) == [HERE, HERE]


async def test_what_comes_right_behind_a_commit_is_the_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_policy, "PAUSE", 1e9)
    assert await appending(tmp_path, chunk(1, 0), chunk(1, 1)) == [THREAD, THREAD]


async def test_right_behind_a_commit_a_busy_loop_gathers_what_comes_until_it_has_nothing_else_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = Faults()
    async with opened(tmp_path, faults) as store:
        owners = [await Owner.take(store, agent) for agent in (A, B, C)]
        faults.executed.clear()
        monkeypatch.setattr(commit_policy, "PAUSE", 1e9)
        monkeypatch.setattr(commit_policy, "IDLE", -1.0)  # every turn of the loop is one that had something to do
        writing = []
        for owner in owners:
            writing.append(append_one(store, owner.batch(fact("x"))))
            for _ in range(5):
                await asyncio.sleep(0)
        assert faults.executed == []
        monkeypatch.setattr(commit_policy, "IDLE", 1e9)
        for each in writing:
            await each
        assert faults.executed.count("COMMIT") == 1


async def test_a_loop_that_gathers_writes_when_a_moment_has_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch()
    store = SqliteLog(tmp_path / "log.db", factory=watch.factory)
    await store.open()
    owner = await Owner.take(store)
    watch.commits.clear()
    monkeypatch.setattr(commit_policy, "PAUSE", 1e9)
    monkeypatch.setattr(commit_policy, "IDLE", -1.0)
    writing = append_one(store, owner.batch(fact("x")))
    await asyncio.sleep(0)
    assert watch.commits == []
    monkeypatch.setattr(commit_policy, "PAUSE", -1.0)
    for _ in range(5):
        await asyncio.sleep(0)
    commits = list(watch.commits)
    await store.aclose()
    await writing
    assert commits == [HERE]


@pytest.mark.parametrize("has_rows", [False, True])
@pytest.mark.parametrize(("pause", "is_written"), [(-1.0, True), (1e9, False)])
async def test_a_batch_is_committed_while_it_is_appended_unless_that_is_right_behind_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_rows: bool, pause: float, is_written: bool
) -> None:
    faults = Faults()
    async with opened(tmp_path, faults) as store:
        owner = await Owner.take(store)
        faults.executed.clear()
        monkeypatch.setattr(commit_policy, "PAUSE", pause)
        receipt = append_one(store, owner.batch(fact("x"), rows=[message_row(1)] if has_rows else []))
        assert (receipt.is_done, "COMMIT" in faults.executed) == (is_written, is_written)
        await receipt
        assert faults.executed.count("COMMIT") == 1


@pytest.mark.usefixtures("pause")
async def test_all_batches_of_one_call_are_one_transaction(tmp_path: Path) -> None:
    faults = Faults()
    async with opened(tmp_path, faults) as store:
        owners = [await Owner.take(store, agent) for agent in (A, B, C)]
        faults.executed.clear()
        receipts = store.append([owner.batch(fact("x")) for owner in owners])
        assert [receipt.is_done for receipt in receipts] == [True, True, True]
        assert faults.executed.count("COMMIT") == 1


@pytest.mark.usefixtures("pause")
async def test_leases_that_are_taken_in_one_iteration_are_one_transaction(tmp_path: Path) -> None:
    faults = Faults()
    async with opened(tmp_path, faults) as store:
        faults.executed.clear()
        await asyncio.gather(*(Owner.take(store, AgentId(f"chat/{number}")) for number in range(5)))
        assert faults.executed.count("COMMIT") == 1


@pytest.mark.usefixtures("pause")
async def test_words_of_many_agents_count_as_the_pages_that_they_fill_together(tmp_path: Path) -> None:
    carried: list[str] = []

    class Watched(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            if "wal_checkpoint(PASSIVE)" in sql:
                carried.append(sql)
            return super().execute(sql, *values)

    store = SqliteLog(tmp_path / "log.db", factory=Watched)
    await store.open()
    owners = [await Owner.take(store, AgentId(f"chat/{number}")) for number in range(50)]
    for index in range(60):
        await append_together(owners, chunk(1, index))
    assert len(carried) <= 1, "60 commits of two or three pages each are a fifth of what makes it worth while"
    await store.aclose()


async def test_commits_do_not_wait_for_the_disk_during_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, gate = threading.Event(), threading.Event()
    commits: list[str] = []

    class Slow(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            if "wal_checkpoint(PASSIVE)" in sql:
                begun.set()
                gate.wait(PATIENCE)
            elif sql == "COMMIT":
                commits.append(threading.current_thread().name)
            return super().execute(sql, *values)

    store = SqliteLog(tmp_path / "log.db", factory=Slow)
    await store.open()
    owner = await Owner.take(store)
    await owner.append(fact("x", body=b'"%b"' % (b"x" * 5_000_000)))  # more than what is carried over at once
    await asyncio.to_thread(begun.wait, 60)
    commits.clear()
    monkeypatch.setattr(commit_policy, "PAUSE", 1e9)
    await owner.append(chunk(1, 0))
    assert not gate.is_set()
    assert commits == [HERE]
    gate.set()
    await store.aclose()


@pytest.mark.usefixtures("pause")
async def test_what_is_large_is_the_threads(tmp_path: Path) -> None:
    assert await appending(tmp_path, fact("x", body=b'"%b"' % (b"x" * 100_000)), fact("y")) == [THREAD, HERE]


@pytest.mark.usefixtures("pause")
async def test_what_has_to_be_on_the_disk_is_the_threads(tmp_path: Path) -> None:
    assert await appending(tmp_path, fact("x"), durability="power") == [THREAD]


@pytest.mark.usefixtures("pause")
@pytest.mark.parametrize("failing", ["BEGIN", "append_event", "COMMIT"])
async def test_a_commit_that_fails_here_is_made_by_the_thread(tmp_path: Path, failing: str) -> None:
    faults = Faults()
    async with opened(tmp_path, faults) as store:
        owner = await Owner.take(store)
        failures = [BROKEN]

        def fail_once(name: str) -> None:
            if name == failing and failures:
                raise failures.pop()

        faults.hook = fail_once
        await owner.append(chunk(1, 0))
        await owner.append(chunk(1, 1))
        assert failures == []
        assert seqs(await read_all(store)) == [1, 2]


class Stopped(BaseException):
    """Like a second Ctrl-C: it is not an error, and may be raised anywhere."""


@pytest.mark.usefixtures("pause")
@pytest.mark.parametrize("stopped_at", ["BEGIN", "append_event", "COMMIT"])
async def test_a_commit_in_which_the_loop_is_stopped_is_made_by_the_thread(tmp_path: Path, stopped_at: str) -> None:
    faults, told = Faults(), list[Any]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
    async with opened(tmp_path, faults) as store:
        owner = await Owner.take(store)

        def stop_once(name: str) -> None:
            if name == stopped_at and not told and threading.current_thread().name == HERE:
                raise Stopped

        faults.hook = stop_once
        await owner.append(chunk(1, 0))
        assert [type(each) for each in told] == [Stopped]
        assert seqs(await read_all(store)) == [1]


@pytest.mark.usefixtures("pause")
async def test_the_store_goes_on_if_the_loop_is_stopped_while_a_commit_returns(tmp_path: Path) -> None:
    """A signal during a commit is raised after it; the code then does not know that the commit succeeded."""
    told = list[Any]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
    armed = list[str]()

    class Interrupted(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            done = super().execute(sql, *values)
            if armed and sql == "COMMIT" and threading.current_thread().name == HERE:
                armed.clear()
                raise Stopped
            return done

    store = SqliteLog(tmp_path / "log.db", factory=Interrupted)
    await store.open()
    owner, other = [await Owner.take(store, agent) for agent in (A, B)]
    await other.append(chunk(1, 0))
    armed.append("now")
    with pytest.raises(LogUnavailable, match="its log ends at 1"):
        await owner.append(chunk(1, 0))
    assert [type(each) for each in told] == [Stopped]
    await other.append(chunk(1, 1))
    assert seqs(await read_all(store, A)) == [1]
    assert seqs(await read_all(store, B)) == [1, 2]
    await store.aclose()


@pytest.mark.parametrize("pause", [-1.0, 1e9])
async def test_the_store_goes_on_if_the_loop_is_stopped_while_a_commit_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pause: float
) -> None:
    told = list[Any]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))

    def stop(_: object) -> None:
        raise Stopped

    async with opened(tmp_path, Faults()) as store:
        owners = [await Owner.take(store, agent) for agent in (A, B)]
        monkeypatch.setattr(commit_policy, "PAUSE", pause)
        first, second = (append_one(store, owner.batch(chunk(1, 0))) for owner in owners)
        first.then(stop)
        await second
        await asyncio.sleep(0)  # a receipt that is done already calls back in the next iteration
        assert [type(each) for each in told] == [Stopped]
        async with asyncio.timeout(PATIENCE):
            await append_one(store, owners[0].batch(chunk(1, 1), first=2))


@pytest.mark.usefixtures("pause")
async def test_a_disk_that_stays_broken_is_told_and_nothing_was_written(tmp_path: Path) -> None:
    faults = Faults()
    async with opened(tmp_path, faults) as store:
        owner = await Owner.take(store)
        faults.failing["COMMIT"] = BROKEN
        with pytest.raises(LogUnavailable, match="Nothing of it was written"):
            await owner.append(chunk(1, 0))
        faults.failing.clear()
        assert await read_all(store) == []
        await owner.append(chunk(1, 0))
        assert seqs(await read_all(store)) == [1]


@pytest.mark.usefixtures("pause")
async def test_the_loop_goes_on_while_another_program_has_the_file_locked(tmp_path: Path) -> None:
    watch = Watch()
    store = SqliteLog(tmp_path / "log.db", factory=watch.factory)
    await store.open()
    owner = await Owner.take(store)
    other = sqlite3.connect(tmp_path / "log.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waiting = asyncio.ensure_future(owner.append(chunk(1, 0)))
    for _ in range(100):
        await asyncio.sleep(0)
    assert not waiting.done()
    other.execute("ROLLBACK")
    other.close()
    await waiting
    assert seqs(await read_all(store)) == [1]
    assert watch.waits == {HERE: 0, THREAD: 5000}
    await store.aclose()


@pytest.mark.usefixtures("pause")
async def test_a_batch_that_is_refused_leaves_the_others_alone(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owners = [await Owner.take(store, AgentId(f"chat/{n}")) for n in range(3)]
        await Owner.take(store, owners[1].agent)  # another owner has the lease now
        receipts = store.append([each.batch(chunk(1, 0)) for each in owners])
        results = await asyncio.gather(*receipts, return_exceptions=True)
        assert [type(result).__name__ for result in results] == ["NoneType", "Fenced", "NoneType"]


# -- the write-ahead log -----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("pause")
async def test_the_write_ahead_log_is_carried_over_and_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "DUE", 40)
    monkeypatch.setattr(checkpoints, "LONGEST", 80)
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        for number in range(400):
            await owner.append(chunk(1, number))
        size = (tmp_path / "log.db-wal").stat().st_size
        assert size < 200 * 4096, f"{size} bytes in the end, for 400 commits of at least a page each"
        assert len(await store.read(A, Seq(0), 500)) == 400


@pytest.mark.parametrize("longest", [1, 10_000])
async def test_the_writers_wait_only_for_the_end_of_a_very_long_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, longest: int
) -> None:
    monkeypatch.setattr(checkpoints, "LONGEST", longest)
    file = tmp_path / "any.db"
    writing = sqlite3.connect(file, isolation_level=None)
    writing.execute("PRAGMA journal_mode = WAL")
    writing.execute("PRAGMA wal_autocheckpoint = 0")
    writing.execute("CREATE TABLE it (body BLOB)")

    class Growing(sqlite3.Connection):
        """Lets another commit come whenever the log was carried over, unless somebody has the seat."""

        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            taken.append(seat.locked())
            done = super().execute(sql, *values)
            if not seat.locked():
                writing.execute("INSERT INTO it VALUES (zeroblob(40960))")
            return done

    taken: list[bool] = []
    seat = threading.Lock()
    carrying = checkpoints.Checkpoints(lambda: sqlite3.connect(file, isolation_level=None, factory=Growing))
    carrying.note(checkpoints.DUE)
    assert carrying.is_due
    carrying.run(seat)
    assert not carrying.is_due
    assert not seat.locked()
    assert taken == ([False, True] if longest == 1 else [False])
    carrying.close()
    before = file.with_name("any.db-wal").stat().st_size
    writing.execute("INSERT INTO it VALUES (zeroblob(4096))")
    has_grown = file.with_name("any.db-wal").stat().st_size > before
    assert has_grown == (longest > 1), "a log that was carried over to its end is begun anew"
    writing.close()


@pytest.mark.usefixtures("pause")
@pytest.mark.parametrize(("count", "size", "who"), [(200, 1000, HERE), (20, 10_000, THREAD), (200, 10_000, THREAD)])
async def test_a_crowd_that_writes_at_once_is_the_loops_if_it_is_not_too_much(
    tmp_path: Path, count: int, size: int, who: str
) -> None:
    watch = Watch()
    store = SqliteLog(tmp_path / "log.db", factory=watch.factory)
    await store.open()
    owners = [await Owner.take(store, AgentId(f"chat/{n}")) for n in range(count)]
    watch.commits.clear()
    await append_together(owners, chunk(1, 0, "x" * size))
    assert watch.commits == [who]
    await store.aclose()
