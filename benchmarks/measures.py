"""What a row says, and how its figures compare: names, units, which way is better, what we promised."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from benchmarks.processes import Server

__all__ = ["Figures", "Metric", "Row", "Sizes", "combine", "percentile"]

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Metric:
    """One figure of a row.

    `times_peer` is by how much everyword promised to be better than the peer; `at_least` and `at_most` are promises of
    their own.
    """

    name: str
    unit: str
    better: Literal["more", "less"]
    times_peer: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    digits: int = 1
    counts_floor: bool = True
    """Whether the floor with storage does the same work, so that being within 3 times of it says something."""

    needs_rate: bool = False
    """Whether it can only be compared with a server that keeps up: one that does not has made fewer chunks."""

    def advantage(self, ours: float, theirs: float) -> float | None:
        """Return how many times better `ours` is than `theirs`; above 1 is better, whichever way that is."""
        if not ours or not theirs or ours < 0 or theirs < 0:
            return None
        return ours / theirs if self.better == "more" else theirs / ours


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything: `full` for figures, `small` to try things, `tiny` to see that it runs at all."""

    flat: int
    yielding: int
    seconds: float
    fanout: int
    watchers: int
    replay: int
    tiny: int
    conversations: int
    histories: int
    turns: int
    repeats: int
    kills: int
    chats: tuple[int, int] = (100, 400)
    rest: float = 25.0
    """Seconds that conversations are left alone: the peer lets go of them after ten, and looks every ten."""
    ramp: float = 1.0
    """Seconds in which paced streams begin one after the other, and again as many before latencies count."""
    rounds: int = 1
    """How often a row that wavers is run, in turns with the other servers: the median counts."""


@dataclass(frozen=True)
class Row:
    """A load and what is measured under it. `run` gets a server that was just started, and warm."""

    name: str
    title: str
    metrics: tuple[Metric, ...]
    run: Callable[[Server, Sizes], Coroutine[Any, Any, Figures]]
    repeats: bool = False
    """Whether it is short enough to be done again at once: the median counts."""
    wavers: bool = False
    """Whether what else the machine does shows in it, so that one run says little."""


def combine(runs: list[Figures]) -> Figures:
    """Return the median of each figure."""
    return {name: median(run[name] for run in runs) for name in runs[0]}


def percentile(values: list[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]
