"""Pages of what a client may see: they are those of a list without what is hidden."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everyword.server import visible_pages
from everyword.server.visible_pages import visible_page

SEALED = "sealed "


class Listed:
    """A list of numbers. Those that are not visible are hidden."""

    def __init__(self, numbers: Sequence[int], visible: set[int]) -> None:
        self.numbers, self.visible = numbers, visible
        self.reads: list[int] = []

    async def read(self, cursor: str | None, size: int) -> list[tuple[int, str]]:
        self.reads.append(size)
        start = 0 if cursor is None else self.numbers.index(int(cursor)) + 1
        return [(each, str(each)) for each in self.numbers[start : start + size]]

    async def may_see(self, number: int) -> bool:
        return number in self.visible

    async def seal(self, cursor: str) -> str:
        return f"{SEALED}{cursor}"

    async def page(self, cursor: str | None, limit: int) -> tuple[list[int], str | None]:
        place = cursor.removeprefix(SEALED) if cursor is not None else None
        return await visible_page(self.read, self.may_see, self.seal, cursor=place, limit=limit)

    async def pages(self, limit: int) -> list[tuple[list[int], str | None]]:
        found = [await self.page(None, limit)]
        while (cursor := found[-1][1]) is not None:
            found.append(await self.page(cursor, limit))
        return found


@given(st.integers(0, 120), st.sets(st.integers(0, 120)), st.integers(1, 9))
def test_pages_are_those_of_a_list_without_what_is_hidden(count: int, visible: set[int], limit: int) -> None:
    numbers = range(count)
    shown = [each for each in numbers if each in visible]
    pages = asyncio.run(Listed(numbers, visible).pages(limit))
    assert pages == asyncio.run(Listed(shown, visible).pages(limit))


async def test_a_page_ends_early_at_a_sealed_place_if_very_much_in_a_row_is_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(visible_pages, "MOST_LOOKED_AT", 100)
    listed = Listed(range(1000), {0, 999})
    assert await listed.page(None, 2) == ([0], f"{SEALED}101")
    assert listed.reads == [2, 50, 50]
    pages = await listed.pages(2)
    assert [each for found, _ in pages for each in found] == [0, 999]
    assert len(pages) == 10


async def test_a_page_that_is_shown_as_it_is_takes_one_read() -> None:
    listed = Listed(range(10), set(range(10)))
    assert await listed.page(None, 5) == ([0, 1, 2, 3, 4], "4")
    assert listed.reads == [5]
