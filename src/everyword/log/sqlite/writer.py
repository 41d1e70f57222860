"""Everything that is written goes through here, in order: by the event loop itself, or by the writer's thread.

What waits while a transaction is under way is the next transaction: there is no timer. `commit_policy` chooses who
makes it and when. What is large, what has to wait for the disk and what goes wrong is always the thread's. The thread
outlives every error of the disk: each job gets its error, and the next transaction is tried afresh.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from ...errors import LogUnavailable
from ...rows import KeptRow, MessageRow
from ..base import Batch, Pruned
from ..receipt import Receipt, settle
from .checkpoints import Checkpoints
from .commit_policy import CommitPolicy, Place
from .files import DatabaseFiles
from .retention import Sweep
from .transaction import Transaction
from .write_connection import WriteConnection
from .write_job import WriteJob
from .writer_thread import WriterThread

__all__ = ["ROW", "Writer"]

ROW = 256
"""Bytes of a row besides its body, about."""


class Writer:
    """The event loop's side: takes jobs and gives receipts. All methods belong to the loop that made it."""

    def __init__(
        self,
        connection: WriteConnection,
        thread: WriterThread,
        policy: CommitPolicy,
        checkpoints: Checkpoints,
        files: DatabaseFiles,
    ) -> None:
        self._connection, self._thread, self._policy = connection, thread, policy
        self._checkpoints, self._files = checkpoints, files
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[WriteJob] = deque()
        """Jobs that are in no transaction yet. The thread is handed all of them at once, and none while it writes.

        Woken for each job, it would take the interpreter away from the loop in the middle of an iteration, for a
        transaction of one or two: with many agents, four times as many transactions and hand-overs as there need be.
        """
        self._is_thread_writing = False
        self._is_due = False
        """True while the loop is to look at what waits in its next iteration."""
        thread.on_written, thread.take_waiting = self._written_by_thread, self._take_waiting

    async def start(self) -> None:
        """Open the file and begin to write; raises what prevents it."""
        await self._thread.start()

    async def stop(self) -> None:
        """Write what was accepted, then close the file. Idempotent."""
        await self._thread.stop()

    def append(self, batches: Sequence[Batch]) -> Sequence[Receipt]:
        """Write the batches, now if the policy says so: nothing else comes in this tick of the commit loop."""
        jobs = [_append_job(batch) for batch in batches]
        if (why := self._refusal) is not None:
            return [_refused(job, why) for job in jobs]
        self._waiting.extend(jobs)
        try:
            if not self._policy.is_waiting:
                self._commit()
        except BaseException as exc:  # noqa: BLE001 - Ctrl-C: raised once the caller has its receipts
            self._loop.call_soon(_raise, exc)
        return jobs

    def submit(
        self, work: Callable[[Transaction, Any], object], argument: object, agent: str, size: int | None = None
    ) -> Receipt:
        """Queue a piece of writing of about `size` bytes; the receipt has its result once it is committed.

        It waits for the next iteration of the loop: where many agents are loaded at once, their leases are one
        transaction.
        """
        return self._queue(WriteJob(work=work, argument=argument, agent=agent, size=size))

    async def sweep(self, sweep: Sweep) -> Pruned:
        """Run a sweep of retention, in slices, whenever nothing else waits."""
        pruned: Pruned = await self._queue(WriteJob(argument=sweep))
        return pruned

    def _queue(self, job: WriteJob) -> Receipt:
        if (why := self._refusal) is not None:
            return _refused(job, why)
        self._waiting.append(job)
        self._commit_soon()
        return job

    @property
    def _refusal(self) -> str | None:
        """Why nothing can be written any more; None while it can."""
        return "the store is closed" if self._thread.is_stopping else self._files.lost

    def _commit_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._commit_due)

    def _commit_due(self) -> None:
        self._is_due = False
        self._commit()

    def _commit(self) -> None:
        """Make a transaction of everything that waits, or wait another iteration, as the policy says."""
        if not self._waiting or self._is_thread_writing or self._thread.is_stopping:
            self._policy.rest()
            return  # what waits while the thread writes is its next transaction
        if self._policy.is_to_wait():
            self._commit_soon()
            return
        jobs, is_written = self._take_waiting(), False  # first: the thread may take from what waits, too
        place = self._policy.place(jobs, is_checkpointing=self._checkpoints.is_running)
        try:
            if place is Place.LOOP and not self._checkpoints.is_due:
                is_written = self._connection.try_commit(jobs)
        finally:
            if not is_written:
                self._is_thread_writing = True
                self._thread.hand_over(jobs)
        if is_written:
            settle(jobs)

    def _written_by_thread(self, jobs: list[WriteJob]) -> None:
        self._is_thread_writing = False
        try:
            settle(jobs)
        finally:
            self._commit_soon()  # after what the commit has let actors decide: it is in the same transaction then

    def _take_waiting(self) -> list[WriteJob]:
        """Take what waits; from the loop or the thread, each job once."""
        taken: list[WriteJob] = []
        with suppress(IndexError):
            while True:
                taken.append(self._waiting.popleft())
        return taken


def _refused(job: WriteJob, why: str) -> WriteJob:
    """Return the job, done, with the error that nothing of it was written."""
    job.error, job.is_done = LogUnavailable(f"{job.attempted}; {why}"), True
    return job


def _raise(exc: BaseException) -> None:
    raise exc


def _append_job(batch: Batch) -> WriteJob:
    return WriteJob(
        work=Transaction.append, argument=batch, agent=batch.agent, size=_size(batch), has_rows=bool(batch.rows)
    )


def _size(batch: Batch) -> int:
    """Return about how many bytes the batch is in the file."""
    size = ROW * (len(batch.entries) + len(batch.rows))
    for entry in batch.entries:
        size += len(entry.body)
    if not batch.rows:
        return size
    for row in batch.rows:
        if isinstance(row, MessageRow):
            size += len(row.body or b"") + len(row.draft or b"")
        elif isinstance(row, KeptRow):
            size += len(row.body or b"")
    return size
