"""Copies of an app whose answers can be held."""

from __future__ import annotations

from collections.abc import AsyncIterator

from everyword import AIChatAgent, Everyword, Turn
from everyword.testing.hold_points import HoldPoints, with_hold_points


class Story(AIChatAgent):
    async def on_chat_message(self, turn: Turn) -> AsyncIterator[str]:
        yield "once"


async def test_a_copy_of_an_app_erases_from_its_own_store() -> None:
    copied = with_hold_points(Everyword([Story], store="memory:"), HoldPoints())
    async with copied:
        await copied.get(Story, "ann").save_messages("hello")
        assert [*await copied.principals.erasures()] == []
        assert (await copied.principals.erase("ann")).is_complete
        assert len(await copied.principals.erasures()) == 1
