"""States that have a type: instances here, JSON there, and what becomes of those that do not fit any more."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import date
from typing import Any, ClassVar, Generic, TypeVar

import msgspec
import pytest
from pydantic import BaseModel, ConfigDict

from everyword import Agent
from everyword.agents.state import shown_state
from everyword.errors import BadInput, UsageError
from everyword.log.memory import MemoryLog
from tests.agents.state.kit import loaded, states
from tests.runtime.facts import written


class Order(BaseModel):
    item: str
    count: int = 1


class Dated(BaseModel):
    model_config = ConfigDict(strict=True)
    day: date


@dataclass
class Basket:
    items: list[str] = field(default_factory=list)


def typed(model: type[Any], initial: Any = None) -> type[Agent]:
    return type("Typed", (Agent,), {"state_model": model, "initial_state": initial})


async def test_a_typed_state_is_an_instance_at_once_and_a_copy_of_what_was_given() -> None:
    async with loaded(typed(Order, Order(item="tea"))) as scene:
        order = scene.own.state
        order.count = 2
        change = scene.own.set_state(order)
        order.count = 99
        assert (scene.own.state, await change) == (Order(item="tea", count=2), Order(item="tea", count=2))
        await scene.own.update_state(lambda order: order.model_copy(update={"count": order.count + 1}))
        await scene.own.set_state({"item": "coffee"})
        assert scene.own.state == Order(item="coffee")


async def test_an_instance_that_was_made_wrong_afterwards_is_refused() -> None:
    async with loaded(typed(Order, {"item": "tea"})) as scene:
        order = scene.own.state
        assert order == Order(item="tea"), "what the class has as JSON is an instance, too"
        order.count = "many"
        with pytest.raises(BadInput, match="does not fit Order, count"):
            await scene.own.set_state(order)
        assert scene.own.state == Order(item="tea")


async def test_what_a_validator_makes_of_a_state_is_what_is_stored_if_it_fits() -> None:
    class Tidy(typed(Order, Order(item="tea"))):  # type: ignore[misc]
        def validate_state_change(self, state: Any, source: Any) -> None:
            state.item = state.item.strip() or None

    async with loaded(Tidy) as scene:
        assert await scene.own.set_state(Order(item=" milk ")) == scene.own.state == Order(item="milk")
        with pytest.raises(BadInput, match="does not fit Order, item"):
            await scene.own.set_state(Order(item=" "))
        assert scene.own.state == Order(item="milk")


async def test_dataclasses_and_strict_models_are_read_back_as_they_were_set() -> None:
    async with loaded(typed(Basket, Basket())) as scene:
        await asyncio.gather(
            *(scene.own.update_state(lambda basket: Basket([*basket.items, "pear"])) for _ in range(50))
        )
        assert scene.own.state == scene.outside(typed(Basket)).state == Basket(["pear"] * 50)
    async with loaded(typed(Dated)) as scene:
        assert scene.own.state is None
        assert await scene.own.set_state(Dated(day=date(2026, 1, 2))) == scene.own.state == Dated(day=date(2026, 1, 2))


# -- stored states that do not fit any more ----------------------------------------------------------------------------


class Basic(Agent):
    """As it was: a name and how many."""


class Counted(BaseModel):
    item: str
    count: int


class Shelf(Agent):
    state_model = Counted
    upgrades: ClassVar[list[Any]] = []

    def upgrade_state(self, old: Any) -> Any:
        self.upgrades.append(old)
        return Counted(item=old["item"], count=old["amount"])


async def stored_before(state: Any) -> MemoryLog:
    store = MemoryLog()
    async with loaded(Basic, store) as scene:
        await scene.own.set_state(state)
    return store


async def test_a_stored_state_that_does_not_fit_is_upgraded_and_not_written_before_the_next_one() -> None:
    store = await stored_before({"item": "tea", "amount": 3})
    Shelf.upgrades.clear()
    async with loaded(Shelf, store) as scene:
        assert scene.own.state == scene.own.state == Counted(item="tea", count=3)
        assert Shelf.upgrades == [{"item": "tea", "amount": 3}], "it is not computed at every read"
        assert shown_state(scene.own, b'{"item":"tea","amount":4}') == b'{"item":"tea","count":4}'
        assert scene.outside(Shelf).state == Counted(item="tea", count=3)
    await store.open()
    assert states(await written(store)) == [{"item": "tea", "amount": 3}]
    await store.aclose()
    async with loaded(Shelf, store) as scene:
        await asyncio.gather(
            *(scene.own.update_state(lambda order: Counted(item=order.item, count=order.count + 1)) for _ in range(50))
        )
        assert states(await written(store))[1:] == [{"item": "tea", "count": 3 + each} for each in range(1, 51)]
    Shelf.upgrades.clear()
    async with loaded(Shelf, store) as scene:
        assert (scene.own.state, Shelf.upgrades) == (Counted(item="tea", count=53), [])


async def test_a_stored_state_that_nothing_makes_fit_is_an_error_that_says_what_to_do(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = await stored_before({"amount": 3})
    async with loaded(typed(Order), store) as scene:
        with pytest.raises(BadInput, match=r"does not fit Order, item: Field required. Let `upgrade_state` of Typed"):
            _ = scene.own.state
        assert shown_state(scene.own, b'{"amount":3}') == b'{"amount":3}', "clients are shown what is stored"
        assert "unable to upgrade the state of Typed('ann')" in caplog.text
        await scene.own.set_state({"item": "new"})
        assert scene.own.state == Order(item="new")


# -- the type argument of a class --------------------------------------------------------------------------------------


class Till(msgspec.Struct):
    coins: int = 0


T = TypeVar("T")


class Keeper(Agent[T], Generic[T]):
    """A base of the user's own that leaves the type to its subclasses."""


@pytest.mark.parametrize(
    ("model", "initial", "stored"),
    [
        (Order, Order(item="tea"), b'{"item":"tea","count":2}'),
        (Basket, Basket(), b'{"items":["tea"]}'),
        (Till, Till(), b'{"coins":3}'),
    ],
)
async def test_the_type_argument_is_the_model_of_the_state(model: Any, initial: Any, stored: bytes) -> None:
    class Shop(Agent[model]):
        initial_state = initial

    class Kept(Keeper[model]):
        initial_state = initial

    class Corner(Shop):
        """Inherits it."""

    for cls in (Shop, Kept, Corner):
        assert cls.state_model is model
        async with loaded(cls) as scene:
            assert scene.own.state == initial
            await scene.own.set_state(msgspec.json.decode(stored))
            assert isinstance(scene.own.state, model)
            assert scene.committed == msgspec.json.decode(stored)
            with pytest.raises(BadInput, match=f"it does not fit {model.__name__}"):
                await scene.own.set_state({"item": [], "items": 3, "coins": "x"})


def test_a_type_argument_that_is_no_model_says_nothing_about_what_is_stored() -> None:
    class Counter(Agent[dict[str, int]]):
        initial_state: ClassVar[Any] = {"n": 0}

    class Typed(Agent[Order]):
        state_model = Basket
        initial_state = Basket()

    assert (Counter.state_model, Keeper.state_model, Typed.state_model) == (None, None, Basket)


def test_a_type_without_none_needs_an_initial_state() -> None:
    with pytest.raises(UsageError, match=r"its state is a Order, but None until one is set.* \[Order \| None\]"):

        class Shop(Agent[Order]): ...

    class Late(Agent[Order | None]): ...

    assert Late.state_model is Order
