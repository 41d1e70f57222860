"""The index of words in a file: a short beginning of a word costs no more than a word."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from everyword.ids import AgentId
from everyword.log.sqlite.searches import NODES
from everyword.log.sqlite.statements import SQL
from everyword.log.sqlite.store import SqliteLog
from everyword.rows import TEXT, KeptRow, encode_text
from tests.log.building import Owner, fact

TEXTS, WORDS = 4_000, 40


async def test_a_letter_is_looked_up_as_quickly_as_a_word(tmp_path: Path) -> None:
    path = tmp_path / "texts.db"
    store = SqliteLog(path)
    await store.open()
    owner = await Owner.take(store, AgentId("chat/ann"))
    said = [sorted(f"a{(node * 7 + place * 631) % 25_000:05}" for place in range(WORDS)) for node in range(TEXTS)]
    rows = [KeptRow(TEXT, str(node + 1), encode_text(words, "text")) for node, words in enumerate(said)]
    await owner.append(fact("x"), rows=rows)
    await store.aclose()
    connection = sqlite3.connect(path)
    word = seconds(connection, f'"{said[TEXTS // 2][0]}"')
    for beginning in ('"a"*', '"a0"*', '"a00"*'):
        assert seconds(connection, beginning) < 100 * word
    connection.close()


def seconds(connection: sqlite3.Connection, term: str) -> float:
    """Return the processor time of the quickest of three lookups in one agent, which a busy machine does not change."""
    taken: list[float] = []
    for _ in range(3):
        began = time.thread_time()
        found = connection.execute(SQL["find_text"], (term, NODES, 2 * NODES)).fetchall()
        taken.append(time.thread_time() - began)
        assert found == [("text",)]
    return min(taken)
