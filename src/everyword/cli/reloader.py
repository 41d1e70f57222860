"""Restarts the server of `everyword dev` when a file changes: a parent process that watches, a child that serves.

The parent holds the listening socket, so that no client is refused between two children, and the write end of a pipe:
a child exits when the pipe closes, so it never outlives its parent. Answers in progress are in the log, and the next
child continues them.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from ..errors import BrokenApp, UsageError
from ..extras import missing
from .app_import import load_app

__all__ = ["FileWatcher", "can_reload", "check_app", "inherited_listener", "is_child", "keep_serving", "load_in_child"]
__all__ += ["is_restarted", "root_pid"]

LISTENER, PIPE, RESTARTED = "_EVERYWORD_LISTENER", "_EVERYWORD_PIPE", "_EVERYWORD_RESTARTED"
"""Environment variables by which the parent tells its child which file descriptors it inherits."""

CHECK_EVERY = 0.2
"""Seconds between two checks for a changed file while the child runs."""

SETTLE = 50
"""Milliseconds without a further change before a change is reported: editors write a file in several steps."""

STOP_TIMEOUT = 10.0
"""Seconds that a child has to stop before it is killed."""

STARTED_AFTER = 1.0
"""A child that lived this many seconds was killed from outside; one that dies earlier would die again."""

BROKEN = 70
"""Exit code of a child whose app cannot be imported: a change of a file may repair that."""

IGNORED_FOLDERS = {"__pycache__", "node_modules", "site-packages", "venv", "dist", "build"}


def can_reload() -> bool:
    """Return whether this platform can pass a socket to a child process."""
    return os.name == "posix"


def is_child() -> bool:
    """Return whether a parent that watches files has started this process."""
    return PIPE in os.environ


def root_pid() -> int:
    """Return the process to kill so that parent and child are gone."""
    return os.getppid() if is_child() else os.getpid()


# -- the parent --------------------------------------------------------------------------------------------------------


class FileWatcher:
    """Watches the Python files below some folders, in a thread."""

    def __init__(self, *folders: Path) -> None:
        try:
            import watchfiles
        except ImportError:
            raise missing("watchfiles", "server", "restart when a file changes (--no-reload works without)") from None
        self._watch = watchfiles.watch
        self._folders = _outermost(folders)
        self._changed: Path | None = None
        self._is_closed = threading.Event()
        self._has_changed = threading.Event()
        threading.Thread(target=self._run, name="file watcher", daemon=True).start()

    def wait(self, seconds: float) -> Path | None:
        """Return a file that was written, created or deleted since the last call; None after some seconds without."""
        if not self._has_changed.wait(seconds):
            return None
        self._has_changed.clear()
        return self._changed

    def close(self) -> None:
        self._is_closed.set()

    def _run(self) -> None:
        try:
            for changes in self._watch(
                *self._folders,
                watch_filter=lambda _, path: self._is_watched(path),
                debounce=SETTLE * 10,
                step=SETTLE,
                stop_event=self._is_closed,
                rust_timeout=500,  # how late a `close` is noticed
                raise_interrupt=False,
                ignore_permission_denied=True,
            ):
                self._changed = Path(min(path for _, path in changes))
                self._has_changed.set()
        except OSError as exc:  # for instance the limit of inotify watches
            _print(f"unable to watch files; {exc}. Restart by hand, or set WATCHFILES_FORCE_POLLING=1")

    def _is_watched(self, path: str) -> bool:
        if not path.endswith(".py"):
            return False
        for folder in self._folders:
            with suppress(ValueError):
                parts = Path(path).relative_to(folder).parts[:-1]
                return not any(part in IGNORED_FOLDERS or part.startswith(".") for part in parts)
        return False


def _outermost(folders: Sequence[Path]) -> list[Path]:
    """Return the folders that exist, without those that lie below another."""
    found = sorted({folder.resolve() for folder in folders if folder.is_dir()})
    return [folder for folder in found if not any(other in folder.parents for other in found)]


def check_app(named: str) -> None:
    """Check that the file of an app exists.

    Raises:
        UsageError: it does not.
    """
    where = named.partition(":")[0]
    if where.endswith(".py") and not Path(where).is_file():
        raise UsageError(f"unable to serve {where!r}; there is no such file")


def keep_serving(named: str, listener: socket.socket, host: str) -> int:
    """Run an app in one child process after another until told to stop; return the exit code."""
    where = Path(named.partition(":")[0])
    with listener:
        watcher = FileWatcher(where.resolve().parent if where.suffix == ".py" else Path.cwd(), Path.cwd())
        with _Parent(named, listener, host, watcher) as parent:
            while True:
                code = parent.wait()
                if code is None:
                    parent.restart()
                elif parent.is_stopping() or code == 0:
                    return 0
                elif code < 0 and parent.has_started:
                    _print("the server was killed; restarting it, and open turns continue")
                    parent.restart()
                elif parent.has_served or code == BROKEN or code < 0:
                    _print("waiting for a file to change")
                    parent.wait_for_change()
                    if parent.is_stopping():
                        return 0
                    parent.restart()
                else:
                    return code


class _Parent:
    """Owns the child process, and forwards SIGINT and SIGTERM to it."""

    def __init__(self, named: str, listener: socket.socket, host: str, watcher: FileWatcher) -> None:
        self._is_stopping = False
        self.has_served = False
        self._listener, self._watcher = listener, watcher
        self._arguments = [sys.executable, "-m", "everyword", "dev", named, "--host", host]
        self._read_end, self._write_end = os.pipe()
        self._former_handlers: dict[int, Any] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0

    def is_stopping(self) -> bool:
        """Return whether a signal told this process to stop."""
        return self._is_stopping

    @property
    def has_started(self) -> bool:
        """True when the child lived long enough: one that dies at once would do so again and again."""
        return time.monotonic() - self._started_at > STARTED_AFTER

    def __enter__(self) -> _Parent:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._former_handlers[number] = signal.signal(number, self._forward)
        self.restart()
        return self

    def __exit__(self, *failure: object) -> None:
        self._stop()
        self._watcher.close()
        for number, former in self._former_handlers.items():
            signal.signal(number, former)
        os.close(self._read_end)
        os.close(self._write_end)

    def wait(self) -> int | None:
        """Return the child's exit code, or None when a file has changed."""
        assert self._process is not None
        while True:
            with suppress(subprocess.TimeoutExpired):
                return self._process.wait(CHECK_EVERY)
            if not self.is_stopping() and (path := self._watcher.wait(0)) is not None:
                self.has_served = True
                _print(f"{os.path.relpath(path)} changed; restarting")
                return None

    def wait_for_change(self) -> None:
        path = None
        while not self.is_stopping() and path is None:
            path = self._watcher.wait(CHECK_EVERY)
        if path is not None:
            _print(f"{os.path.relpath(path)} changed; trying again")

    def restart(self) -> None:
        is_first = self._process is None
        self._stop()
        self._started_at = time.monotonic()
        descriptors = {LISTENER: str(self._listener.fileno()), PIPE: str(self._read_end)}
        self._process = subprocess.Popen(
            self._arguments,
            env={**os.environ, **descriptors, RESTARTED: "" if is_first else "1"},
            pass_fds=[self._listener.fileno(), self._read_end],
            start_new_session=True,  # Ctrl+C reaches the parent alone, which forwards it once
        )

    def _stop(self) -> None:
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _forward(self, number: int, frame: FrameType | None) -> None:
        self._is_stopping = True
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)


def _print(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


# -- the child ---------------------------------------------------------------------------------------------------------


def inherited_listener() -> socket.socket | None:
    """Return the parent's listening socket, None without a parent; from then on this process dies with its parent."""
    if not is_child():
        return None
    pipe = int(os.environ[PIPE])
    threading.Thread(target=_exit_with_parent, args=(pipe,), name="parent watch", daemon=True).start()
    return socket.socket(fileno=int(os.environ[LISTENER]))


def _exit_with_parent(pipe: int) -> None:
    os.read(pipe, 1)  # returns when the parent's end is closed: nothing is ever written
    os.kill(os.getpid(), signal.SIGKILL)


def load_in_child(named: str) -> Any:
    """Import an app. In a child, exit with the code BROKEN if that fails: the parent waits for a change then."""
    try:
        return load_app(named)
    except BrokenApp as exc:
        if not is_child():
            raise
        print(exc, file=sys.stderr, end="")
        sys.exit(BROKEN)


def is_restarted() -> bool:
    """Return whether this process replaces an earlier child."""
    return bool(os.environ.get(RESTARTED))
