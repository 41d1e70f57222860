"""The commit loop: one call of the store per tick, whenever its receipts come, and whatever becomes of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import pytest

from everyword.core.commands import ReplaceState
from everyword.core.state import Rules, State
from everyword.core.wanted import Wanted
from everyword.errors import AgentStopped, LogUnavailable
from everyword.events import to_raw
from everyword.ids import AgentId, Epoch, Seq, TurnId
from everyword.log.base import Batch, LogStore
from everyword.log.receipt import Receipt, settle
from everyword.runtime.actor import Actor
from everyword.runtime.commit_loop import CommitLoop
from everyword.testing import ManualClock
from tests.timeouts import PATIENCE

PLACE: ContextVar[str] = ContextVar("place", default="nowhere")


class Remote:
    """A store behind a network: it keeps what it was given, and the test says what becomes of each batch, and when."""

    def __init__(self) -> None:
        self.calls: list[list[Batch]] = []
        self.receipts: dict[AgentId, Receipt] = {}

    def append(self, batches: Sequence[Batch]) -> Sequence[Receipt]:
        self.calls.append(list(batches))
        made = [Receipt() for _ in batches]
        self.receipts |= {batch.agent: receipt for batch, receipt in zip(batches, made, strict=True)}
        return made

    def commit(self, agent: str, error: Exception | None = None) -> None:
        receipt = self.receipts.pop(AgentId(agent))
        receipt.error = error
        settle([receipt])

    @property
    def agents(self) -> list[list[str]]:
        return [[batch.agent for batch in call] for call in self.calls]


class AtOnce(Remote):
    """A store that commits while it is called, as SQLite does with little."""

    def append(self, batches: Sequence[Batch]) -> Sequence[Receipt]:
        receipts = super().append(batches)
        settle(receipts)
        return receipts


class Hooks:
    """Notes where it was called after commits."""

    def __init__(self) -> None:
        self.places: list[str] = []

    def begins(self, state: State, work: Wanted) -> TurnId | None:
        return None

    def changed(self, state: State, work: Wanted) -> None:
        self.places.append(PLACE.get())

    def streamed(self, state: State) -> None: ...


@asynccontextmanager
async def actors(store: Any, *names: str, on_append: Any = None) -> AsyncIterator[list[Actor]]:
    """Run an actor for each name, with a place of its own, over one commit loop."""
    loop = CommitLoop(store, on_append)
    made: list[Actor] = []
    tasks: list[asyncio.Task[None]] = []
    for name in names:
        actor = Actor(
            AgentId(name),
            State(),
            epoch=Epoch(1),
            head=Seq(0),
            clock=ManualClock(),
            rules=Rules(),
            schedule=loop.schedule,
        )
        actor.hooks = Hooks()
        PLACE.set(name)
        tasks.append(asyncio.create_task(actor.run()))
        made.append(actor)
    PLACE.set("nowhere")
    await asyncio.sleep(0)
    try:
        yield made
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def value(actor: Actor, number: int) -> asyncio.Future[Any]:
    return actor.post(ReplaceState(to_raw(number)))


async def tick() -> None:
    await asyncio.sleep(0)


async def test_the_batches_of_one_tick_are_one_call_of_the_store_in_order_of_their_mail() -> None:
    store = Remote()
    async with actors(store, "a", "b", "c") as (a, b, c):
        replies = [value(actor, 1) for actor in (b, a, c, a)]
        assert store.calls == []
        await tick()
        assert store.agents == [["b", "a", "c"]]
        assert [len(batch.entries) for batch in store.calls[0]] == [1, 2, 1]
        for name in ("a", "b", "c"):
            store.commit(name)
        await asyncio.gather(*replies)


async def test_nothing_is_visible_before_its_receipt_and_receipts_come_in_any_order() -> None:
    store = Remote()
    async with actors(store, "a", "b") as (a, b):
        replies = [value(a, 1), value(b, 1)]
        await tick()
        store.commit("b")
        await tick()
        assert [(actor.tail.head, reply.done()) for actor, reply in zip((a, b), replies, strict=True)] == [
            (0, False),
            (1, True),
        ]
        store.commit("a")
        await asyncio.gather(*replies)
        assert (a.tail.head, b.tail.head) == (1, 1)


async def test_an_actor_decides_nothing_while_its_batch_is_under_way_and_the_others_go_on() -> None:
    store = Remote()
    async with actors(store, "a", "b") as (a, b):
        first = value(a, 1)
        await tick()
        second, other = value(a, 2), value(b, 1)
        await tick()
        assert store.agents == [["a"], ["b"]]
        store.commit("a")
        await tick()
        assert store.agents == [["a"], ["b"], ["a"]], "what came meanwhile is the next batch"
        assert (store.calls[2][0].first, first.done(), second.done()) == (2, True, False)
        store.commit("a")
        store.commit("b")
        await asyncio.gather(second, other)


async def test_a_batch_that_is_not_committed_ends_its_actor_only() -> None:
    store = Remote()
    async with actors(store, "a", "b") as (a, b):
        lost, kept = value(a, 1), value(b, 1)
        await tick()
        store.commit("a", LogUnavailable("the network is gone"))
        store.commit("b")
        with pytest.raises(LogUnavailable, match="the network is gone"):
            await lost
        await kept
        assert (a.tail.head, a.tail.closed, b.tail.head, b.tail.closed) == (0, True, 1, False)
        with pytest.raises(AgentStopped):
            await a.ask(ReplaceState(to_raw(2)))


async def test_a_missing_receipt_blocks_no_other_and_its_callers_get_an_error() -> None:
    store = Remote()
    async with actors(store, "a", "b") as (a, b):
        waiting = value(a, 1)
        await tick()
        for number in range(3):
            done = value(b, number)
            await tick()
            store.commit("b")
            await done
    with pytest.raises(AgentStopped):
        await waiting
    store.commit("a")  # it comes after all, and is not published
    assert (a.tail.head, b.tail.head) == (0, 3)


async def test_what_is_committed_while_the_store_is_called_is_visible_in_the_same_tick() -> None:
    store = AtOnce()
    async with actors(store, "a", "b") as (a, b):
        replies = [value(a, 1), value(b, 1)]
        await tick()
        assert (a.tail.head, b.tail.head) == (1, 1)
        await asyncio.gather(*replies)


@pytest.mark.parametrize("store", [Remote(), AtOnce()], ids=["later", "at once"])
async def test_each_actor_works_in_its_own_context(store: Remote) -> None:
    async with actors(store, "a", "b") as both:
        replies = [value(actor, 1) for actor in both]
        await tick()
        for name in list(store.receipts) if type(store) is Remote else []:
            store.commit(name)
        await asyncio.gather(*replies)
        assert [actor.hooks.places for actor in both] == [["a"], ["b"]]  # type: ignore[attr-defined]


class Stopped(BaseException):
    """As Ctrl-C: it may come anywhere, and is no error of any agent's."""


@pytest.mark.parametrize("where", ["decide", "publish"])
async def test_the_others_go_on_if_the_process_is_stopped_in_the_middle_of_a_tick(where: str) -> None:
    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
    store = AtOnce()
    async with actors(store, "a", "b", "c") as (a, b, c):

        def stop(*_: object) -> None:
            raise Stopped

        if where == "decide":
            b.hooks.begins = stop  # type: ignore[method-assign]
        else:
            b.hooks.changed = stop  # type: ignore[method-assign]
        replies = [value(actor, 1) for actor in (a, b, c)]
        async with asyncio.timeout(PATIENCE):
            await replies[0]
            await replies[2]
            with pytest.raises(AgentStopped):
                await replies[1]
        assert (a.tail.head, b.tail.head, c.tail.head) == (1, 0, 1)
        assert [type(each) for each in told] == [Stopped]


async def test_a_store_that_raises_instead_of_giving_receipts_ends_the_actors_whose_batches_it_was_given() -> None:
    class Broken(Remote):
        def append(self, batches: Sequence[Batch]) -> Sequence[Receipt]:
            raise LogUnavailable("unable to append; the store is broken")

    store: LogStore = Broken()  # type: ignore[assignment]
    async with actors(store, "a") as (a,):
        with pytest.raises(LogUnavailable, match="the store is broken"):
            await value(a, 1)
        assert a.tail.closed


async def test_an_observer_gets_every_batch_with_its_receipt_before_it_is_committed() -> None:
    store, seen = Remote(), list[tuple[str, Receipt]]()
    loop_observer = lambda batch, receipt: seen.append((batch.agent, receipt))  # noqa: E731
    async with actors(store, "a", "b", on_append=loop_observer) as (a, b):
        replies = [value(a, 1), value(b, 1)]
        await tick()
        assert [(agent, receipt.is_done) for agent, receipt in seen] == [("a", False), ("b", False)]
        store.commit("b")
        assert [receipt.is_done for _, receipt in seen] == [False, True]
        store.commit("a")
        await asyncio.gather(*replies)


async def test_a_query_that_posts_does_not_let_the_actor_decide_while_a_batch_is_under_way() -> None:
    store, posted = Remote(), list[asyncio.Future[Any]]()
    async with actors(store, "a") as (a,):

        def post(state: State) -> None:
            # The third comes in the next iteration, before the tick that the second one schedules.
            asyncio.get_running_loop().call_soon(lambda: posted.append(value(a, 3)))
            posted.append(value(a, 2))

        first = value(a, 1)
        query = asyncio.ensure_future(a.inspect(post))
        await tick()
        await tick()
        store.commit("a")
        await asyncio.gather(first, query)
        for _ in range(3):
            await tick()
        assert [batch.first for call in store.calls for batch in call] == [1, 2]
        store.commit("a")
        await posted[0]
        await tick()
        store.commit("a")
        await posted[1]
        assert a.tail.head == 3


@pytest.mark.parametrize("kind", ["too few receipts", "a coroutine"])
async def test_a_store_that_breaks_its_contract_ends_the_actors_instead_of_leaving_callers_waiting(kind: str) -> None:
    class Odd(Remote):
        def append(self, batches: Sequence[Batch]) -> Any:
            if kind == "too few receipts":
                return super().append(batches)[1:]

            async def old_contract() -> None: ...

            made = old_contract()
            made.close()
            return made

    async with actors(Odd(), "a", "b") as (a, b):
        replies = [value(a, 1), value(b, 1)]
        async with asyncio.timeout(PATIENCE):
            for reply in replies:
                with pytest.raises((LogUnavailable, AgentStopped)):
                    await reply


async def test_an_observer_that_raises_keeps_no_batch_from_being_published(caplog: pytest.LogCaptureFixture) -> None:
    def broken(batch: Batch, receipt: Receipt) -> None:
        raise ZeroDivisionError

    async with actors(AtOnce(), "a", on_append=broken) as (a,):
        await value(a, 1)
        assert a.tail.head == 1
    assert "unable to tell observers" in caplog.text


async def test_the_store_is_called_in_a_context_of_its_own() -> None:
    places: list[str] = []

    class Noting(AtOnce):
        def append(self, batches: Sequence[Batch]) -> Sequence[Receipt]:
            places.append(PLACE.get())
            return super().append(batches)

    async with actors(Noting(), "a") as (a,):
        PLACE.set("a caller's")
        await value(a, 1)
        PLACE.set("nowhere")
    assert places == ["nowhere"]
