"""One PostgreSQL: its data directory and its process. Only the standard library is used, to start fast."""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.free_ports import free_port
from tests.postgres.installation import copied, is_executable, unprivileged

__all__ = ["FAST", "USER", "Cluster", "ClusterFailed"]

USER: Final = "everyword"
"""The superuser and the database that it connects to."""

FAST: Final[Mapping[str, str]] = {"fsync": "off", "full_page_writes": "off"}
"""Settings of most tests: they survive the end of every process, but not the end of the machine."""

COMMON: Final[Mapping[str, str]] = {"max_connections": "200", "shared_buffers": "64MB", "listen_addresses": "127.0.0.1"}

SIGNALS: Final = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}

INITDB: Final = (
    *("--username", USER, "--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions"),
    # Only this user can enter the folder of the Unix socket; every user of the machine can reach the port.
    *("--auth-local", "trust", "--auth-host", "scram-sha-256"),
)

PREFIX: Final = "everyword-postgres-"

TEMPLATES: Final = Path(__file__).parents[2] / "build"

PATIENCE: Final = 60.0


class ClusterFailed(Exception):
    """PostgreSQL did not start or stop; the message has what it said."""


class Cluster:
    """A PostgreSQL with a private folder, which is removed at the end."""

    def __init__(self, programs: Path, settings: Mapping[str, str]) -> None:
        remove_abandoned()
        self._settings = {**COMMON, **settings}
        self._folder, self._lock = _private_folder()
        self._process: subprocess.Popen[bytes] | None = None
        self._data = self._folder / "data"
        self.control = self._folder / "control"
        try:
            self._programs = programs if is_executable(programs) else copied(programs, self._folder / "programs")
            self._make_data()
            self.password = (self._folder / "password").read_text()
            self._start_at_free_port()
        except BaseException:
            self.remove()
            raise

    @property
    def facts(self) -> dict[str, str]:
        """What clients need to know."""
        return {
            "url": f"postgresql://{USER}@/{USER}?host={self._data}&port={self.port}",
            "tcp_url": f"postgresql://{USER}:{self.password}@127.0.0.1:{self.port}/{USER}",
            "port": str(self.port),
            "control": str(self.control),
            "keeper": str(os.getpid()),
        }

    def start(self) -> None:
        """Start it at the port that it had, and wait until it accepts connections."""
        if self._process is not None and self._process.poll() is None:
            raise ClusterFailed("unable to start PostgreSQL; it is running")
        settings = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        command = [self._programs / "postgres", "-D", self._data, "-k", self._data, "-p", str(self.port), *settings]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - the keeper has no threads
                **unprivileged(),
            )
        self._until_ready(self._process)

    def stop(self, mode: str = "fast") -> None:
        """Stop it: `smart` waits for clients, `fast` disconnects them, `immediate` is a crash of PostgreSQL."""
        if self._process is None:
            return
        self._process.send_signal(SIGNALS[mode])
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise ClusterFailed(f"PostgreSQL did not stop in {PATIENCE:.0f} s ({mode}); it was killed") from None

    def remove(self) -> None:
        """Stop it and delete everything."""
        try:
            self.stop("immediate")
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)
            os.close(self._lock)

    def _start_at_free_port(self) -> None:
        for last in (False, False, True):
            self.port = free_port()
            try:
                return self.start()
            except ClusterFailed as error:
                if last or "could not bind" not in str(error):
                    raise
        raise AssertionError("unreachable")

    def _until_ready(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until the last line of postmaster.pid says that it is ready, as pg_ctl does."""
        for _ in range(int(PATIENCE / 0.01)):
            try:
                process.wait(0.01)
            except subprocess.TimeoutExpired:
                if self._status() == [str(process.pid), "ready"]:
                    return
            else:
                raise ClusterFailed(f"PostgreSQL did not start; it said:\n{self._last_words()}")
        raise ClusterFailed(f"PostgreSQL did not start in {PATIENCE:.0f} s; it said:\n{self._last_words()}")

    def _status(self) -> list[str]:
        try:
            lines = (self._data / "postmaster.pid").read_text().split("\n")
        except FileNotFoundError:
            return []
        return [lines[0], lines[7].strip()] if len(lines) > 7 else []

    def _last_words(self) -> str:
        return (self._folder / "log").read_text(errors="replace")[-2000:]

    def _make_data(self) -> None:
        """Make the data directory. initdb takes over a second, so its result is kept and copied."""
        version = subprocess.run([self._programs / "postgres", "--version"], check=True, capture_output=True).stdout
        key = hashlib.sha256(repr((version, INITDB)).encode()).hexdigest()[:12]
        template = TEMPLATES / f"{PREFIX}{key}"
        if os.access(template, os.R_OK | os.X_OK):
            _copy(template, self._folder)
            return _give_away(self._data)
        self._data.mkdir(mode=0o700)
        _give_away(self._data)
        self._run_initdb()
        return _keep(self._folder, ("data", "password"), template)

    def _run_initdb(self) -> None:
        password = self._folder / "password"
        password.write_text(secrets.token_hex(16))
        password.chmod(0o600)
        _give_away(password)
        words = [self._programs / "initdb", "-D", self._data, "--pwfile", password, *INITDB]
        ran = subprocess.run(words, check=False, capture_output=True, text=True, cwd="/", **unprivileged())
        if ran.returncode:
            raise ClusterFailed(f"initdb failed; it said:\n{ran.stdout}{ran.stderr}")
        create = [self._programs / "postgres", "--single", "-F", "-D", self._data, "template1"]
        statement = f"CREATE DATABASE {USER}\n".encode()
        subprocess.run(create, input=statement, check=True, capture_output=True, cwd="/", **unprivileged())


def remove_abandoned() -> None:
    """Remove the folders of processes that were killed before they could do it."""
    for parent in _parents():
        for folder in parent.glob(f"{PREFIX}*"):
            try:
                lock = _locked(folder)
            except OSError:  # in use, another user's, or just made
                continue
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _parents() -> Iterator[Path]:
    """Yield the folders for temporary files that PostgreSQL's user can enter; a Unix socket's path must be short."""
    for parent in dict.fromkeys([Path(tempfile.gettempdir()).resolve(), Path("/tmp"), Path("/var/tmp")]):
        is_open = all(each.stat().st_mode & 0o001 for each in [parent, *parent.parents])
        if len(str(parent)) < 60 and (is_open or not unprivileged()):
            yield parent


def _private_folder() -> tuple[Path, int]:
    """Return a new folder and its lock. Before it is locked, another process may remove it as abandoned: try again."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=next(_parents())))
        try:
            lock = _locked(folder)
        except OSError:
            continue
        if folder.exists():
            break
        os.close(lock)
    if unprivileged():
        folder.chmod(0o711)
    return folder, lock


def _locked(folder: Path) -> int:
    """Lock a folder until the descriptor is closed, or raise OSError: the lock says that the folder is in use."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-R", f"{source}/.", target], check=True)


def _keep(folder: Path, names: tuple[str, ...], template: Path) -> None:
    """Keep a copy as the template; a copy that another process kept first stays."""
    copy = template.with_name(f"{template.name}.{os.getpid()}")
    try:
        copy.mkdir(mode=0o700, parents=True)
        subprocess.run(["cp", "-R", *(folder / name for name in names), copy], check=True)
        copy.rename(template)
    except OSError:  # kept by another, or this folder cannot be written to
        shutil.rmtree(copy, ignore_errors=True)


def _give_away(path: Path) -> None:
    if owner := unprivileged():
        subprocess.run(["chown", "-R", f"{owner['user']}:{owner['group']}", path], check=True)


def _die_with_parent() -> None:
    """Have the kernel crash PostgreSQL when the process that keeps it is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGQUIT)  # PR_SET_PDEATHSIG
