"""A process that is killed while fifty callers count in the state of one agent: it says each number once it is told.

Argument: the log. It says `from N` first, the state that it found.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any, ClassVar

from everyword import Agent, Everyword

LIFETIME = 60.0
"""Seconds after which a forgotten process goes by itself."""

CALLERS = 50


class Counter(Agent):
    initial_state: ClassVar[Any] = {"n": 0}

    async def count(self) -> int:
        return int((await self.set_state({"n": self.state["n"] + 1}))["n"])


def report(line: str) -> None:
    os.write(1, f"{line}\n".encode())


async def live(path: str) -> None:
    async with asyncio.timeout(LIFETIME), Everyword([Counter], store=path) as app:
        counter = app.get(Counter, "ann")
        report(f"from {(await counter.get_state())['n']}")

        async def count() -> None:
            while True:
                report(f"told {await counter.call(Counter.count)}")

        await asyncio.gather(*(count() for _ in range(CALLERS)))


def main(path: str) -> None:
    asyncio.run(live(path))
