"""One process per file (R-19): an operating-system lock on `<path>.lock`, which ends with the process that holds it."""

from __future__ import annotations

import importlib
import logging
import os
import threading
import time
import weakref
from types import ModuleType

from ...errors import LogLocked, LogUnavailable

fcntl: ModuleType | None
try:
    fcntl = importlib.import_module("fcntl")
except ImportError:  # no such lock on this platform
    fcntl = None

__all__ = ["FileLock"]

log = logging.getLogger(__name__)

POLL = 0.05
"""Seconds between two attempts: how late a waiting process notices that the lock is free."""

ADVICE = "One file serves one process: stop the other server, do not use `--workers`, or choose another `store=`"


class FileLock:
    """The right to use a database file. `acquire` blocks its thread, so it must not be called on an event loop.

    The lock belongs to the open file, and the operating system releases it when the process ends, in any way. The lock
    file itself stays: if it were removed, two processes could lock two files of the same name.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor: int | None = None

    def acquire(self, timeout: float, stop: threading.Event) -> None:
        """Wait up to `timeout` seconds, or until `stop` is set.

        Raises:
            LogLocked: another process still holds the lock.
            LogUnavailable: the lock file cannot be used at all.
        """
        if fcntl is None:
            log.warning("unable to lock %r; this platform has no flock. Use it with one process only", self.path)
            return
        deadline = time.monotonic() + timeout
        try:
            descriptor = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as exc:
            raise LogUnavailable(f"unable to open {self.path!r}; {exc}. Its folder must exist and be writable") from exc
        is_logged = timeout <= 0
        try:
            while not self._try_lock(descriptor):
                if not is_logged:  # a deploy waits here for the old server; after a mistake the operator must see why
                    is_logged = True
                    log.warning(
                        "waiting up to %g s for %r; %s holds it. %s", timeout, self.path, _holder(descriptor), ADVICE
                    )
                if time.monotonic() >= deadline or stop.wait(POLL):
                    raise LogLocked(
                        f"unable to open {self.path!r}; {_holder(descriptor)} holds it and did not release it within "
                        f"{timeout:g} s. {ADVICE}"
                    )
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        _held.add(self)

    def release(self) -> None:
        """Release the lock. Idempotent."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _try_lock(self, descriptor: int) -> bool:
        assert fcntl is not None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as exc:
            raise LogUnavailable(f"unable to lock {self.path!r}; {exc}. Use a local disk") from exc
        return True


def _holder(descriptor: int) -> str:
    pid = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
    return "this process itself" if pid == str(os.getpid()) else f"another process (pid {pid or 'unknown'})"


_held: weakref.WeakSet[FileLock] = weakref.WeakSet()


def _drop_inherited() -> None:
    # A forked child shares the open file: it would keep the lock after the server has ended.
    for lock in list(_held):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_inherited)
