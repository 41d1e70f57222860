"""The SQLite store agrees with the reference store, after any history of appends, reopenings and crashes."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis.stateful import precondition, rule

from everyword.log.sqlite import leases, pending_events, retention, row_codec
from everyword.log.sqlite.store import SqliteLog
from tests.log.agreement import Agreement

# Limits so small that every history exceeds them.
SMALL = {
    (pending_events, "ROWS_PER_MARK"): 4,
    (pending_events, "EVENTS_PER_MARK"): 9,
    (leases, "SAVE_HEADS_EVERY"): 7,
    (leases, "LEASES_KEPT"): 1,
    (retention, "SLICE"): 5,
    (row_codec, "LARGE_BODY"): 20,
}
LARGE = {(module, name): getattr(module, name) for module, name in SMALL}


class SqliteAgreement(Agreement):
    """A crash is a copy of the files."""

    def __init__(self) -> None:
        super().__init__()
        for (module, name), value in SMALL.items():
            setattr(module, name, value)
        self.folders = [Path(tempfile.mkdtemp())]

    def make(self) -> SqliteLog:
        return SqliteLog(self.folders[-1] / "log.db")

    def teardown(self) -> None:
        super().teardown()
        for folder in self.folders:
            shutil.rmtree(folder)
        for (module, name), value in LARGE.items():
            setattr(module, name, value)

    @precondition(lambda self: len(self.folders) < 4)
    @rule()
    def crash(self) -> None:
        """Continue with a copy of the files as they are now, as after a killed process."""
        self.folders.append(Path(tempfile.mkdtemp()))
        for name in ("log.db", "log.db-wal"):
            shutil.copy(self.folders[-2] / name, self.folders[-1] / name)
        self.reopen()


TestAgreement = SqliteAgreement.TestCase
TestAgreement.settings = settings(max_examples=20, stateful_step_count=30, deadline=None)
