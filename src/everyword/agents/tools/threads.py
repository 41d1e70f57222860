"""Threads for tools that are plain functions: a pool of their own, so that a hanging tool delays only other tools."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, Final

from ...errors import UsageError

__all__ = ["DEFAULT_SIZE", "CallThreads", "ToolThreads"]

log = logging.getLogger("everyword.agents")

DEFAULT_SIZE: Final = 64
IDLE: Final = 10.0
"""Seconds after which a thread without work ends."""

LISTED: Final = 10
"""Calls that the log line about a full pool names."""


class ToolThreads:
    """Runs the blocking code of tools in at most `size` threads at the same time; further calls wait for a free one.

    The threads are daemons: a tool that never returns cannot keep the process from ending.
    """

    def __init__(self, size: int = DEFAULT_SIZE, *, now: Callable[[], float] = time.monotonic) -> None:
        if size < 1:
            raise UsageError(f"unable to run tools in {size} threads; give tool_threads of 1 or more")
        self.size = size
        self._now = now
        self._changed = threading.Condition()
        """Guards everything below."""
        self._waiting: dict[_Work, None] = {}
        self._running: dict[_Work, float] = {}
        """When each piece of work began."""
        self._threads = self._idle = 0
        self._is_reported = False
        """True after the log line about a full pool, until half of the threads are free again."""

    @property
    def busy(self) -> int:
        """Threads that run a tool now, those included whose call has timed out."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Calls that wait for a free thread."""
        return len(self._waiting)

    def for_call(self, label: str) -> CallThreads:
        """Return an executor for one call; `label` names the call in log lines."""
        return CallThreads(self, label)

    def submit(self, work: _Work) -> None:
        with self._changed:
            self._waiting[work] = None
            is_full = len(self._running) + len(self._waiting) > self.size
            report = self._full_report(work) if is_full and not self._is_reported else None
            self._is_reported |= is_full
            needs_thread = len(self._waiting) > self._idle and self._threads < self.size
            self._threads += needs_thread
            self._changed.notify()
        if report is not None:
            log.warning("%s", report)
        if needs_thread:
            self._start_thread(work)
        work.future.add_done_callback(lambda future: self._forget_cancelled(work))

    def _start_thread(self, work: _Work) -> None:
        try:
            threading.Thread(target=self._run, name="everyword-tool", daemon=True).start()
        except RuntimeError:  # the operating system gives no more threads
            with self._changed:
                self._threads -= 1
                if not self._threads:
                    self._waiting.pop(work, None)
                    raise

    def _forget_cancelled(self, work: _Work) -> None:
        if work.future.cancelled():
            with self._changed:
                self._waiting.pop(work, None)

    def _full_report(self, work: _Work) -> str:
        now = self._now()
        held = [f"{each.call.label} for {now - begun:.0f} s" for each, begun in list(self._running.items())[:LISTED]]
        more = f" and {len(self._running) - LISTED} more" if len(self._running) > LISTED else ""
        return (
            f"all {self.size} threads for tools are busy, so {work.call.label} waits for one. Running: "
            f"{', '.join(held)}{more}. Set timeouts in the clients that these tools use, make the tools async, "
            "or raise Everyword(tool_threads=...)."
        )

    # -- in the threads ------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while (work := self._next()) is not None:
            work.run(self._end)
            del work  # an idle thread must not keep the last call alive

    def _next(self) -> _Work | None:
        with self._changed:
            while True:
                self._idle += 1
                self._changed.wait_for(lambda: self._waiting, IDLE)
                self._idle -= 1
                if not self._waiting:
                    self._threads -= 1
                    return None
                work = next(iter(self._waiting))
                del self._waiting[work]
                # Decided together: a call that timed out either never ran, or knows that it did.
                if work.future.set_running_or_notify_cancel():
                    work.call.has_begun = True
                    self._running[work] = self._now()
                    return work

    def _end(self, work: _Work) -> None:
        with self._changed:
            took = self._now() - self._running.pop(work)
            if len(self._running) <= self.size // 2 and not self._waiting:
                self._is_reported = False
        if work.call.is_over:
            log.warning("%s returned after %.1f s; its call had ended, so the result is dropped", work.call.label, took)


class CallThreads(Executor):
    """One call's use of the pool, for `loop.run_in_executor`."""

    def __init__(self, pool: ToolThreads, label: str) -> None:
        self.label = label
        self.is_asked = False
        """True once code of this call was to be run in a thread."""
        self.has_begun = False
        """True once a thread has run code of this call: what it did cannot be taken back."""
        self.is_over = False
        """True once the call has ended, as by its timeout; a result that comes later is dropped."""
        self._pool = pool

    @property
    def size(self) -> int:
        """How many calls may use threads at the same time."""
        return self._pool.size

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.is_asked = True
        work = _Work(self, lambda: function(*args, **kwargs))
        self._pool.submit(work)
        return work.future


class _Work:
    """One function to run in a thread."""

    def __init__(self, call: CallThreads, function: Callable[[], Any]) -> None:
        self.call, self.future = call, Future[Any]()
        self._function = function

    def run(self, ended: Callable[[_Work], None]) -> None:
        """Run the function and settle the future; the thread counts as free before the caller gets the result."""
        try:
            result = self._function()
        except BaseException as error:  # noqa: BLE001 - the caller gets it
            ended(self)
            self.future.set_exception(error)
            del self  # the error's traceback has this frame: together they would wait for the collector
        else:
            ended(self)
            self.future.set_result(result)
