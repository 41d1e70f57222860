"""What a part of the benchmark of nodes is: its columns, its figures, its goals, and the function that measures it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.measures import Figures, Sizes
from benchmarks.nodes.database import Database
from benchmarks.processes import SERVERS, Server

__all__ = ["Columns", "Figure", "NodeSizes", "Part", "World"]

Columns = dict[str, Figures]
"""What was measured, by column."""


@dataclass(frozen=True, slots=True)
class NodeSizes:
    """How much of everything."""

    sizes: Sizes
    """Of the rows that one node has in common with the other table."""
    relayed: tuple[int, ...]
    """Conversations whose clients are behind an edge."""
    turns: tuple[int, ...]
    """Turns that are open when their node is lost."""
    lease: float
    """Seconds."""
    streaming: float
    """Seconds for which those turns stream before."""
    idle: int
    """Agents that wait for a schedule."""
    resting: float
    """Seconds for which idle agents are watched."""
    commits: int
    """Commits of each size, to the store without a server."""
    unloads: bool
    """Whether to wait until idle agents have been given back, which takes a minute and a half."""


@dataclass
class World:
    """What a part needs to start nodes."""

    database: Database
    folder: Path
    name: str = "nodes"
    """Schemas begin with it."""
    _made: int = 0

    def schema(self) -> str:
        """Return the address of a new schema."""
        self._made += 1
        return self.database.url(f"{self.name}_{self._made}")

    def node(self, name: str, store: str, **environment: str) -> Server:
        """Return a node on that store, not started yet."""
        self._made += 1
        folder = self.folder / f"{self._made}-{name}"
        folder.mkdir(parents=True)
        variables = {"EVERYWORD_NODE_NAME": name, **environment}
        return Server(replace(SERVERS["postgres"], name=name, environment=variables), folder, store=store)


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of a table. `goal` says in words what is wanted; `is_met` checks it against all columns."""

    name: str
    unit: str
    digits: int = 1
    goal: str = ""
    is_met: Callable[[Columns], bool] | None = None


@dataclass(frozen=True)
class Part:
    """One table. `run` measures all its columns once; the round decides which column is first."""

    name: str
    title: str
    columns: Callable[[NodeSizes], Mapping[str, str]]
    """Names and titles of the columns."""
    figures: tuple[Figure, ...]
    run: Callable[[World, NodeSizes, int], Coroutine[Any, Any, Columns]]
    ratio: tuple[str, str] | None = None
    """Two columns whose quotient is a column of its own."""
