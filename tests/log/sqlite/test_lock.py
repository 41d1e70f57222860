"""One process per file: waiting for the lock, messages to the operator, release."""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path

import pytest

from everyword.errors import LogLocked, LogUnavailable
from everyword.log.sqlite import lock
from everyword.log.sqlite.lock import FileLock

NEVER = threading.Event()


class Told(logging.Handler):
    """Keeps log records, and sets an event for another thread."""

    def __init__(self) -> None:
        super().__init__()
        self.heard, self.texts = threading.Event(), list[str]()

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())
        self.heard.set()


def test_a_second_lock_raises_an_error_with_advice(tmp_path: Path) -> None:
    path = str(tmp_path / "log.db")
    first, second = FileLock(path), FileLock(path)
    first.acquire(0, NEVER)
    with pytest.raises(LogLocked, match="this process itself") as caught:
        second.acquire(0.12, NEVER)
    assert path in str(caught.value)
    for hint in ("within 0.12 s", "stop the other server", "--workers", "store="):
        assert hint in str(caught.value)
    first.release()
    second.acquire(0, NEVER)
    second.release()


def test_the_error_names_the_pid_of_the_other_process(tmp_path: Path) -> None:
    path = str(tmp_path / "log.db")
    first, second = FileLock(path), FileLock(path)
    first.acquire(0, NEVER)
    for written, expected in (("4711\n", "another process (pid 4711)"), ("", "another process (pid unknown)")):
        Path(f"{path}.lock").write_text(written)
        with pytest.raises(LogLocked) as caught:
            second.acquire(0, NEVER)
        assert expected in str(caught.value)
    first.release()


def test_a_lock_is_taken_as_soon_as_it_is_free(tmp_path: Path) -> None:
    path = str(tmp_path / "log.db")
    first, second = FileLock(path), FileLock(path)
    first.acquire(0, NEVER)
    waiting = threading.Thread(target=second.acquire, args=(30, NEVER))
    waiting.start()
    first.release()
    waiting.join(10)
    assert not waiting.is_alive()
    assert Path(f"{path}.lock").read_text() == f"{os.getpid()}\n"
    second.release()


def test_waiting_for_a_lock_logs_the_holder_and_advice_at_once(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "log.db")
    first, second = FileLock(path), FileLock(path)
    first.acquire(0, NEVER)
    Path(f"{path}.lock").write_text("4711\n")
    told = Told()
    logging.getLogger("everyword.log").addHandler(told)
    waiting = threading.Thread(target=second.acquire, args=(30, NEVER))
    waiting.start()
    try:
        assert told.heard.wait(10)  # while it waits: the lock is still held
        assert waiting.is_alive()
    finally:
        logging.getLogger("everyword.log").removeHandler(told)
        first.release()
        waiting.join(10)
        second.release()
    (text,) = told.texts
    for hint in (f"waiting up to 30 s for {path!r}", "another process (pid 4711) holds it", "stop the other server"):
        assert hint in text


def test_nothing_is_logged_for_a_free_lock_or_without_a_timeout(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = str(tmp_path / "log.db")
    first, second = FileLock(path), FileLock(path)
    first.acquire(30, NEVER)
    with pytest.raises(LogLocked):
        second.acquire(0, NEVER)
    first.release()
    assert caplog.records == []


def test_waiting_ends_when_stop_is_set(tmp_path: Path) -> None:
    path = str(tmp_path / "log.db")
    first, stop = FileLock(path), threading.Event()
    first.acquire(0, NEVER)
    stop.set()
    with pytest.raises(LogLocked):
        FileLock(path).acquire(1000, stop)
    first.release()


def test_a_missing_folder_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(LogUnavailable, match="folder must exist and be writable"):
        FileLock(str(tmp_path / "missing" / "log.db")).acquire(0, NEVER)


def test_releasing_twice_does_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "log.db")
    first, second = FileLock(path), FileLock(path)
    first.acquire(0, NEVER)
    first.release()
    second.acquire(0, NEVER)
    first.release()
    with pytest.raises(LogLocked):
        FileLock(path).acquire(0, NEVER)
    second.release()


def test_a_platform_without_locks_is_used_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lock, "fcntl", None)
    with caplog.at_level(logging.WARNING):
        FileLock(str(tmp_path / "log.db")).acquire(0, NEVER)
    assert "one process only" in caplog.text


def test_a_disk_without_locks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(lock.fcntl, "flock", refuse)
    with pytest.raises(LogUnavailable, match="local disk"):
        FileLock(str(tmp_path / "log.db")).acquire(0, NEVER)
