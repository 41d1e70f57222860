"""Insert many rows with few statements.

`sqlite3` releases the interpreter for each statement, and a thread may wait milliseconds to get it back from a busy
event loop. With many agents in one commit, that would cost more than writing all their rows. `executemany` releases it
for each row: it took twice the time, and more while the event loop was busy.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Final

from .statements import columns_of, many_rows

__all__ = ["FEW", "MANY", "insert_rows"]

MANY: Final = (512, 256, 128, 64)
"""Rows per statement for the event table and its marks; one more statement inserts the rest, below 64."""

FEW: Final = (64, 32, 16, 8, 4, 2, 1)
"""Rows per statement for tables that get few rows at once: seven statements to prepare for each, and no others."""


def insert_rows(connection: sqlite3.Connection, statement: str, values: list[Any], blocks: Sequence[int]) -> None:
    """Run a statement that inserts one row for many rows, whose values follow each other in one list."""
    columns, start = columns_of(statement), 0
    left = len(values) // columns
    if left == 1:
        connection.execute(statement, values)
        return
    while left:
        count = next((block for block in blocks if block <= left), left)
        end = start + count * columns
        connection.execute(many_rows(statement, count), values[start:end])
        start, left = end, left - count
