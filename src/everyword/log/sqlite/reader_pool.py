"""Threads that read the file, so that the event loop never waits for the disk."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ...errors import LogCorrupt, LogUnavailable
from .connection import is_damage
from .queries import Reader

__all__ = ["ReaderPool"]

T = TypeVar("T")

THREADS = 2


class ReaderPool:
    """A small pool of threads, each with its own connection, opened at first use."""

    def __init__(self, connect: Callable[[], Reader]) -> None:
        self._connect = connect
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="everyword-reader")
        self._local = threading.local()
        self._opened: list[Reader] = []

    async def run(self, what: str, work: Callable[[Reader], T]) -> T:
        """Run `work` on a thread and return its result; `what` names the data in errors.

        Raises:
            LogCorrupt: stored bytes are damaged.
            LogUnavailable: the file cannot be read now, or the store is closed.
        """
        try:
            asked = asyncio.get_running_loop().run_in_executor(self._pool, self._answer, what, work)
        except RuntimeError as exc:  # the pool is shut down
            raise LogUnavailable(f"unable to read {what}; the store is closed") from exc
        return await asked

    def close(self) -> None:
        """Wait for the running queries, then close the connections. Blocks."""
        self._pool.shutdown(wait=True)
        for reader in self._opened:
            reader.close()

    def _answer(self, what: str, work: Callable[[Reader], T]) -> T:
        try:
            return work(self._reader())
        except (sqlite3.Error, ValueError) as exc:
            self._drop()
            if isinstance(exc, ValueError) or is_damage(exc):
                raise LogCorrupt(
                    f"unable to read {what}; {exc}. Restore it from a backup; the rest of the file is not affected"
                ) from exc
            raise LogUnavailable(f"unable to read {what}; {exc}") from exc

    def _reader(self) -> Reader:
        reader: Reader | None = getattr(self._local, "reader", None)
        if reader is None:
            reader = self._local.reader = self._connect()
            self._opened.append(reader)
        return reader

    def _drop(self) -> None:
        """Close the thread's connection after an error; the next query opens another."""
        reader: Reader | None = getattr(self._local, "reader", None)
        if reader is not None:
            self._local.reader = None
            self._opened.remove(reader)
            reader.close()
