"""The files of an open database: still the ones that were opened, or deleted, moved away, or replaced.

SQLite holds files open and does not look at their names again. What it writes after such a change goes to a file that
nobody will ever open: it is not durable, although every commit succeeds.
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
"""What SQLite puts beside the file, and removes again with the last connection."""

RESTORE: Final = "Restore it, from where it was moved or from a backup, and restart the server"
RESTART: Final = "Restart the server"

_Identity = tuple[int, int]


class DatabaseFiles:
    """Remembers which files were opened, and notices that they are no longer there. Any thread may ask.

    What was lost once stays lost until the process is restarted, whatever is put in its place: connections are open on
    the old file.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.lost: str | None = None
        """What happened and what to do, once something has happened."""
        self.on_lost: Callable[[], None] = lambda: None
        """Called then, once, by the thread that found it out."""
        self._database: _Identity | None = None
        self._beside: dict[str, _Identity] = {}

    def note(self) -> None:
        """Remember the files as they are now; a connection has just opened them."""
        if self._database is None:
            self._database = _identify(self.path)
        found = [(path, _identify(path)) for path in (f"{self.path}{end}" for end in BESIDE)]
        self._beside = {path: identity for path, identity in found if identity is not None}

    def forget_beside(self) -> None:
        """Expect that SQLite removes what is beside the file: the connection is about to be closed."""
        self._beside = {}

    def check(self) -> None:
        """Raise `LogUnavailable` when one of the files is gone or another; the first time, log it as an error."""
        if self.lost is None:
            for path, identity in {self.path: self._database, **self._beside}.items():
                if identity is None:
                    continue
                what = _change(path, identity)
                if what is not None and self.lost is None:  # the first that is found says it
                    # Only the file itself has to be restored: the last thing that is done is to carry the rest into it.
                    self.lost = f"{path!r} {what} while it was in use. {RESTORE if path == self.path else RESTART}"
                    log.error("unable to write any more; %s", self.lost)
                    self.on_lost()
        if self.lost is not None:
            raise LogUnavailable(f"unable to use {self.path!r}; {self.lost}")


def _identify(path: str) -> _Identity | None:
    """Return what stays the same as long as a file exists; None when it cannot be told."""
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
        return None  # a disk that fails is no change: the next commit finds out
    return "was replaced by another file" if (found.st_dev, found.st_ino) != known else None
