from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from everyword.messages.stream_closing import closing


class Told:
    """A stream that can be closed, and one that it gives out."""

    def __init__(self) -> None:
        self.is_closed = False

    async def stream(self) -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            self.is_closed = True


class Bare:
    """An iterator without `aclose`."""

    def __aiter__(self) -> Bare:
        return self

    async def __anext__(self) -> int:
        return 7


def test_a_generator_that_was_left_early_runs_its_finally() -> None:
    async def scenario() -> bool:
        told = Told()
        async with closing(told.stream()) as stream:
            assert await anext(stream) == 1
        return told.is_closed

    assert asyncio.run(scenario())


def test_what_cannot_be_closed_is_read_all_the_same() -> None:
    async def scenario() -> int:
        async with closing(Bare()) as stream:
            return await anext(stream)

    assert asyncio.run(scenario()) == 7
