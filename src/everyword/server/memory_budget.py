"""One bound over what all clients together have begun to send and not finished."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["MemoryBudget"]

H = TypeVar("H", bound=Hashable)


class MemoryBudget(Generic[H]):
    """Bytes that are held for clients, by holder. Beyond the limit, the largest holder has to go."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0
        """Bytes that are held now."""
        self._held: dict[H, int] = {}

    def hold(self, holder: H, size: int) -> H | None:
        """Note how much a holder has now; return the holder that has to go, if that is too much for all of them.

        What it has is not counted any longer. Of several that are as large, it is the newest.
        """
        self.release(holder)
        if size:
            self._held[holder] = size
            self.total += size
        if self.total <= self.limit:
            return None
        largest = max(reversed(self._held), key=self._held.__getitem__)
        self.release(largest)
        return largest

    def release(self, holder: H) -> None:
        """Forget a holder."""
        self.total -= self._held.pop(holder, 0)
