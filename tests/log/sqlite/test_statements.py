"""Named statements: each one is used, and none scans a whole table."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

import everyword.log.sqlite
from everyword.log.sql_files import parse_statements
from everyword.log.sqlite.migrations import load_migrations, migrate
from everyword.log.sqlite.statements import SQL

LARGE = ("event", "turn", "message", "mark", "wake")


def test_statements_are_split_at_their_names() -> None:
    text = "-- preface\n\n-- name: one\nSELECT 1;\n\n-- name: two\n-- why\nSELECT 2\n  AS b;\n"
    assert parse_statements(text) == {"one": "SELECT 1", "two": "-- why\nSELECT 2\n  AS b"}


def test_a_name_is_given_once() -> None:
    with pytest.raises(AssertionError, match="'one'"):
        parse_statements("-- name: one\nSELECT 1;\n-- name: one\nSELECT 2;\n")


def test_every_statement_is_used_and_every_use_is_a_statement() -> None:
    folder = Path(everyword.log.sqlite.__file__).parent
    source = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py") if path.name != "statements.py")
    source += (folder.parent / "lists.py").read_text(encoding="utf-8")
    quoted = set(re.findall(r'"([a-z_]+)"', source))
    assert [name for name in SQL if name not in quoted] == []
    assert [name for name in re.findall(r'SQL\["(\w+)"\]', source) if name not in SQL] == []
    assert [name for name in re.findall(r'_(?:one|all)\("(\w+)"', source) if name not in SQL] == []


@pytest.mark.parametrize("name", sorted(set(SQL) - {"create_doomed"}))
def test_no_statement_scans_a_whole_table(name: str) -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection, "x", load_migrations())
    connection.execute(SQL["create_doomed"])
    count = max((int(number) for number in re.findall(r"\?(\d+)", SQL[name])), default=0)
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {SQL[name]}", [1] * count)]
    connection.close()
    assert [step for step in plan if re.fullmatch(rf"SCAN ({'|'.join(LARGE)})( .*)?", step)] == []


def test_the_event_table_has_no_index_besides_its_key() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection, "x", load_migrations())
    assert connection.execute("PRAGMA index_list(event)").fetchall() == []
    connection.close()


@pytest.mark.obligation("001-2.b")
def test_no_statement_updates_an_event_but_that_of_erasures() -> None:
    texts = [text for name, text in SQL.items() if name != "rewrite_event"]
    texts += [each.script for each in load_migrations()]
    assert [
        text for text in texts if re.search(r"\bUPDATE\s+event\b|REPLACE\s+INTO\s+event\b", text, re.IGNORECASE)
    ] == []
