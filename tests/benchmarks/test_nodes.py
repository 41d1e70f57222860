"""The benchmark of nodes runs: every part, in sizes that say nothing about speed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import uvloop

from benchmarks.nodes.__main__ import PARTS, SIZES, measure, table
from benchmarks.nodes.costs import RELAY
from benchmarks.nodes.database import Database, started
from benchmarks.nodes.measures import World


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    with started() as found:
        yield found


@pytest.mark.parametrize("name", PARTS)
def test_every_part_runs_and_has_all_its_figures(name: str, database: Database, tmp_path: Path) -> None:
    part, sizes = PARTS[name], SIZES["tiny"]
    columns = uvloop.run(measure(part, World(database, tmp_path, name), sizes, rounds=1))
    assert list(columns) == list(part.columns(sizes))
    wanted = {figure.name for figure in part.figures}
    assert wanted <= set[str]().union(*(figures.keys() for figures in columns.values()))
    assert all(figures.get("lost", 0) == 0 for figures in columns.values())


def test_the_table_has_a_column_of_ratios_and_the_goals() -> None:
    columns = {"1": {"cpu": 50.0, "database": 20.0, "p50": 1.0}, "2": {"cpu": 60.0, "database": 30.0, "p50": 2.0}}
    given = {name: {figure.name: 1.0 for figure in PARTS["two"].figures} | columns[name] for name in columns}
    lines = table(PARTS["two"], SIZES["tiny"], given).splitlines()
    assert lines[0] == "| The same load on one node and on two | one node | two nodes | ratio |"
    assert lines[2].endswith("| 50.0 | 60.0 | 1.20 |")


def test_a_goal_that_is_missed_is_noticed() -> None:
    share = next(figure for figure in RELAY.figures if figure.name == "share")
    assert share.is_met is not None
    assert share.is_met({"20": {"share": 0.3}}) and not share.is_met({"20": {"share": 0.3}, "100": {"share": 0.41}})
