"""Live lists: changes as `authorize` allows a client to see them, and comments while there are none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final, cast

from ..agents import ConversationChange, ConversationPage

__all__ = ["ToldConversations", "with_pauses"]

IDLE: Final = 15.0
"""Seconds without a change after which a comment is sent, so that a proxy does not close the stream as idle."""

MOST_TOLD: Final = 10_000
"""Conversations of which a live list remembers that it has shown them."""


class ToldConversations:
    """The conversations that one live list has shown to its client. `may` tells whether the client may see one now.

    What it was shown, and may not see any more, is removed from its list: an `authorize` that asks for the owner of a
    conversation refuses the former owner, and it refuses everybody once the conversation was deleted.
    """

    def __init__(self, may: Callable[[str, str], Awaitable[bool]]) -> None:
        self._may = may
        self._told: dict[tuple[str, str], None] = {}

    def begin(self, page: ConversationPage) -> None:
        """Note the page that the client is shown. It replaces all that was shown before."""
        self._told = {(each.kind, each.name): None for each in page.conversations}

    async def shown(self, change: ConversationChange) -> ConversationChange | None:
        """Return a change of one conversation as the client may see it; None if it may not."""
        about = change.conversation or change
        kind, name = cast("str", about.kind), cast("str", about.name)
        is_allowed, was_told = await self._may(kind, name), (kind, name) in self._told
        self._told.pop((kind, name), None)
        if is_allowed and change.conversation is not None:
            self._told[kind, name] = None
            if len(self._told) > MOST_TOLD:
                del self._told[next(iter(self._told))]
        if is_allowed:
            return change
        return ConversationChange("removed", kind=kind, name=name) if was_told else None


async def with_pauses(items: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
    """Yield the items, and None after IDLE seconds without one."""
    waiting: asyncio.Task[Any] | None = None
    try:
        while True:
            waiting = waiting or asyncio.ensure_future(anext(items))
            done, _ = await asyncio.wait([waiting], timeout=IDLE)
            if not done:
                yield None
                continue
            task, waiting = waiting, None
            try:
                yield task.result()
            except StopAsyncIteration:
                return
    finally:
        if waiting is not None:
            waiting.cancel()
            await asyncio.wait([waiting])
