"""A flame graph is read back as shares of functions."""

from __future__ import annotations

from benchmarks.flames import read_frames, shares


def box(name: str, depth: int, start: int, width: int) -> str:
    rect = (
        f'<rect x="0%" y="{36 + 16 * depth}" width="1%" height="15" fill="rgb(0,0,0)" fg:x="{start}" fg:w="{width}"/>'
    )
    return f"<g><title>{name} ({width} samples, 1.00%)</title>{rect}<text></text></g>"


def test_what_a_function_calls_is_not_its_own_time() -> None:
    picture = box("all", 0, 0, 10) + box("outer (a.py:1)", 1, 0, 10) + box("inner (b.py:7)", 2, 2, 6)
    own, whole, total = shares(read_frames(picture))
    assert (own["outer (a.py)"], own["inner (b.py)"], total) == (4, 6, 10)
    assert (whole["outer (a.py)"], whole["inner (b.py)"]) == (10, 6)


def test_lines_of_one_function_are_one_function() -> None:
    picture = box("all", 0, 0, 5) + box("f (a.py:1)", 1, 0, 2) + box("f (a.py:2)", 1, 2, 3)
    own, _, _ = shares(read_frames(picture))
    assert own["f (a.py)"] == 5


def test_a_function_that_calls_itself_counts_once() -> None:
    picture = box("f (a.py:1)", 0, 0, 4) + box("f (a.py:1)", 1, 0, 3)
    own, whole, total = shares(read_frames(picture))
    assert (own["f (a.py)"], whole["f (a.py)"], total) == (4, 4, 4)


def test_loading_modules_is_left_out() -> None:
    loading = "_load (&lt;frozen importlib._bootstrap&gt;:1)"
    picture = box("all", 0, 0, 9) + box(loading, 1, 0, 5) + box("x (a.py:1)", 2, 0, 5) + box("y (a.py:9)", 1, 5, 4)
    own, _, total = shares(read_frames(picture))
    assert (own["y (a.py)"], own["x (a.py)"], total) == (4, 0, 4)
