"""Many rows are inserted by few statements, in blocks, and one row by the statement itself."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

import pytest

from everyword.log.sqlite.bulk_insert import FEW, MANY, insert_rows

INSERT = "INSERT INTO pair (one, two) VALUES (?1, ?2)"


class Counting(sqlite3.Connection):
    """Counts the inserted rows of each statement."""

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        cursor = super().execute(sql, *values)
        if sql.startswith("INSERT"):
            blocks.append(cursor.rowcount)
        return cursor


blocks: list[int] = []


@pytest.mark.parametrize(
    ("count", "sizes", "expected"),
    [
        (0, MANY, []),
        (1, MANY, [1]),
        (63, MANY, [63]),
        (64 + 3, MANY, [64, 3]),
        (512 + 256 + 1, MANY, [512, 256, 1]),
        (1, FEW, [1]),
        (7, FEW, [4, 2, 1]),
        (130, FEW, [64, 64, 2]),
    ],
)
def test_rows_are_inserted_in_blocks_and_in_order(count: int, sizes: Sequence[int], expected: list[int]) -> None:
    connection = sqlite3.connect(":memory:", factory=Counting)
    connection.execute("CREATE TABLE pair (one, two)")
    blocks.clear()
    insert_rows(connection, INSERT, [value for n in range(count) for value in (n, -n)], sizes)
    assert blocks == expected
    assert connection.execute("SELECT one, two FROM pair ORDER BY rowid").fetchall() == [(n, -n) for n in range(count)]
    connection.close()
