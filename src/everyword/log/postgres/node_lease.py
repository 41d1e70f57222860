"""This node's lease: registered when the store opens, renewed by a heartbeat, judged by the database's clock.

The node's own view of it is stricter than the database's: the lease counts from before the heartbeat was sent, by a
clock that goes on while the machine sleeps. A plain timer looks at it, not the task that waits for the database: a
database that swallows everything must not keep the node from noticing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from ...errors import EverywordError
from ...ids import Incarnation, Millis
from ..nodes import LiveNode
from .connection import DRIVER_ERRORS, Connector, refusal
from .schema import VERSION

__all__ = ["NodeLease"]

log = logging.getLogger("everyword.nodes")

LONGEST_INTERVAL: Final = 2.0
"""Seconds between heartbeats at most: they also tell which other nodes live."""

FAR_OFF: Final = 60_000
"""Milliseconds that this machine's clock may differ from the database's before a warning."""


class NodeLease:
    """Holds the lease of this node and knows the others.

    Args:
        connector: Connects to the database.
        name: What people call this node.
        url: Where other nodes reach it.
        lease: Seconds that the lease lasts without a heartbeat.
        on_lost: Called once for each lost lease, with the reason.
        on_change: Called with the nodes that live when there are others than before.
    """

    def __init__(
        self,
        connector: Connector,
        *,
        name: str,
        url: str,
        lease: float,
        on_lost: Callable[[str], None],
        on_change: Callable[[Sequence[LiveNode]], None],
    ) -> None:
        self._connector, self._told, self._lease = connector, (name, url), lease
        self._on_lost, self._on_change = on_lost, on_change
        self.incarnation = Incarnation(0)
        self.live: Sequence[LiveNode] = ()
        self.clock = DatabaseClock()
        self._validity = Validity(lease, lambda: self._lose("it was not renewed in time"))
        self._started_ms = 0
        self._oldest = 0
        """The version that every live node is known to know, and every one that joins."""
        self._connection: Any = None
        self._look = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def _interval(self) -> float:
        """Seconds between heartbeats."""
        return min(self._lease / 4, LONGEST_INTERVAL)

    @property
    def is_valid(self) -> bool:
        """Whether the lease is held at this moment."""
        return self._validity.is_held and not self._validity.is_over

    @property
    def name(self) -> str:
        return self._told[0]

    @property
    def lease_left(self) -> float:
        """Seconds until the lease ends; 0 without one."""
        return self._validity.left

    async def start(self) -> None:
        """Register this node; raises what prevents it."""
        await self._register()
        self._task = asyncio.create_task(self._keep(), name="heartbeat of the node")

    async def stop(self) -> None:
        """Give the lease up: everything that this node owned is free at once."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._connection is not None:
            self._connection.terminate()  # the heartbeat may have been cancelled in the middle of a call
        if not self._validity.end():
            return
        try:
            async with asyncio.timeout(self._lease / 3), self._connector.connected() as connection:
                await connection.execute(self._connector.sql["leave"], self.incarnation)
        except (EverywordError, *DRIVER_ERRORS) as exc:
            log.warning("unable to give the lease of this node up; others wait for its end: %s", exc)

    def announce(self, url: str) -> None:
        """Say where other nodes reach this one, from the next registration on."""
        self._told = self._told[0], url

    def look_again(self) -> None:
        """Send a heartbeat now: something says that the lease is gone."""
        self._look.set()

    async def set_draining(self) -> None:
        """Let the others know that this node is about to leave."""
        try:
            async with asyncio.timeout(self._lease / 3), self._connector.connected() as connection:
                await connection.execute(self._connector.sql["set_draining"], self.incarnation)
        except DRIVER_ERRORS as exc:
            raise refusal("note that this node is stopping", exc) from exc

    async def every_node_knows(self, version: int) -> bool:
        """Return whether every live node knows this version; see `NodeMembership`."""
        if version <= self._oldest:
            return True
        if any(node.version < version for node in self.live):
            return False
        try:
            async with self._connector.connected() as connection:  # a node may have joined since the last heartbeat
                is_known = bool(await connection.fetchval(self._connector.sql["raise_oldest"], version))
        except DRIVER_ERRORS as exc:
            raise refusal(f"use version {version} of the schema", exc) from exc
        if is_known:
            self._oldest = version
        return is_known

    # -- the heartbeat -------------------------------------------------------------------------------------------

    async def _keep(self) -> None:
        delay = self._interval
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._look.wait()
            self._look.clear()
            try:
                async with asyncio.timeout(self._lease):  # whatever hangs: only this loop takes a new lease
                    delay = await (self._renew() if self._validity.is_held else self._register())
            except Exception as exc:  # all of them: without this loop the node would never serve again
                why = str(exc) or "the database did not answer in time"
                is_known = isinstance(exc, (EverywordError, *DRIVER_ERRORS))
                log.warning(
                    "unable to renew the lease of this node; trying again: %s", why, exc_info=None if is_known else exc
                )
                if self._connection is not None:
                    self._connection.terminate()
                delay = self._lease / 16

    async def _register(self) -> float:
        """Take a lease under a new incarnation; return when the next heartbeat is due."""
        before = _now()
        connection = await self._connected()
        try:
            async with asyncio.timeout(self._lease / 3):
                values = (*self._told, VERSION, timedelta(seconds=self._lease))
                self.incarnation = Incarnation(await connection.fetchval(self._connector.sql["register"], *values))
        except DRIVER_ERRORS as exc:
            connection.terminate()
            raise refusal("register this node", exc) from exc
        self._started_ms = self._oldest = 0
        self._validity.extend(before)
        log.info("this node is %r, incarnation %d", self._told[0], self.incarnation)
        return await self._renew()

    async def _renew(self) -> float:
        """Send one heartbeat; return when the next one is due."""
        connection, before, wall = await self._connected(), _now(), time.time()
        async with asyncio.timeout(self._lease / 3):
            rows = await connection.fetch(
                self._connector.sql["heartbeat"], self.incarnation, timedelta(seconds=self._lease)
            )
        nodes = [LiveNode(*tuple(row)[:7]) for row in rows]
        if all(node.id != self.incarnation for node in nodes):
            self._lose("it was declared gone")
            return 0.0
        if not self._validity.is_held:
            # Lost while this heartbeat was under way: all agents were dropped, so the next node may have them at once.
            await connection.execute(self._connector.sql["leave"], self.incarnation)
            return 0.0
        now_ms, started_ms = rows[0]["now_ms"], rows[0]["started_ms"]
        if self._started_ms not in (0, started_ms):
            # With flushes off, or after a failover to a replica, memory may be ahead of the log.
            await connection.execute(self._connector.sql["leave"], self.incarnation)
            self._lose("the database was restarted")
            return 0.0
        self._started_ms = started_ms
        self._validity.extend(before)
        self.clock.set(now_ms, before, _now())
        self._warn_about_clock(now_ms, wall)
        self._learn(nodes)
        late = [node for node in nodes if node.left <= 0 and node.id != self.incarnation]
        if late and now_ms - started_ms > self._lease * 1000:  # after a restart of the database all are late
            await self._declare_gone(connection, late)
        others = [node.left / 1000 + 0.01 for node in nodes if node.id != self.incarnation and node.left > 0]
        return min([self._interval, *others])

    async def _declare_gone(self, connection: Any, nodes: Sequence[LiveNode]) -> None:
        for node in nodes:
            try:
                is_gone = await connection.fetchval(self._connector.sql["declare_gone"], node.id)
            except DRIVER_ERRORS as exc:
                log.warning("node %r holds a write open; its connection is ended: %s", node.name, exc)
                await connection.execute(self._connector.sql["end_writes"], node.id)
                continue
            if is_gone:
                log.warning("node %r (incarnation %d) is gone: its lease is over", node.name, node.id)
                self._learn([each for each in self.live if each.id != node.id])

    def _learn(self, nodes: Sequence[LiveNode]) -> None:
        before = {(node.id, node.state) for node in self.live}
        self.live = nodes
        if {(node.id, node.state) for node in nodes} != before:
            self._on_change(nodes)

    async def _connected(self) -> Any:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._connector.connect()
        return self._connection

    def _lose(self, why: str) -> None:
        if not self._validity.end():
            return
        log.error("this node has lost its lease: %s. It drops all agents and registers again", why)
        self.look_again()
        self._on_lost(why)

    def _warn_about_clock(self, now_ms: int, wall: float) -> None:
        off = int(wall * 1000) - now_ms
        if abs(off) > FAR_OFF:
            log.warning(
                "the clock of this machine is %d s %s that of the database; the database's is used. Check NTP",
                abs(off) // 1000,
                "ahead of" if off > 0 else "behind",
            )


class Validity:
    """The node's own view of its lease: it ends `lease` seconds after the last heartbeat was sent that came back."""

    def __init__(self, lease: float, on_over: Callable[[], None]) -> None:
        self._lease, self._on_over = lease, on_over
        self._until = 0.0
        self.is_held = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_over(self) -> bool:
        return _now() >= self._until

    @property
    def left(self) -> float:
        return max(self._until - _now(), 0.0) if self.is_held else 0.0

    def extend(self, sent_at: float) -> None:
        """Hold the lease, from when the heartbeat was sent."""
        self._until, self.is_held = sent_at + self._lease, True
        self._set_timer()

    def end(self) -> bool:
        """Hold it no longer; return whether it was held."""
        if self._timer is not None:
            self._timer.cancel()
        was_held, self.is_held = self.is_held, False
        return was_held

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        left = max(self._until - _now(), 0.0)
        self._timer = asyncio.get_running_loop().call_later(left, self._check)

    def _check(self) -> None:
        if self.is_over:
            self._on_over()
        else:
            self._set_timer()


class DatabaseClock:
    """The database's time, carried on by this machine's clock between heartbeats; never goes back."""

    def __init__(self) -> None:
        self._at_ms, self._at = 0, 0.0
        self._last = Millis(0)

    def set(self, now_ms: int, before: float, after: float) -> None:
        """Take a reading of the database's clock: it was made about half way between sending and receiving."""
        self._at_ms, self._at = now_ms, (before + after) / 2

    def now(self) -> Millis:
        now = self._at_ms + int((_now() - self._at) * 1000) if self._at_ms else int(time.time() * 1000)
        if now > self._last:
            self._last = Millis(now)
        return self._last


def _now() -> float:
    """Return seconds by a clock that goes on while the machine sleeps, where there is one."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.clock_gettime(clock) if clock is not None else time.monotonic()
