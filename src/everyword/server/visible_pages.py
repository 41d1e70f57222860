"""Pages of what a client may see, of a list of which much may be hidden from it.

A page says nothing of what is hidden: it has what a list without it would have, and ends with the place of what is
shown last. Only if very much in a row is hidden, a page ends early, at a place that the client cannot read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

__all__ = ["visible_page"]

T = TypeVar("T")

MOST_LOOKED_AT: Final = 1000
"""What one request looks at to fill a page, if most of it is hidden."""

AT_ONCE: Final = 50
"""What is read at least when a page was not filled by what was read first."""

Placed = tuple[T, str]
"""Something in a list, and the cursor of what comes after it."""


async def visible_page(
    read: Callable[[str | None, int], Awaitable[Sequence[Placed[T]]]],
    may_see: Callable[[T], Awaitable[bool]],
    seal: Callable[[str], Awaitable[str]],
    *,
    cursor: str | None,
    limit: int,
) -> tuple[list[T], str | None]:
    """Return what is shown, at most `limit`, and the cursor of the next page; None at the end.

    `read` returns at most so many things that come after a cursor; fewer only at the end.
    """
    shown: list[T] = []
    looked_at, size = 0, limit
    while looked_at < MOST_LOOKED_AT:
        found = await read(cursor, size)
        for each, place in found:
            cursor = place
            if await may_see(each):
                shown.append(each)
                if len(shown) == limit:
                    return shown, cursor
        if len(found) < size:
            return shown, None
        looked_at, size = looked_at + size, max(limit, AT_ONCE)
    return shown, await seal(cursor) if cursor is not None else None
