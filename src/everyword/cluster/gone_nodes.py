"""Incarnations that are gone."""

from __future__ import annotations

from typing import Final

from ..ids import Incarnation

__all__ = ["GoneNodes"]

REMEMBERED: Final = 1024
"""An incarnation never comes back, so nothing asks for one that went long ago."""


class GoneNodes:
    """The incarnations that went last."""

    def __init__(self) -> None:
        self._gone: dict[Incarnation, None] = {}

    def __contains__(self, incarnation: Incarnation) -> bool:
        return incarnation in self._gone

    def add(self, incarnation: Incarnation) -> None:
        """Remember one; forget the oldest if there are too many."""
        self._gone[incarnation] = None
        if len(self._gone) > REMEMBERED:
            del self._gone[next(iter(self._gone))]
