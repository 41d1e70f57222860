"""Notice that the files of an open database were deleted, moved away or replaced.

SQLite keeps files open and does not look at their names again. After such a change it writes to a file that no process
will open again: every commit succeeds, and nothing is durable.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Final

from ...errors import LogUnavailable

__all__ = ["DatabaseFiles"]

log = logging.getLogger(__name__)

BESIDE: Final = ("-wal", "-shm")
"""The files that SQLite puts beside the database, and removes with the last connection."""

RESTORE: Final = "Restore it, from where it was moved or from a backup, and restart the server"
RESTART: Final = "Restart the server"

_Identity = tuple[int, int]


class DatabaseFiles:
    """Remembers which files were opened, and checks that they are still in place. Any thread may call.

    A file that was lost once stays lost until the process is restarted, even if it is put back: connections are still
    open on the old file.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.lost: str | None = None
        """What happened and what to do; None while the files are in place."""
        self.on_lost: Callable[[], None] = lambda: None
        """Called once when a file is lost, by the thread that noticed it."""
        self._database: _Identity | None = None
        self._beside: dict[str, _Identity] = {}

    def note(self) -> None:
        """Remember the files as they are now. Called right after a connection has opened them."""
        if self._database is None:
            self._database = _identify(self.path)
        found = [(path, _identify(path)) for path in (f"{self.path}{end}" for end in BESIDE)]
        self._beside = {path: identity for path, identity in found if identity is not None}

    def forget_beside(self) -> None:
        """Forget the files beside the database. Called before the connection is closed: SQLite removes them then."""
        self._beside = {}

    def check(self) -> None:
        """Raise `LogUnavailable` if one of the files is gone or was replaced; log an error the first time."""
        if self.lost is None:
            for path, identity in {self.path: self._database, **self._beside}.items():
                if identity is None:
                    continue
                what = _change(path, identity)
                if what is not None and self.lost is None:  # report the first one only
                    # Only the database must be restored: the last checkpoint copies the write-ahead log into it.
                    self.lost = f"{path!r} {what} while it was in use. {RESTORE if path == self.path else RESTART}"
                    log.error("unable to write any more; %s", self.lost)
                    self.on_lost()
        if self.lost is not None:
            raise LogUnavailable(f"unable to use {self.path!r}; {self.lost}")


def _identify(path: str) -> _Identity | None:
    """Return the device and inode of the file; None if it cannot be read."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _change(path: str, known: _Identity) -> str | None:
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return "was deleted or moved away"
    except OSError:
        return None  # the disk fails, which is no change of files: the next commit reports it
    return "was replaced by another file" if (found.st_dev, found.st_ino) != known else None
