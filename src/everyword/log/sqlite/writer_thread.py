"""The writer's thread: makes transactions that are large or wait for the disk, runs retention, and checkpoints."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from ...errors import LogUnavailable
from ..receipt import settle
from .checkpoints import Checkpoints
from .files import DatabaseFiles
from .lock import FileLock
from .reader_pool import ReaderPool
from .write_connection import WriteConnection
from .write_job import WriteJob, fail_jobs

__all__ = ["WriterThread"]

log = logging.getLogger(__name__)


class WriterThread:
    """Owns the file from `start` to `stop`: its lock, its connection, its readers.

    `on_written` is called in the event loop with the jobs of each transaction. `take_waiting` gives jobs that were not
    handed over yet; it is called from the thread.
    """

    def __init__(
        self,
        connection: WriteConnection,
        checkpoints: Checkpoints,
        files: DatabaseFiles,
        readers: ReaderPool,
        lock: FileLock,
        lock_timeout: float,
    ) -> None:
        self._connection, self._checkpoints, self._files, self._readers = connection, checkpoints, files, readers
        self._lock, self._lock_timeout = lock, lock_timeout
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[list[WriteJob] | None] = queue.SimpleQueue()
        files.on_lost = lambda: self._queue.put([])  # wakes the thread, which gives up
        self._sweeps: deque[WriteJob] = deque()
        self._writing: list[WriteJob] = []
        self._stopping = threading.Event()
        self._started: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self.on_written: Callable[[list[WriteJob]], None] = settle
        self.take_waiting: Callable[[], list[WriteJob]] = list

    # -- called by the event loop ----------------------------------------------------------------------------

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    async def start(self) -> None:
        """Take the lock, open the file, and begin to write; raises what prevents it."""
        threading.Thread(target=self._run, name="everyword-writer", daemon=True).start()
        try:
            await asyncio.shield(self._started)
        except BaseException:
            self._started.add_done_callback(lambda started: started.exception())  # so that it counts as retrieved
            await self.stop()
            raise

    async def stop(self) -> None:
        """Write what was accepted, close the file, release it. Idempotent; goes on if the caller is cancelled."""
        if not self._stopping.is_set():
            self._stopping.set()
            self._queue.put(self.take_waiting())
            self._queue.put(None)
        await asyncio.shield(self._ended)

    def hand_over(self, jobs: list[WriteJob]) -> None:
        """Let the thread write the jobs in one transaction."""
        self._queue.put(jobs)

    # -- in the thread -----------------------------------------------------------------------------------------

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            self._lock.acquire(self._lock_timeout, self._stopping)
            self._connection.open()
        except BaseException as exc:  # noqa: BLE001 - it is raised where `start` is awaited
            failure = exc
        self._call_in_loop(_resolve, self._started, failure)
        try:
            if failure is None:
                self._serve()
        except BaseException as exc:
            log.exception("the writer's thread broke; restart the server")
            self._refuse_all(exc)
        finally:
            try:
                self._leave()
            finally:
                self._call_in_loop(_resolve, self._ended, None)

    def _refuse_all(self, cause: BaseException) -> None:
        """Refuse everything that comes, and give an error to everything that waits.

        The second in the event loop: it may be about to add a job that it has checked before.
        """
        self._stopping.set()
        self._call_in_loop(self._fail_waiting, cause if isinstance(cause, Exception) else RuntimeError(repr(cause)))

    def _fail_waiting(self, cause: Exception) -> None:
        left = [job for given in self._queued() if given is not None for job in given] + self._writing
        left += self.take_waiting()
        fail_jobs(left, cause)
        settle(left)

    def _queued(self) -> list[list[WriteJob] | None]:
        given: list[list[WriteJob] | None] = []
        with suppress(queue.Empty):
            while True:
                given.append(self._queue.get_nowait())
        return given

    def _serve(self) -> None:
        is_open = True
        while is_open:
            jobs = self._next_jobs(wait=not self._sweeps)
            if jobs and jobs[-1] is None:  # nothing is accepted after it
                jobs.pop()
                is_open = False
            writes = [job for job in jobs if job is not None and job.work is not None]
            self._sweeps.extend(job for job in jobs if job is not None and job.work is None)
            self._writing = writes
            if writes:
                with self._connection.lock:
                    self._connection.commit(writes)
            self._writing = []
            if jobs:
                self._call_in_loop(self.on_written, writes)
            elif is_open and self._sweeps:
                self._sweep()
            if self._files.lost is not None:
                with self._connection.lock:
                    self._connection.give_up()
            elif self._checkpoints.is_due:
                self._connection.checkpoint()

    def _next_jobs(self, *, wait: bool) -> list[WriteJob | None]:
        """Return what was handed over, None as the last if there will be nothing more."""
        given = ([self._queue.get()] if wait else []) + self._queued()
        jobs: list[WriteJob | None] = []
        for each in given:
            jobs += [None] if each is None else each
        if self._sweeps and None not in jobs:
            jobs += self.take_waiting()  # between two slices of retention no job waits for the loop to hand it over
        return jobs

    def _sweep(self) -> None:
        """Do one slice of the oldest sweep."""
        job = self._sweeps[0]
        with self._connection.lock:
            self._connection.sweep(job)
        if job.result is not None or job.error is not None:
            del self._sweeps[0]
            self._call_in_loop(settle, [job])

    def _leave(self) -> None:
        fail_jobs(self._sweeps, LogUnavailable("the store is closing"))
        self._call_in_loop(settle, list(self._sweeps))
        self._readers.close()
        self._checkpoints.close()
        self._connection.close_for_good()
        self._lock.release()

    def _call_in_loop(self, call: Callable[..., None], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: nothing waits any more
            self._loop.call_soon_threadsafe(call, *arguments)


def _resolve(future: asyncio.Future[None], error: BaseException | None) -> None:
    if future.done():  # the caller that waited was cancelled
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
