"""The network between one node and the database: slow, silent, cut, or without heartbeats."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Literal

from ..simulated_postgres.connections import Wire

__all__ = ["NodeWire", "WireState"]

WireState = Literal["fast", "slow", "silent", "no heartbeats"]

WRITES = frozenset({"activate_all", "claim", "release", "append", "append_with_rows", "destroy", "take_fence"})
CONNECT_TIMEOUT = 5.0
LATE = (0.01, 0.3, 1.0, 3.0)
FAST, SLOW = (0, 0, 0, 0, 0, 0.001, 0.004), (0.02, 0.2, 0.7, 1.5)


class NodeWire(Wire):
    """Draws how long everything takes. A statement may arrive though its connection is lost meanwhile."""

    def __init__(self, chance: Random) -> None:
        super().__init__()
        self.is_dead = False
        """True after a crash of the node."""
        self.loss = 0.0
        """The probability that the connection of a statement that writes is lost: before the statement arrives, which
        it does later, and again before its answer."""
        self.on_loss: Callable[[str], None] = lambda what: None
        self._chance = chance
        self._state: WireState = "fast"
        self._heard = asyncio.Event()
        self._heard.set()
        self._cuts = 0

    def become(self, state: WireState) -> None:
        self._state = state
        if state == "silent":
            self._heard.clear()
        else:
            self._heard.set()

    def cut(self) -> None:
        """Lose all connections; some of what is on its way still arrives."""
        self._cuts += 1
        for connection in list(self.connections):
            connection.terminate()

    def die(self) -> None:
        self.is_dead = True
        self.cut()
        self.become("fast")

    async def connect(self) -> None:
        if self.is_dead:
            raise ConnectionRefusedError("the node is dead")
        async with asyncio.timeout(CONNECT_TIMEOUT):
            await self._heard.wait()
            await self._travel()

    async def up(self, name: str, lose: Callable[[], None]) -> None:
        cuts = self._cuts
        if self._is_lost(name):
            lose()
            await asyncio.sleep(self._chance.choice(LATE))
            return
        if name == "heartbeat" and self._state == "no heartbeats":
            raise ConnectionResetError("lost")
        await self._heard.wait()
        await self._travel()
        if cuts != self._cuts and self._chance.random() < 0.5:
            raise ConnectionResetError("lost")

    async def down(self, name: str) -> None:
        await self._heard.wait()
        await self._travel()
        if self._is_lost(name):
            raise ConnectionAbortedError("the answer is lost, with its connection")

    def _is_lost(self, name: str) -> bool:
        is_lost = name in WRITES and self._chance.random() < self.loss
        if is_lost:
            self.on_loss(name)
        return is_lost

    async def _travel(self) -> None:
        seconds = self._chance.choice(SLOW if self._state == "slow" else FAST)
        if seconds:
            await asyncio.sleep(seconds)
