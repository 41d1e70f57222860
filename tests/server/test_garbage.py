"""What is over is gone at once: with thousands of conversations, what waits for the collector is found at a price."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from everyword.agents import AIChatAgent, Turn
from tests.server.kit import chat, serving
from tests.server.sockets import socket
from tests.timeouts import PATIENCE


class Chat(AIChatAgent):
    async def on_chat_message(self, turn: Turn) -> AsyncIterator[str]:
        yield "Hello, "
        yield "you."


@contextmanager
def collecting(found: Counter[str]) -> Iterator[None]:
    """Count what of ours only the collector finds, by its type."""
    gc.collect()
    gc.disable()
    try:
        yield
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found.update(type(each).__qualname__ for each in gc.garbage if type(each).__module__.startswith("everyword."))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def _is_served() -> bool:
    return any("run_asgi" in repr(task.get_coro()) for task in asyncio.all_tasks())


async def test_a_turn_and_a_socket_that_are_over_leave_nothing_for_the_collector() -> None:
    found: Counter[str] = Counter()
    async with serving(chat(Chat)) as url:
        for name in ("first", "second"):  # what is made once, at the first of them, stays
            with collecting(found := Counter()):
                async with socket(url, name=name) as tab:
                    for number in range(3):
                        await tab.ask(f"{name}-{number}")
                        await tab.ended(f"{name}-{number}")
                async with asyncio.timeout(PATIENCE):
                    while _is_served():  # noqa: ASYNC110 - a server says nothing when it has let go of a socket
                        await asyncio.sleep(0)
    assert found == Counter()
