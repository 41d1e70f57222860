"""Starting a server anew when its files change: one process that watches, and below it one that serves.

The watcher holds the listening socket, so that nobody is turned away between two servers, and a pipe that the server
is leashed by: when the watcher is gone, however it ended, so is the server. Answers that were being given are in the
log, and the next server goes on with them.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from ..errors import BrokenApp, UsageError
from .loading import load_app

__all__ = ["Watch", "can_reload", "check_app", "inherited_listener", "is_leashed", "keep_serving", "load_leashed"]
__all__ += ["is_started_again", "own_pid"]

LISTENER, LEASH, AGAIN = "_EVERYWORD_LISTENER", "_EVERYWORD_LEASH", "_EVERYWORD_AGAIN"
"""How the watcher tells its server what it has been given."""

LOOK_EVERY = 0.3
"""Seconds between two looks at the files."""

STOPPING = 10.0
"""Seconds that a server has to stop before it is killed."""

LIVED = 1.0
"""Seconds after which a server that is killed was killed by somebody, and not by itself."""

BROKEN = 70
"""What a server exits with whose app cannot be imported: a change may mend that."""

PASSED_OVER = {"__pycache__", "node_modules", "site-packages", "venv", "dist", "build"}


def can_reload() -> bool:
    """Tell whether this platform can hand a socket from process to process."""
    return os.name == "posix"


def is_leashed() -> bool:
    """Tell whether this process is one that a watcher has started."""
    return LEASH in os.environ


def own_pid() -> int:
    """Return the process to kill for everything to be gone."""
    return os.getppid() if is_leashed() else os.getpid()


# -- the one that watches ----------------------------------------------------------------------------------------------


class Watch:
    """The Python files below some folders, as they were last seen."""

    def __init__(self, *folders: Path) -> None:
        self._folders = [folder for folder in dict.fromkeys(folders) if folder.is_dir()]
        self._seen = dict(self._look())

    def changed(self) -> Path | None:
        """Return a file that was written, made or deleted since the last time, if there is one."""
        now = dict(self._look())
        before, self._seen = self._seen, now
        for path in sorted(before.keys() | now.keys()):
            if before.get(path) != now.get(path):
                return path
        return None

    def _look(self) -> Iterator[tuple[Path, tuple[int, int]]]:
        for folder in self._folders:
            for place, folders, files in os.walk(folder):
                folders[:] = [name for name in folders if name not in PASSED_OVER and not name.startswith(".")]
                for name in files:
                    if name.endswith(".py"):
                        path = Path(place, name)
                        with suppress(OSError):  # gone between two looks
                            status = path.stat()
                            yield path, (status.st_mtime_ns, status.st_size)


def check_app(named: str) -> None:
    """Refuse a file that is not there, before anything is started for it."""
    where = named.partition(":")[0]
    if where.endswith(".py") and not Path(where).is_file():
        raise UsageError(f"unable to serve {where!r}; there is no such file")


def keep_serving(named: str, listener: socket.socket, host: str) -> int:
    """Run servers of an app, one after the other, until told to stop; return the exit code."""
    where = Path(named.partition(":")[0])
    watch = Watch(where.resolve().parent if where.suffix == ".py" else Path.cwd(), Path.cwd())
    keeper = _Keeper(named, listener, host)
    with keeper:
        while True:
            code = keeper.wait(watch)
            if code is None:
                keeper.restart()
            elif keeper.is_stopping() or code == 0:
                return 0
            elif code < 0 and keeper.has_lived:
                _say("the server was killed; it is started again, and goes on where it was")
                keeper.restart()
            elif keeper.has_served or code == BROKEN or code < 0:
                _say("waiting for a file to change")
                keeper.wait_for_change(watch)
                if keeper.is_stopping():
                    return 0
                keeper.restart()
            else:
                return code


class _Keeper:
    """Owns the server's process, and passes on to it what it is told by signals."""

    def __init__(self, named: str, listener: socket.socket, host: str) -> None:
        self._is_told_to_stop = False
        self.has_served = False
        self._listener = listener
        self._arguments = [sys.executable, "-m", "everyword", "dev", named, "--host", host]
        self._leash, self._end = os.pipe()
        self._before: dict[int, Any] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0

    def is_stopping(self) -> bool:
        """Tell whether a signal came that says so."""
        return self._is_told_to_stop

    @property
    def has_lived(self) -> bool:
        """Whether the server lasted: one that dies at once would do so for ever."""
        return time.monotonic() - self._started_at > LIVED

    def __enter__(self) -> _Keeper:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._told)
        self.restart()
        return self

    def __exit__(self, *failure: object) -> None:
        self._stop()
        for number, before in self._before.items():
            signal.signal(number, before)
        os.close(self._leash)
        os.close(self._end)

    def wait(self, watch: Watch) -> int | None:
        """Return the server's exit code, or None when a file has changed."""
        assert self._process is not None
        while True:
            with suppress(subprocess.TimeoutExpired):
                return self._process.wait(LOOK_EVERY)
            if not self.is_stopping() and (path := watch.changed()) is not None:
                self.has_served = True
                _say(f"{os.path.relpath(path)} changed; starting anew")
                return None

    def wait_for_change(self, watch: Watch) -> None:
        while not self.is_stopping() and (path := watch.changed()) is None:
            time.sleep(LOOK_EVERY)
        if not self.is_stopping():
            assert path is not None
            _say(f"{os.path.relpath(path)} changed; trying again")

    def restart(self) -> None:
        is_first = self._process is None
        self._stop()
        self._started_at = time.monotonic()
        given = {LISTENER: str(self._listener.fileno()), LEASH: str(self._leash), AGAIN: "" if is_first else "1"}
        self._process = subprocess.Popen(
            self._arguments,
            env={**os.environ, **given},
            pass_fds=[self._listener.fileno(), self._leash],
            start_new_session=True,  # a Ctrl+C is for us: we pass it on, once
        )

    def _stop(self) -> None:
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOPPING)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _told(self, number: int, frame: FrameType | None) -> None:
        self._is_told_to_stop = True
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)


def _say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


# -- the one that serves -----------------------------------------------------------------------------------------------


def inherited_listener() -> socket.socket | None:
    """Return the socket that the watcher listens on, if there is one; from then on this process dies with it."""
    if not is_leashed():
        return None
    leash = int(os.environ[LEASH])
    threading.Thread(target=_die_with, args=(leash,), name="leash", daemon=True).start()
    return socket.socket(fileno=int(os.environ[LISTENER]))


def _die_with(leash: int) -> None:
    os.read(leash, 1)  # returns when the watcher's end is closed: nobody ever writes
    os.kill(os.getpid(), signal.SIGKILL)


def load_leashed(named: str) -> Any:
    """Import an app; below a watcher, one that cannot be is no reason to give up."""
    try:
        return load_app(named)
    except BrokenApp as exc:
        if not is_leashed():
            raise
        print(exc, file=sys.stderr, end="")
        sys.exit(BROKEN)


def is_started_again() -> bool:
    """Tell whether there was a server before this one."""
    return bool(os.environ.get(AGAIN))
