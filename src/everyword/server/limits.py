"""What one client may ask of the server."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from ..errors import TooManyQueued
from ..ids import AgentId, Millis

__all__ = ["MINUTE", "Limits", "RateLimiter", "ReaderLimit", "TrafficLimiter"]

MINUTE = 60_000

K = TypeVar("K", bound=str)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on clients. Beyond them they are refused with a sentence, never cut off without a word."""

    frame: int = 32 * 1024 * 1024
    """Bytes of one frame or body; the stock client sends its whole history with every question."""
    sockets_per_agent: int = 100
    """Open sockets and event streams of one agent."""
    queued_turns: int = 50
    """Turns of one agent that may be open at the same time."""
    requests_per_minute: int = 120
    """Turns that one principal may ask for in a minute."""
    calls_per_minute: int = 3000
    """Calls of methods that one principal may make in a minute."""
    frames_per_minute: int = 6000
    """Frames and requests with a body that one principal may send in a minute, over all its connections."""
    bytes_per_minute: int = 512 * 1024 * 1024
    """Bytes of them. No less than `frame`, or the largest question of all takes more than a minute's worth."""
    sockets_per_principal: int = 200
    """Open sockets and event streams of one principal, over all agents."""
    unread: int = 4 * 1024 * 1024
    """Bytes of replies, and of what the agent's code sends, that may wait for one socket; then it is closed."""
    unread_seconds: float = 20.0
    """How long calls, and `connection.drain()`, wait until half of that is read; then the socket is closed."""
    unfinished: int = 256 * 1024 * 1024
    """Bytes of frames that have begun and are not whole, over all sockets; as many of bodies, over all requests."""
    request_seconds: float = 10.0
    """How long the headers of a request, or of a handshake, may take. Kept by `everyword serve`."""
    message_seconds: float = 300.0
    """How long a frame or a body may take to come whole. Kept by `everyword serve`."""


class RateLimiter:
    """How many turns each principal has asked for within the last minute. Remembers only the newest principals."""

    def __init__(self, per_minute: int, *, principals: int = 10_000) -> None:
        self._per_minute, self._principals = per_minute, principals
        self._asked: OrderedDict[str, deque[Millis]] = OrderedDict()

    def wait_needed(self, principal: str, now: Millis) -> int:
        """Count a request; return 0, or how many milliseconds too early it is, and then it does not count."""
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
    """How much each principal sends: frames and bytes, over all its connections. Remembers only the newest principals.

    A leaky bucket for each limit, so that a principal takes the same room however much it sends: what comes fills it,
    and a minute empties it. Once it is full, nothing is taken until some of it has run out. What is refused fills it as
    well, up to twice: a client that goes on regardless has a full minute to wait.
    """

    def __init__(self, frames_per_minute: int, bytes_per_minute: int, *, principals: int = 10_000) -> None:
        self._limits, self._principals = (frames_per_minute, bytes_per_minute), principals
        self._filled: OrderedDict[str, tuple[Millis, int, int]] = OrderedDict()
        """When each principal last sent something, and how full its buckets were: frames and bytes, times `MINUTE`."""

    def wait_needed(self, principal: str, frames: int, size: int, now: Millis) -> int:
        """Count what a principal has sent; return 0, or for how many milliseconds nothing is taken from it.

        More than `MINUTE` says that it has gone on for another minute's worth, and had better be closed.
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


class ReaderLimit:
    """How many sockets and event streams each agent has open, and each principal."""

    def __init__(self, per_agent: int, per_principal: int) -> None:
        self._per_agent, self._per_principal = per_agent, per_principal
        self._taken: Counter[AgentId] = Counter()
        self._used: Counter[str] = Counter()

    def check(self, agent: AgentId, principal: str) -> None:
        """Raise `TooManyQueued` when all seats of the agent, or of the principal, are taken."""
        if self._taken[agent] >= self._per_agent:
            raise TooManyQueued(f"unable to follow {agent!r}; {self._per_agent} readers do, which is the limit")
        self.check_principal(principal)

    def check_principal(self, principal: str) -> None:
        """Raise `TooManyQueued` when all of the principal's seats are taken."""
        if self._used[principal] >= self._per_principal:
            count = self._per_principal
            raise TooManyQueued(f"unable to open another connection; you have {count}, which is the limit. Close some.")

    @property
    def is_taken(self) -> bool:
        """Whether anybody has a seat."""
        return bool(self._taken)

    @contextmanager
    def seat(self, agent: AgentId, principal: str) -> Iterator[None]:
        """Hold one of the agent's seats while the block runs; `check` comes first, where refusing is still easy."""
        self._taken[agent] += 1
        self._used[principal] += 1
        try:
            yield
        finally:
            _give_back(self._taken, agent)
            _give_back(self._used, principal)


def _give_back(taken: Counter[K], key: K) -> None:
    taken[key] -= 1
    if not taken[key]:
        del taken[key]
