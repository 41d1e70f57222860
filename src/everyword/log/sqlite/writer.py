"""The one place where everything is written: by the event loop itself if it is little, else by a thread.

What waits while a commit is in flight is the next transaction: no timer, no window. A commit that need not wait for
the disk takes less time than waking a thread for it and getting the interpreter back from it, so the loop makes the
light ones at the end of its turn. If it has just made one, it waits while it has other things to do, for these will be
more to write; if it has not, the thread writes, and what gathers meanwhile costs one commit. What is large, what has to
wait for the disk and what goes wrong is always the thread's.

If a transaction is refused, it is taken back and tried again in halves, until the batch that breaks a rule stands
alone; so one bad batch harms nobody, and the others pay nothing for the guard (a savepoint per batch would double the
cost of a commit). The thread outlives every error of the disk: whoever waits is told, and the next transaction is tried
afresh.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, NamedTuple

from ...errors import EverywordError, LogCorrupt, LogUnavailable
from ..base import Pruned
from ..receipt import Receipt, settle
from .checkpoints import Checkpoints
from .connection import BUSY_SECONDS, is_damage
from .files import DatabaseFiles
from .leases import Head
from .lock import FileLock
from .reader_pool import ReaderPool
from .retention import Retention, Sweep
from .transaction import Transaction

__all__ = ["Writer"]

log = logging.getLogger(__name__)

LIGHT = 64 * 1024
"""Bytes that the loop writes itself at most: what takes longer is better done beside it."""
CROWD, CROWDED = 128, 1024 * 1024
"""So many agents that write at once are a loop that is behind: a thread beside it would only take turns with it, so it
writes up to so many bytes itself."""
PAUSE = 0.0005
"""Seconds without a commit after which the loop makes the next one itself."""
IDLE = 0.00005
"""Seconds that a turn of a loop takes, at most, which has nothing to do."""
PAGE = 4096
SWEPT = 64
"""Pages that a slice of retention writes, about."""


class _Job(Receipt, eq=False):
    """A piece of writing, and what came of it. Without `work` it is a sweep of retention.

    `size` is about how many bytes it writes; what nobody can tell is the thread's.
    """

    work: Callable[[Transaction, Any], object] | None = None
    argument: object = None
    agent: str = ""
    size: int = LIGHT + 1
    is_patient: bool = False


class _Desk(NamedTuple):
    """An open connection and those who write with it; replaced as a whole when it fails."""

    connection: sqlite3.Connection
    scribe: Transaction
    retention: Retention


class Writer:
    """Owns the file from `start` to `stop`: its lock, its connection, its readers.

    The public methods belong to the event loop that made it. Who has the seat may use the desk: the thread, or the
    loop if `writes_here`, which never waits for it.
    """

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        heads: dict[int, Head],
        readers: ReaderPool,
        lock: FileLock,
        lock_timeout: float,
        *,
        checkpoints: Checkpoints,
        files: DatabaseFiles,
        writes_here: bool,
    ) -> None:
        self._connect, self._heads, self._readers = connect, heads, readers
        self._lock, self._lock_timeout, self._files = lock, lock_timeout, files
        self._checkpoints, self._writes_here = checkpoints, writes_here
        self._seat = threading.Lock()
        self._last = 0.0
        """When something was last handed over."""
        self._turned_at: float | None = None
        """When it was last put off by a turn of the loop."""
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Job] = deque()
        """What the thread has not been given yet: it gets a tick's worth at a time, and no more while it writes.

        Woken for each job, it takes the interpreter away from the loop in the middle of a tick, for a commit of one or
        two: with many agents, four times as many commits and hand-overs as there need be.
        """
        self._is_writing = False
        self._is_hurried = False
        """Whether what waits need not wait for others."""
        self._is_due = False
        """Whether what waits is looked at in the next turn of the loop."""
        self._queue: queue.SimpleQueue[list[_Job] | None] = queue.SimpleQueue()
        files.on_lost = lambda: self._queue.put([])  # wakes the thread, which gives up
        self._sweeps: deque[_Job] = deque()
        self._desk: _Desk | None = None
        self._stopping = threading.Event()
        self._started: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()

    async def start(self) -> None:
        """Take the lock, open the file, and begin to write; raises what prevents it."""
        threading.Thread(target=self._run, name="everyword-writer", daemon=True).start()
        try:
            await asyncio.shield(self._started)
        except BaseException:
            self._started.add_done_callback(lambda started: started.exception())  # nobody waits for it any more
            await self.stop()
            raise

    async def stop(self) -> None:
        """Write what was accepted, close the file, let go of it. Idempotent; goes on if the caller is cancelled."""
        if not self._stopping.is_set():
            self._stopping.set()
            self._queue.put(self._take_waiting())
            self._queue.put(None)
        await asyncio.shield(self._ended)

    def submit(
        self,
        work: Callable[[Transaction, Any], object],
        argument: object,
        agent: str,
        size: int = LIGHT + 1,
        *,
        is_patient: bool = False,
    ) -> Receipt:
        """Queue a piece of writing of about this many bytes; the receipt has its result once it is committed.

        What `is_patient` waits a turn of the loop for others. Where many come at once, so do their leases and the
        beginnings of their turns, each a turn of the loop after the other: that is a third fewer commits.
        """
        return self._put(_Job(work=work, argument=argument, agent=agent, size=size, is_patient=is_patient))

    async def sweep(self, sweep: Sweep) -> Pruned:
        """Run a sweep of retention, in slices, whenever nothing else waits."""
        pruned: Pruned = await self._put(_Job(argument=sweep))
        return pruned

    def _put(self, job: _Job) -> Receipt:
        if self._stopping.is_set():
            raise LogUnavailable(f"{_attempted(job)}; the store is closed")
        if self._files.lost is not None:
            raise LogUnavailable(f"{_attempted(job)}; {self._files.lost}")
        if self._is_writing:
            pass  # it is handed over when the thread is done
        elif not job.is_patient:
            self._is_hurried = True
            if not self._is_due:
                self._look_soon()
        elif not self._waiting:
            self._loop.call_soon(self._look_soon)
        self._waiting.append(job)
        return job

    def hurry(self) -> None:
        """Look at what waits now: there is nothing more to come in this turn of the loop."""
        if self._is_hurried and self._turned_at is None:
            self._hand_over()

    def _look_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._is_due = False
        self._hand_over()

    def _hand_over(self) -> None:
        if not self._waiting or self._is_writing or self._stopping.is_set():
            self._is_hurried, self._turned_at = False, None
            return  # what waits while the thread writes is handed over when it is done
        if self._writes_here and self._is_put_off():
            self._look_soon()
        else:
            self._is_hurried = False
            self._write(self._take_waiting())

    def _write(self, jobs: list[_Job]) -> None:
        """Write here or let the thread do it."""
        is_written = False
        try:
            is_written = self._writes_here and self._write_here(jobs)
        finally:
            if not is_written:
                self._is_writing = True
                self._queue.put(jobs)
        settle(jobs if is_written else ())

    def _is_put_off(self) -> bool:
        """Tell whether to let the loop turn once more: it has just written, and does what brings more to write."""
        now, before = monotonic(), self._turned_at
        is_early = now - self._last < PAUSE
        self._turned_at = now if is_early and (before is None or now - before > IDLE) else None
        return self._turned_at is not None

    def _write_here(self, jobs: Sequence[_Job]) -> bool:
        """Write light jobs at once; False when it is better left to the thread, and nothing was written."""
        now = monotonic()
        is_late, self._last = now - self._last >= PAUSE, now
        if self._checkpoints.is_due or self._files.lost is not None or not _is_light(jobs):
            return False
        if not is_late and not self._checkpoints.is_running:  # who gives it to a thread that is busy waits for the disk
            return False
        if not self._seat.acquire(blocking=False):
            return False
        try:
            return self._desk is not None and self._try(self._desk.scribe, jobs)
        finally:
            self._seat.release()

    def _try(self, scribe: Transaction, jobs: Sequence[_Job]) -> bool:
        try:
            scribe.begin()
            for job in jobs:
                _write(scribe, job)
            scribe.flush()
            scribe.commit()
        except BaseException as exc:
            self._take_back(scribe)
            if isinstance(exc, Exception):
                return False  # the thread does it again, with more patience and piece by piece
            raise  # somebody stops the loop: what waits is still the thread's
        self._note(scribe, jobs)
        return True

    def _note(self, scribe: Transaction, jobs: Sequence[_Job]) -> None:
        """Count the pages that a commit wrote, about: words lie together, rows and all else in places of their own."""
        apart = [job for job in jobs if job.is_patient or job.work is not Transaction.append]
        self._checkpoints.note(2 + scribe.written // PAGE + sum(2 + job.size // PAGE for job in apart))

    def _take_waiting(self) -> list[_Job]:
        """Take what waits; from either side, each job once."""
        taken: list[_Job] = []
        with suppress(IndexError):
            while True:
                taken.append(self._waiting.popleft())
        return taken

    def _written(self, jobs: Sequence[_Job]) -> None:
        """Tell those who wait; what they append at once goes into the next transaction with what came meanwhile."""
        self._is_writing = False
        self._look_soon()
        settle(jobs)

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            self._lock.acquire(self._lock_timeout, self._stopping)
            self._sit_down()
        except BaseException as exc:  # noqa: BLE001 - it is raised where `start` is awaited
            failure = exc
        self._post(_resolve, self._started, failure)
        if failure is None:
            self._serve()
        self._leave()
        self._post(_resolve, self._ended, None)

    def _serve(self) -> None:
        is_open = True
        while is_open:
            jobs = self._gather(wait=not self._sweeps)
            if jobs and jobs[-1] is None:  # nothing is accepted after it
                jobs.pop()
                is_open = False
            urgent = [job for job in jobs if job is not None and job.work is not None]
            self._sweeps.extend(job for job in jobs if job is not None and job.work is None)
            if urgent:
                with self._seat:
                    self._commit(urgent)
            if jobs:
                self._post(self._written, urgent)
            elif is_open and self._sweeps:
                with self._seat:
                    self._sweep()
            if self._files.lost is not None:
                with self._seat:
                    self._give_up()
            elif self._checkpoints.is_due:
                self._checkpoint()

    def _checkpoint(self) -> None:
        try:
            self._checkpoints.run(self._seat)
        except (
            sqlite3.Error,
            EverywordError,
        ) as exc:  # the log grows on; the next commits find out whether there is room for it
            log.warning("unable to carry the write-ahead log over; %s", exc)

    def _gather(self, *, wait: bool) -> list[_Job | None]:
        """Return what was handed over, None as the last if there will be nothing more."""
        given = [self._queue.get()] if wait else []
        with suppress(queue.Empty):
            while True:
                given.append(self._queue.get_nowait())
        jobs: list[_Job | None] = []
        for each in given:
            jobs += [None] if each is None else each
        if self._sweeps and None not in jobs:
            jobs += self._take_waiting()  # between two slices nobody waits for the loop to hand over
        return jobs

    def _commit(self, jobs: Sequence[_Job]) -> None:
        """Write the jobs in one transaction. Afterwards each has its result or its error."""
        if self._files.lost is not None:
            return _fail(jobs, LogUnavailable(self._files.lost))
        try:
            scribe = self._sit_down().scribe
            scribe.begin(patience=BUSY_SECONDS)
        except (sqlite3.Error, EverywordError) as exc:
            self._stand_up()
            return _fail(jobs, exc)
        try:
            for job in jobs:
                _write(scribe, job)
            scribe.flush()
        except Exception as exc:  # noqa: BLE001 - whatever a batch brings along, the thread survives it
            self._take_back(scribe)
            if len(jobs) == 1:
                return _fail(jobs, exc)
            self._commit(jobs[: len(jobs) // 2])
            return self._commit(jobs[len(jobs) // 2 :])
        try:
            scribe.commit()
        except sqlite3.Error as exc:
            self._take_back(scribe)
            self._seal()
            return _fail(jobs, exc)
        return self._note(scribe, jobs)

    def _sweep(self) -> None:
        """Do one slice of the oldest sweep; its result comes with the last of them."""
        job = self._sweeps[0]
        assert isinstance(job.argument, Sweep)
        try:
            _, scribe, retention = self._sit_down()
            scribe.begin(patience=BUSY_SECONDS)
            job.result = retention.advance(job.argument)
            scribe.commit()
            self._checkpoints.note(SWEPT)
        except (sqlite3.Error, EverywordError) as exc:
            self._stand_up()
            _fail([job], exc)
        if job.result is not None or job.error is not None:
            del self._sweeps[0]
            self._post(settle, [job])

    def _sit_down(self) -> _Desk:
        if self._desk is None:
            self._files.check()
            connection = self._connect()
            self._desk = _Desk(connection, Transaction(connection, self._heads), Retention(connection))
            try:
                self._desk.scribe.begin(patience=BUSY_SECONDS)
                self._desk.scribe.rollback()
            except sqlite3.Error as exc:
                self._stand_up()
                kind = LogCorrupt if is_damage(exc) else LogUnavailable
                raise kind(f"unable to open {self._lock.path!r}; {exc}") from exc
            self._files.note()
        return self._desk

    def _stand_up(self) -> None:
        """Close a connection that has failed; the next transaction opens another."""
        desk, self._desk = self._desk, None
        if desk is not None:
            with suppress(LogUnavailable):
                self._files.check()  # before SQLite may remove what is beside the file
            self._files.forget_beside()
            with suppress(sqlite3.Error):
                desk.connection.close()

    def _give_up(self) -> None:
        """Carry the write-ahead log over one last time, and close: if only the log was deleted, nothing is lost.

        Left as it is, it would be taken for the log of whatever file is restored in the place of this one.
        """
        if self._desk is None:
            return
        try:
            self._desk.connection.execute(f"PRAGMA busy_timeout = {round(BUSY_SECONDS * 1000)}")
            self._desk.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as exc:
            log.warning("unable to carry the write-ahead log over; %s", exc)
        self._stand_up()

    def _take_back(self, scribe: Transaction) -> None:
        try:
            scribe.rollback()
        except sqlite3.Error:
            self._stand_up()

    def _seal(self) -> None:
        try:
            self._sit_down().scribe.overwrite_failed_commit()
        except (sqlite3.Error, EverywordError) as exc:
            log.warning("unable to write again after a failed commit; %s", exc)
            self._stand_up()

    def _leave(self) -> None:
        _fail(self._sweeps, LogUnavailable("the store is closing"))
        self._post(settle, list(self._sweeps))
        self._readers.close()
        self._checkpoints.close()
        if self._desk is not None:
            try:
                self._desk.scribe.save_heads()
                self._desk.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            except sqlite3.Error as exc:  # the next opening finds out by itself
                log.warning("unable to tidy up while closing; %s", exc)
        self._stand_up()
        self._lock.release()

    def _post(self, call: Callable[..., None], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(call, *arguments)


def _is_light(jobs: Sequence[_Job]) -> bool:
    size = sum(job.size for job in jobs)
    return size <= LIGHT or (len(jobs) >= CROWD and size <= CROWDED)


def _write(scribe: Transaction, job: _Job) -> None:
    """Let the scribe do the job; what it refuses before writing anything concerns this job only."""
    assert job.work is not None
    job.result = job.error = None
    try:
        job.result = job.work(scribe, job.argument)
    except EverywordError as exc:
        job.error = exc


def _fail(jobs: Sequence[_Job] | deque[_Job], cause: Exception) -> None:
    """Give every job that was not refused for a reason of its own the cause of the failure."""
    for job in jobs:
        if job.error is None:
            job.error = LogUnavailable(f"{_attempted(job)}; {cause}. Nothing of it was written{_cure(cause)}")
            job.error.__cause__ = cause


def _attempted(job: _Job) -> str:
    return f"unable to write {job.agent!r}" if job.agent else "unable to prune"


def _cure(cause: Exception) -> str:
    is_full = getattr(cause, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
    return ". Free some space: work goes on by itself" if is_full else ""


def _resolve(future: asyncio.Future[None], error: BaseException | None) -> None:
    if future.done():  # whoever waited was cancelled
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
