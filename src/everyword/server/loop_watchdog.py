"""Finding code that blocks the event loop: while it runs, no client is sent anything and no other agent works."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import sys
import sysconfig
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, Final
from weakref import WeakKeyDictionary

from ..agents.execution_context import current_agent_in
from ..observe.api import LoopBlocked

__all__ = ["LoopWatchdog", "hear_blocks"]

log = logging.getLogger("everyword.server")

AFTER: Final = 1.0
"""Seconds without an answer of the loop after which it counts as blocked."""
EVERY: Final = 0.25
"""Seconds between two questions to the loop."""

HINT: Final = (
    "Nothing else runs meanwhile. Use an async client, or `await asyncio.to_thread(...)`; a tool may be a plain `def`, "
    "which runs in a thread"
)

Hearer = Callable[[LoopBlocked], None]
_hearers: WeakKeyDictionary[asyncio.AbstractEventLoop, list[Hearer]] = WeakKeyDictionary()


def hear_blocks(hearer: Hearer) -> Callable[[], None]:
    """Call `hearer` in the running loop each time it was blocked, if a watchdog runs; the result ends that."""
    told = _hearers.setdefault(asyncio.get_running_loop(), [])
    told.append(hearer)
    return lambda: told.remove(hearer)


class LoopWatchdog:
    """Logs which code blocks the event loop that it was started in, and for how long.

    A thread asks the loop for an answer a few times per second. When none comes, it looks at the stack of the loop's
    thread. The loop itself does nothing but answer.
    """

    def __init__(
        self, *, after: float = AFTER, every: float = EVERY, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._after, self._every, self._now = after, every, now
        self._stopped = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ident = 0
        """The loop's thread."""
        self._depth = 0
        """Frames of the loop's thread that belong to the loop itself and to what started it."""

    def start(self) -> None:
        """Watch the running loop until `stop`."""
        self._loop, self._ident = asyncio.get_running_loop(), threading.get_ident()
        threading.Thread(target=self._watch, args=(self._loop,), name="everyword-watchdog", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._stopped.is_set():
            answered, asked_at = threading.Event(), self._now()
            try:
                loop.call_soon_threadsafe(self._answer, answered)
            except RuntimeError:  # the loop is closed
                return
            if not answered.wait(self._after):
                self._report(loop, answered, asked_at)
            self._stopped.wait(self._every)

    def _answer(self, answered: threading.Event) -> None:
        self._depth = len(_stack(sys._getframe())) - 1
        answered.set()

    def _report(self, loop: asyncio.AbstractEventLoop, answered: threading.Event, asked_at: float) -> None:
        found = self.look(loop)
        if found is None or answered.is_set():  # it waits for the processor, or went on while we looked
            return
        found = replace(found, seconds=self._now() - asked_at)
        text = "the event loop has been blocked for %.1f s by %s (%s). %s"
        log.warning(text, found.seconds, _who(found), found.place, HINT, extra=_fields(found))
        while not answered.wait(self._after):
            if self._stopped.is_set():
                return
        found = replace(found, seconds=self._now() - asked_at)
        for hearer in _hearers.get(loop, ())[:]:
            loop.call_soon_threadsafe(hearer, found)
        text = "the event loop runs again; it was blocked for %.1f s by %s (%s)"
        log.warning(text, found.seconds, _who(found), found.place, extra=_fields(found))

    def look(self, loop: asyncio.AbstractEventLoop) -> LoopBlocked | None:
        """Return which code the loop runs right now; None when it runs none."""
        frame = sys._current_frames().get(self._ident)
        frames = _stack(frame)[self._depth :] if frame is not None and self._depth else []
        if not frames:
            return None
        method, place = _blocking(frames)
        task = asyncio.current_task(loop)
        agent = current_agent_in(_context_of(task)) if task is not None else None
        return LoopBlocked(agent._runtime.agent if agent is not None else None, method, place)


def _stack(frame: FrameType | None) -> list[FrameType]:
    """Return the frames, the outermost first."""
    frames: list[FrameType] = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames[::-1]


def _blocking(frames: list[FrameType]) -> tuple[str, str]:
    """Return the user's function that we or the loop called, and the line of the user's code that runs."""
    first = next((at for at, frame in enumerate(frames) if _is_ours(frame)), 0)
    users = [frame for frame in frames[first:] if _is_users(frame)] or [frame for frame in frames if _is_users(frame)]
    # An app that is installed as a package looks like a library.
    users = users or [frame for frame in frames if not _is_ours(frame) and not _is_stdlib(frame)] or frames
    outer, inner = users[0], users[-1]
    place = f"{_short(inner.f_code.co_filename)}:{inner.f_lineno}"
    within = f" in {inner.f_code.co_qualname}" if inner is not outer else ""
    return outer.f_code.co_qualname, place + within


_OURS: Final = str(Path(__file__).parents[1])
_STDLIB: Final = sysconfig.get_path("stdlib")


def _is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_OURS)


def _is_stdlib(frame: FrameType) -> bool:
    name = frame.f_code.co_filename
    return name.startswith((_STDLIB, "<frozen")) and "site-packages" not in name


def _is_users(frame: FrameType) -> bool:
    return not _is_ours(frame) and not _is_stdlib(frame) and "site-packages" not in frame.f_code.co_filename


def _short(path: str) -> str:
    here = f"{Path.cwd()}/"
    return path.removeprefix(here)


def _context_of(task: asyncio.Task[Any]) -> contextvars.Context:
    if sys.version_info >= (3, 12):
        return task.get_context()
    # Python 3.11 has no other way to a task's context.
    held = (each for each in gc.get_referents(task) if isinstance(each, contextvars.Context))
    return next(held, contextvars.Context())


def _who(found: LoopBlocked) -> str:
    return found.method if found.agent is None else f"{found.method} of {found.agent!r}"


def _fields(found: LoopBlocked) -> dict[str, Any]:
    return {"agent": found.agent, "method": found.method, "place": found.place, "seconds": round(found.seconds, 3)}
