"""What every server streams: words that carry the time at which they were made."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec

__all__ = ["FILLING", "WORDS", "Ask", "ask_of", "deltas", "filling"]

WORDS = " some words of an answer "
FILLING = "A sentence of some length, as people write them. " * 4


class Ask(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a request asks for, in `bench` of its body.

    `rate` is chunks per second, 0 for as fast as they are taken; `yields` lets the loop run before every chunk;
    `holds` leaves the stream open after its last chunk.
    """

    chunks: int = 3
    rate: float = 0
    yields: bool = False
    holds: bool = False


def ask_of(body: dict[str, Any]) -> Ask:
    return msgspec.convert(body.get("bench", {}), Ask)


async def deltas(ask: Ask) -> AsyncIterator[str]:
    """Yield `@` and the time in microseconds, then words. Who is late does not wait: the schedule is absolute."""
    began = time.monotonic()
    for index in range(ask.chunks):
        if ask.rate:
            early = began + index / ask.rate - time.monotonic()
            if early > 0:
                await asyncio.sleep(early)
        elif ask.yields:
            await asyncio.sleep(0)
        yield f"@{time.time_ns() // 1000}{WORDS}"
    if ask.holds:
        await asyncio.Event().wait()


def filling(count: int) -> list[dict[str, Any]]:
    """Return a conversation of so many messages."""
    return [
        {
            "id": f"m{index}",
            "role": "assistant" if index % 2 else "user",
            "parts": [{"type": "text", "text": FILLING}],
        }
        for index in range(count)
    ]
