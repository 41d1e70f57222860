"""The office calls everybody who has mail, in one call of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, ContextVar

import pytest

from everyword.runtime.office import Office

PLACE: ContextVar[str] = ContextVar("place", default="nowhere")


def at(place: str) -> Context:
    context = Context()
    context.run(PLACE.set, place)
    return context


async def test_everybody_is_called_once_in_order_and_in_a_context_of_its_own() -> None:
    office = Office()
    called: list[str] = []
    for place in ("a", "b", "c"):
        office.call_soon(lambda: called.append(PLACE.get()), at(place))
    assert not called, "not on the spot"
    await asyncio.sleep(0)
    assert called == ["a", "b", "c"]
    await asyncio.sleep(0)
    assert called == ["a", "b", "c"]


async def test_who_has_something_to_do_again_is_called_in_the_next_turn_of_the_loop() -> None:
    office = Office()
    called: list[int] = []

    def again() -> None:
        called.append(len(called))
        if len(called) < 3:
            office.call_soon(again, Context())

    office.call_soon(again, Context())
    for turn in range(1, 4):
        await asyncio.sleep(0)
        assert called == list(range(turn))


def test_the_others_are_called_even_if_one_stops_the_process() -> None:
    loop = asyncio.new_event_loop()
    office, called = Office(), list[str]()

    def stop() -> None:
        raise SystemExit

    async def all_of_them() -> None:
        works: list[Callable[[], None]] = [lambda: called.append("first"), stop, lambda: called.append("last")]
        for work in works:
            office.call_soon(work, Context())
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    task = loop.create_task(all_of_them())
    with pytest.raises(SystemExit):
        loop.run_until_complete(task)
    loop.run_until_complete(task)
    loop.close()
    assert called == ["first", "last"]
