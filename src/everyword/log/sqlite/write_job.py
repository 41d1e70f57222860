"""One piece of writing on its way into a transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

from ...errors import EverywordError, LogUnavailable
from ..receipt import Receipt
from .transaction import Transaction

__all__ = ["WriteJob", "fail_jobs"]


class WriteJob(Receipt, eq=False):
    """A piece of writing, and its receipt. Without `work` it is a sweep of retention."""

    work: Callable[[Transaction, Any], object] | None = None
    argument: object = None
    agent: str = ""
    size: int | None = None
    """About how many bytes it writes; None if that is not known."""
    has_rows: bool = True
    """False for chunks alone: all chunks of a transaction lie together, rows lie in pages of their own."""

    @property
    def attempted(self) -> str:
        return f"unable to write {self.agent!r}" if self.agent else "unable to prune"

    def run(self, transaction: Transaction) -> None:
        """Do the work; an error that the transaction raises before it has written anything is this job's own."""
        assert self.work is not None
        self.result = self.error = None
        try:
            self.result = self.work(transaction, self.argument)
        except EverywordError as exc:
            self.error = exc


def fail_jobs(jobs: Iterable[WriteJob], cause: Exception) -> None:
    """Give the cause of a failed transaction to every job that has no error of its own."""
    for job in jobs:
        if job.error is None:
            job.error = LogUnavailable(f"{job.attempted}; {cause}. Nothing of it was written{_cure(cause)}")
            job.error.__cause__ = cause


def _cure(cause: Exception) -> str:
    is_full = getattr(cause, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
    return ". Free some space: work goes on by itself" if is_full else ""
