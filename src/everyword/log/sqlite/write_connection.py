"""The connection that writes: transactions over it, and what happens when one fails.

If a transaction fails, it is rolled back and tried again in halves, until the batch at fault stands alone: one bad
batch harms no other, and the others pay nothing for it (a savepoint per batch would double the cost of a commit). A
connection that failed is closed; the next transaction opens another.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from ...errors import EverywordError, LogCorrupt, LogUnavailable
from .checkpoints import Checkpoints
from .connection import BUSY_SECONDS, is_damage
from .files import DatabaseFiles
from .leases import Head
from .retention import Retention, Sweep
from .transaction import Transaction
from .write_job import WriteJob, fail_jobs

__all__ = ["WriteConnection"]

log = logging.getLogger(__name__)

PAGE = 4096
UNKNOWN_SIZE = 64 * 1024
"""Bytes that a job of unknown size counts as."""
SWEPT = 64
"""Pages that a slice of retention writes, about."""


class WriteConnection:
    """One connection, used by one thread at a time: the one that holds `lock`."""

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        heads: dict[int, Head],
        files: DatabaseFiles,
        checkpoints: Checkpoints,
    ) -> None:
        self.lock = threading.Lock()
        self._connect, self._heads = connect, heads
        self._files, self._checkpoints = files, checkpoints
        self._connection: sqlite3.Connection | None = None
        self._transaction: Transaction | None = None
        self._retention: Retention | None = None

    # -- by the event loop ---------------------------------------------------------------------------------

    def try_commit(self, jobs: Sequence[WriteJob]) -> bool:
        """Write the jobs in one transaction, without waiting for anything; False if nothing was written.

        The thread then does it again, with more patience and piece by piece.
        """
        if self._files.lost is not None or not self.lock.acquire(blocking=False):
            return False
        try:
            transaction = self._transaction
            if transaction is None:
                return False
            try:
                transaction.begin()
                for job in jobs:
                    job.run(transaction)
                transaction.flush()
                transaction.commit()
            except BaseException as exc:
                self._rollback(transaction)
                if isinstance(exc, Exception):
                    return False
                raise  # Ctrl-C: the jobs are still the thread's to write
            self._count_pages(transaction, jobs)
            return True
        finally:
            self.lock.release()

    # -- by the writer's thread, which holds the lock --------------------------------------------------------

    def open(self) -> Transaction:
        """Open the connection unless it is open.

        Raises:
            LogCorrupt: the file is damaged.
            LogUnavailable: it cannot be opened.
        """
        if self._transaction is None:
            self._files.check()
            connection = self._connect()
            self._connection, self._retention = connection, Retention(connection)
            self._transaction = Transaction(connection, self._heads)
            try:
                self._transaction.begin(patience=BUSY_SECONDS)
                self._transaction.rollback()
            except sqlite3.Error as exc:
                self.close()
                kind = LogCorrupt if is_damage(exc) else LogUnavailable
                raise kind(f"unable to open {self._files.path!r}; {exc}") from exc
            self._files.note()
        return self._transaction

    def commit(self, jobs: Sequence[WriteJob]) -> None:
        """Write the jobs in one transaction. Afterwards each has its result or its error."""
        if self._files.lost is not None:
            return fail_jobs(jobs, LogUnavailable(self._files.lost))
        try:
            transaction = self.open()
            transaction.begin(patience=BUSY_SECONDS)
        except (sqlite3.Error, EverywordError) as exc:
            self.close()
            return fail_jobs(jobs, exc)
        try:
            for job in jobs:
                job.run(transaction)
            transaction.flush()
        except Exception as exc:  # noqa: BLE001 - whatever a batch brings along, the thread survives it
            self._rollback(transaction)
            if len(jobs) == 1:
                return fail_jobs(jobs, exc)
            self.commit(jobs[: len(jobs) // 2])
            return self.commit(jobs[len(jobs) // 2 :])
        try:
            transaction.commit()
        except sqlite3.Error as exc:
            self._rollback(transaction)
            self._overwrite_failed_commit()
            return fail_jobs(jobs, exc)
        return self._count_pages(transaction, jobs)

    def sweep(self, job: WriteJob) -> None:
        """Do one slice of a sweep of retention; the job's result comes with the last of them."""
        assert isinstance(job.argument, Sweep)
        try:
            transaction = self.open()
            assert self._retention is not None
            transaction.begin(patience=BUSY_SECONDS)
            job.result = self._retention.advance(job.argument)
            transaction.commit()
            self._checkpoints.note(SWEPT)
        except (sqlite3.Error, EverywordError) as exc:
            self.close()
            fail_jobs([job], exc)

    def checkpoint(self) -> None:
        """Copy the write-ahead log into the file; waits for the lock only at the end of a very long log."""
        try:
            self._checkpoints.run(self.lock)
        except (sqlite3.Error, EverywordError) as exc:
            # The log grows on; the next commits find out whether there is room for it.
            log.warning("unable to copy the write-ahead log into the file; %s", exc)

    def give_up(self) -> None:
        """Copy the write-ahead log into the file a last time, and close: if only the log was deleted, nothing is lost.

        Left as it is, it would be taken for the log of whatever file is restored in the place of this one.
        """
        if self._connection is None:
            return
        try:
            self._connection.execute(f"PRAGMA busy_timeout = {round(BUSY_SECONDS * 1000)}")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as exc:
            log.warning("unable to copy the write-ahead log into the file; %s", exc)
        self.close()

    def close_for_good(self) -> None:
        """Leave the file as the next opening finds it quickest, and close."""
        if self._connection is not None and self._transaction is not None:
            try:
                self._transaction.save_heads()
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            except sqlite3.Error as exc:  # the next opening finds out by itself
                log.warning("unable to tidy up while closing; %s", exc)
        self.close()

    def close(self) -> None:
        """Close the connection; the next transaction opens another."""
        connection, self._connection = self._connection, None
        self._transaction = self._retention = None
        if connection is not None:
            with suppress(LogUnavailable):
                self._files.check()  # before SQLite may remove what is beside the file
            self._files.forget_beside()
            with suppress(sqlite3.Error):
                connection.close()

    def _rollback(self, transaction: Transaction) -> None:
        try:
            transaction.rollback()
        except sqlite3.Error:
            self.close()

    def _overwrite_failed_commit(self) -> None:
        try:
            self.open().overwrite_failed_commit()
        except (sqlite3.Error, EverywordError) as exc:
            log.warning("unable to write again after a failed commit; %s", exc)
            self.close()

    def _count_pages(self, transaction: Transaction, jobs: Sequence[WriteJob]) -> None:
        """Count the pages that a commit wrote, about: all its chunks lie together, the rest in pages of its own."""
        apart = sum(2 + (UNKNOWN_SIZE if job.size is None else job.size) // PAGE for job in jobs if job.has_rows)
        self._checkpoints.note(2 + transaction.written // PAGE + apart)
