"""An agent to be used by other code, with a method for everything that can happen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, ClassVar

from pydantic import BaseModel

from everyword import Agent, AIChatAgent, CallResult, ChatError, Handle, Turn, UIMessage
from everyword import callable_method as exposed
from everyword.errors import (
    MessageRefused,
    SqlError,
    UsageError,
)
from everyword.testing import LocalServer


class Item(BaseModel):
    name: str
    at: datetime
    size: int = 1


@dataclass
class Place:
    x: int
    day: date


class Refused(ChatError):
    """An application's own error."""


class Shop(Agent):
    initial_state: ClassVar[Any] = {"n": 0}

    async def on_start(self) -> None:
        self.items: list[Item] = []
        self.entered, self.go_on, self.closed = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.starts = getattr(self, "starts", 0) + 1

    @exposed
    async def add(self, n: int) -> int:
        return int((await self.set_state({"n": self.state["n"] + n}))["n"])

    def add_soon(self, n: int, *more: int, factor: int = 1, **named: int) -> int:
        self.set_state({"n": self.state["n"] + (n + sum(more) + sum(named.values())) * factor})
        return int(self.state["n"])

    async def put(self, item: Item, place: Place | None = None) -> list[Item]:
        assert isinstance(item, Item) and (place is None or isinstance(place.day, date))
        self.items.append(item)
        return self.items

    async def untyped(self, value):  # type: ignore[no-untyped-def]
        return {"given": value, "kind": type(value).__name__}

    async def message(self, message: UIMessage) -> UIMessage:
        assert isinstance(message, UIMessage)
        return message

    async def fails(self, how: str) -> None:
        match how:
            case "value":
                raise ValueError("a secret text")
            case "own":
                raise Refused("no such item")
            case "sql":
                raise SqlError("broken", is_constraint=True)
            case "rejected":
                raise MessageRefused("not that")
            case _:
                raise UsageError("not so")

    async def gives_object(self) -> Any:
        return object()

    async def lies(self) -> int:
        return "no number"  # type: ignore[return-value]

    async def waits(self) -> str:
        self.entered.set()
        await self.go_on.wait()
        await self.set_state({"n": 99})
        return "done"

    async def count(self, to: int) -> AsyncIterator[int | CallResult]:
        try:
            for n in range(to):
                await self.set_state({"n": n})
                yield n
            yield CallResult({"total": to})
        finally:
            self.closed.set()

    async def breaks(self) -> AsyncIterator[Item]:
        yield Item(name="one", at=datetime(2024, 1, 1, tzinfo=UTC))
        raise ChatError("no more")

    async def leave(self) -> str:
        await self.destroy()
        return "bye"

    async def note(self, payload: Any) -> None:
        await self.set_state({"n": payload})

    async def _hidden(self) -> None: ...


class Chat(AIChatAgent):
    async def on_chat_message(self, turn: Turn) -> AsyncIterator[str]:
        yield f"re {self.messages[-1].text}"


class Other(AIChatAgent):
    pass


def user(text: str) -> dict[str, object]:
    return {"id": text, "role": "user", "parts": [{"type": "text", "text": text}]}


def item(name: str) -> Item:
    return Item(name=name, at=datetime(2024, 1, 1, tzinfo=UTC))


def own(server: LocalServer, name: str = "test") -> Shop:
    """Return the agent's own object, which only it should have."""
    (found,) = [each.owner for each in server.app._directory.loaded() if each.actor.agent == f"shop/{name}"]
    assert isinstance(found, Shop)
    return found


async def two(frames: Any) -> list[Any]:
    return [await anext(frames), await anext(frames)]


async def read(stream: AsyncIterator[Any], into: list[Any]) -> None:
    async for each in stream:
        into.append(each)


async def until_state(handle: Handle[Any], state: Any) -> None:
    async with asyncio.timeout(10):
        while await handle.get_state() != state:  # noqa: ASYNC110 - the state says when
            await asyncio.sleep(0)
