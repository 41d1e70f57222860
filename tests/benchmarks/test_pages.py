"""Tables go between their marks in the docs, and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import HERE
from benchmarks.pages import part_of, put_part
from benchmarks.rows import ROWS
from benchmarks.table import render

PAGE = "before\n<!-- table: written by a program -->\nold\n<!-- end of table -->\nafter\n"


def test_only_what_is_between_the_marks_changes(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE, encoding="utf-8")
    put_part("table", "| new \\* |", page)
    assert page.read_text(encoding="utf-8") == PAGE.replace("old", "| new \\* |")
    assert part_of("table", page) == "| new \\* |"


def test_a_page_without_the_marks_is_not_written(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing\n", encoding="utf-8")
    with pytest.raises(RuntimeError, match="0 places"):
        put_part("table", "x", page)
    assert page.read_text(encoding="utf-8") == "nothing\n"


def test_the_table_of_the_docs_is_that_of_the_results() -> None:
    report = json.loads((HERE / "results.json").read_text(encoding="utf-8"))
    rows = [row for row in ROWS.values() if row.name in report["results"]]
    assert part_of("table").startswith(render(rows, report["servers"], report["results"], report["elsewhere"]))
