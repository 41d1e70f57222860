"""Rate limits per principal: turns and method calls (`RateLimiter`), frames and bytes (`TrafficLimiter`)."""

from __future__ import annotations

from collections import OrderedDict, deque

from ..ids import Millis

__all__ = ["MINUTE", "RateLimiter", "TrafficLimiter"]

MINUTE = 60_000
"""Milliseconds of a minute, the window of every rate limit."""


class RateLimiter:
    """Counts the requests of each principal within the last minute. Remembers only the newest principals."""

    def __init__(self, per_minute: int, *, principals: int = 10_000) -> None:
        self._per_minute, self._principals = per_minute, principals
        self._asked: OrderedDict[str, deque[Millis]] = OrderedDict()

    def wait_needed(self, principal: str, now: Millis) -> int:
        """Count a request; return 0, or how many milliseconds too early it is (then it does not count)."""
        asked = self._asked.setdefault(principal, deque())
        self._asked.move_to_end(principal)
        if len(self._asked) > self._principals:
            self._asked.popitem(last=False)
        while asked and asked[0] <= now - MINUTE:
            asked.popleft()
        if len(asked) >= self._per_minute:
            return asked[0] + MINUTE - now if asked else MINUTE
        asked.append(now)
        return 0


class TrafficLimiter:
    """Counts the frames and bytes of each principal, over all its connections. Remembers only the newest principals.

    One leaky bucket per limit, so that memory per principal is constant. What a principal sends fills the bucket, and a
    minute empties it. A full bucket refuses everything until some of it has run out. Refused data fills it as well, up
    to twice its size: a client that continues to send has a full minute to wait.
    """

    def __init__(self, frames_per_minute: int, bytes_per_minute: int, *, principals: int = 10_000) -> None:
        self._limits, self._principals = (frames_per_minute, bytes_per_minute), principals
        self._filled: OrderedDict[str, tuple[Millis, int, int]] = OrderedDict()
        """When each principal last sent something, and how full its buckets were: frames and bytes, times `MINUTE`."""

    def wait_needed(self, principal: str, frames: int, size: int, now: Millis) -> int:
        """Count what a principal has sent; return 0, or for how many milliseconds everything from it is refused.

        More than `MINUTE` means that it has sent another minute's worth since: the caller closes the connection.
        """
        since, *filled = self._filled.pop(principal, (now, 0, 0))
        waits = [0]
        for place, (limit, amount) in enumerate(zip(self._limits, (frames, size), strict=True)):
            level, full = max(0, filled[place] - max(0, now - since) * limit), limit * MINUTE
            filled[place] = min(level + amount * MINUTE, 2 * full)
            if level >= full:
                waits.append((filled[place] - full) // limit + 1 if limit else MINUTE + 1)
        self._filled[principal] = now, filled[0], filled[1]
        if len(self._filled) > self._principals:
            self._filled.popitem(last=False)
        return max(waits)
