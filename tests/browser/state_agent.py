"""An agent with a state and methods, for the stock hook `useAgent`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, ClassVar

from everyword import AIChatAgent, CallResult, ChatError, callable

__all__ = ["STATEFUL", "Desk"]


class Desk(AIChatAgent):
    """Keeps a count in its state."""

    initial_state: ClassVar[Any] = {"count": 0}

    def validate_state_change(self, state: Any, source: Any) -> None:
        if not isinstance(state, dict):
            raise ValueError("a reason that stays here")

    async def on_chat_message(self, turn: Any) -> AsyncIterator[str]:
        await self.set_state({"count": self.state["count"] + 100})
        yield "counted"

    @callable
    async def add(self, amount: int) -> int:
        await self.set_state({"count": self.state["count"] + amount})
        return int(self.state["count"])

    @callable
    async def countdown(self, start: int) -> AsyncIterator[int | CallResult]:
        for number in range(start, 0, -1):
            yield number
        yield CallResult("lift-off")

    @callable
    async def refuse(self) -> None:
        raise ChatError("not today")


STATEFUL = (Desk,)
