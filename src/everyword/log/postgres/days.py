"""The partition that the chunks of a turn lie in: that of the day on which the turn was accepted, or 0."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ...events import TurnKind
from ...rows import TurnRow

__all__ = ["DAY", "Days"]

DAY: Final = 24 * 60 * 60 * 1000


class Days:
    """The days that have a partition, as far as this node knows."""

    def __init__(self) -> None:
        self.known: frozenset[int] = frozenset()

    def learn(self, days: Iterable[int]) -> None:
        self.known = frozenset(days)

    def part_of(self, row: TurnRow) -> int:
        """Return the partition for the chunks of the turn. Streams of kind `rsm` stay until they are erased."""
        day = row.accepted_at // DAY
        return day if day in self.known and row.kind is not TurnKind.RSM else 0
