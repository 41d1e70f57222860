"""The report of call paths finds each walk, from its begin to its end."""

from __future__ import annotations

import re

import pytest

from tools.call_paths.__main__ import counts_of, most_frequent, table
from tools.call_paths.recorder import Function, Step, Trace
from tools.call_paths.walks import BYTES_WRITTEN, CHUNK_YIELDED, FRAME_RECEIVED, HANDLER_RUNS, TOOL_RUNS, WALKS, measure


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trace]:
    traces = measure("everyword", tmp_path_factory.mktemp("walks"), rounds=1)
    return {name: trace for name, (trace,) in traces.items()}


def packages(trace: Trace) -> set[str]:
    return {function.module.split(".")[0] for function in trace.called}


def test_every_walk_is_found(found: dict[str, Trace]) -> None:
    assert set(found) == {walk.name for walk in WALKS}


def test_a_chunk_is_decided_and_stored_before_it_is_written(found: dict[str, Trace]) -> None:
    chunk = found["chunk"]
    modules = [function.module for function in chunk.called]
    assert (chunk.begin, chunk.end) == (CHUNK_YIELDED, BYTES_WRITTEN)
    assert modules.index("core.decide") < modules.index("log.sqlite.store") < modules.index("wire.chat_view")
    assert modules[-1] == "server.buffering_transport"


def test_a_request_goes_from_the_socket_to_the_handler(found: dict[str, Trace]) -> None:
    request = found["request"]
    assert (request.begin, request.end) == (FRAME_RECEIVED, HANDLER_RUNS)
    assert request.called[0].name.endswith(".data_received")
    assert request.called[-1].module.split(".")[0] in ("agents", "messages", "runtime")
    assert {"server", "wire", "core", "log", "runtime", "agents"} <= packages(request)


def test_a_resume_stores_nothing(found: dict[str, Trace]) -> None:
    resume = found["resume"]
    assert (resume.begin, resume.end) == (FRAME_RECEIVED, BYTES_WRITTEN)
    assert resume.called[0].name.endswith(".data_received")
    assert resume.called[-1].module == "server.buffering_transport"
    assert "log" not in packages(resume)


def test_an_approval_reaches_the_code_of_the_tool(found: dict[str, Trace]) -> None:
    approval = found["approval"]
    assert (approval.begin, approval.end) == (FRAME_RECEIVED, TOOL_RUNS)
    assert approval.called[0].name.endswith(".data_received")
    assert approval.called[-1].module.startswith("agents.")
    assert {"server", "wire", "core", "log", "runtime", "agents"} <= packages(approval)


def test_the_table_has_a_row_per_walk(found: dict[str, Trace]) -> None:
    counts = {name: counts_of(trace) for name, trace in found.items()}
    lines = list(table(counts, before=counts))
    assert len(lines) == 2 + len(WALKS)
    assert all(re.fullmatch(r"\| [^|]+ (\| [\d,]+ → [\d,]+ ){4}\|", line) for line in lines[2:])


def test_a_tree_begins_and_ends_with_the_named_points(found: dict[str, Trace]) -> None:
    first, *calls, last = found["chunk"].tree()
    assert first == f"begin: {CHUNK_YIELDED}" and last == f"end: {BYTES_WRITTEN}"
    assert sum(not line.endswith("…") for line in calls) == found["chunk"].calls


def test_coroutines_that_go_on_are_shown_and_not_counted() -> None:
    reader, writer = (1, Function("server", "read")), (2, Function("log", "write"))
    went_on, called = Step((reader,), False, "loop"), Step((reader, writer), True, "loop")
    trace = Trace("here", "there", (went_on, called, called))
    assert counts_of(trace) == (2, 1, 1, 0)
    assert list(trace.tree()) == ["begin: here", "  server: read …", "    log: write", "    log: write", "end: there"]


def test_the_most_frequent_counts_are_reported() -> None:
    step = Step(((1, Function("log", "write")),), True, "loop")
    short, long = Trace("", "", (step,)), Trace("", "", (step, step))
    assert most_frequent([short, long, long]) == long
    assert most_frequent([long, short]) == short
