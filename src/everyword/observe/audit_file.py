"""The file of an audit trail: lines of JSON, appended. The system rotates it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Final

import msgspec

from .audit_records import AuditRecord

__all__ = ["AuditFile", "encode_record"]

MODE: Final = 0o600
"""The mode of a new file: only its owner can read it."""


def encode_record(record: AuditRecord) -> bytes:
    """Return a record as a line of JSON with its end. The time is text, in UTC; what is not known is left out."""
    known = {name: getattr(record, name) for name in record.__struct_fields__}
    known = {name: value for name, value in known.items() if value is not None and value != {}}
    known["time"] = datetime.fromtimestamp(record.time / 1000, UTC).isoformat(timespec="milliseconds")
    return msgspec.json.encode(known) + b"\n"


class AuditFile:
    """Appends records to a file. A file that was moved away, as by logrotate, is created again."""

    def __init__(self, path: str | PathLike[str], *, fsync: bool = False) -> None:
        self._path, self._fsync = Path(path), fsync
        self._open: int | None = None
        self._is_torn = False
        """True after a write that failed: the file may end in the middle of a line."""

    def append(self, records: Sequence[AuditRecord]) -> None:
        """Append the records; runs in a thread.

        Raises:
            OSError: they are not in the file, or only a part of them.
        """
        file, rest = self._file(), b"".join(map(encode_record, records))
        if self._is_torn:
            rest = b"\n" + rest
        self._is_torn = True
        while rest:
            rest = rest[os.write(file, rest) :]
        self._is_torn = False
        if self._fsync:
            os.fsync(file)

    def close(self) -> None:
        """Close the file; the next record opens it again."""
        if self._open is not None:
            os.close(self._open)
            self._open = None

    def _file(self) -> int:
        if self._open is not None and not self._is_current(self._open):
            self.close()
        if self._open is None:
            self._open = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, MODE)
            size = os.fstat(self._open).st_size  # a process that was killed may have left the half of a line
            self._is_torn = size > 0 and os.pread(self._open, 1, size - 1) != b"\n"
            if self._fsync and size == 0:
                self._fsync_folder()  # or a loss of power takes a new file away, with all that is in it
        return self._open

    def _fsync_folder(self) -> None:
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _is_current(self, file: int) -> bool:
        try:
            return os.path.samestat(os.fstat(file), self._path.stat())
        except OSError:
            return False
