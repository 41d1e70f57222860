"""Code that uses the agents of the product: a route, a job, a test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import assert_type

from everyword import (
    AppHandle,
    CallResult,
    ChatHandle,
    ConnectionRecord,
    Everyword,
    Handle,
    SaveMessagesResult,
    ThinkHandle,
    UIMessage,
)
from everyword.agents import Job, Submission, Version
from everyword.testing import LocalServer
from tests.typing.product.orders import Basket, Cart, Order, Plain, Research, Support


async def use(app: Everyword) -> int:
    basket, support = app.get(Basket, "ann"), app.get(Support, "ann")
    assert_type(basket, Handle[Basket])
    assert_type(support, ThinkHandle[Support])
    assert_type(await basket.call(Basket.add, "tea"), int)
    assert_type(await support.call(Support.ask_around, question="why"), str)
    await basket.call(Basket.add, 3)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    await basket.call(Support.ask_around, "?")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    async for line in basket.stream(Basket.lines):
        assert_type(line, str | CallResult)
    cart = await basket.get_state()
    assert_type(cart, Cart)
    assert_type(await basket.set_state(Cart(["tea"])), Cart)
    assert_type(await basket.connections("till"), list[ConnectionRecord])
    assert_type(await basket.jobs.list(), Sequence[Job])
    added: int = await basket.add("milk")
    return added


async def ask(support: ThinkHandle[Support]) -> None:
    assert_type(await support.save_messages("hi"), SaveMessagesResult)
    assert_type(await support.run_turn("hi"), SaveMessagesResult)
    assert_type(await support.run_turn("Which?", output_type=Order), Order)
    assert_type(await support.get_messages(), list[UIMessage])
    assert_type(await support.submit_messages("later"), Submission)
    assert_type(await support.versions.list("m1"), Sequence[Version])
    research = await support.sub_agent(Research, "own")
    assert_type(research, ChatHandle[Research])
    either: ChatHandle[Support] | Handle[Support] = support
    assert either.name == support.name


async def everybody(app: AppHandle) -> AsyncIterator[Handle[Basket]]:
    async for basket in app.agents(Basket, prefix="a"):
        assert_type(basket, Handle[Basket])
        yield basket
    assert_type(await app.exists(Plain, "ann"), bool)
    await app.destroy(Plain, "ann")


async def check(server: LocalServer) -> None:
    assert_type(server.get(Basket), Handle[Basket])
    assert_type(await server.get(Support).has_pending_interaction(), bool)
