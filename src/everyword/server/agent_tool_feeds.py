"""The frames of an agent's runs for one connection, made from the sub-agents' logs, each read with its own cursor.

A slow page only has old cursors; nothing is queued for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Final

from ..errors import AgentStopped, LogError
from ..events import Chunk, RunEnded, RunStarted
from ..ids import AgentId, RunId
from ..runtime.agent_tool_runs.following import RunFollower
from ..runtime.agent_tool_runs.watching import child_of, request_of
from ..runtime.directory import Directory
from ..runtime.tail import Committed
from ..wire.agent_tool_frames import Known, chosen_runs, chunk_frame, ended_frame, started_frame

__all__ = ["MOST_REPLAYED", "REPLAY_SECONDS", "RunFeeds"]

log = logging.getLogger("everyword.server")

MOST_REPLAYED: Final = 20
REPLAY_SECONDS: Final = 2.0
"""How long the replay of all runs may take: a client gives up connecting after four seconds."""

AGAIN: Final = 1.0
"""Seconds after which a sub-agent that could not be read is tried again."""


class RunFeeds:
    """The runs of one agent as one connection follows them; `wake` is the connection's own."""

    def __init__(self, directory: Directory, agent: AgentId, wake: asyncio.Event) -> None:
        self._directory, self._agent, self._wake = directory, agent, wake
        self._feeds: dict[RunId, _Feed] = {}

    @property
    def is_idle(self) -> bool:
        """Whether no run is followed."""
        return not self._feeds

    def started(self, event: RunStarted) -> list[bytes]:
        """Return what tells of a run that began; from now on `poll` gives what it says."""
        self._follow(event)
        return [started_frame(event).live]

    async def ended(self, event: RunEnded) -> AsyncIterator[list[bytes]]:
        """Yield the rest of what a run says, then its end."""
        feed = self._feeds.pop(event.run, None)
        if feed is None:
            return
        try:
            while told := await self._next(feed):
                yield told
        finally:
            await feed.tail.aclose()
        yield [ended_frame(feed.started, event, feed.tail.chunks).live]

    async def poll(self) -> list[bytes]:
        """Return the next of what one of the open runs says; empty when none of them says anything new."""
        for run, feed in list(self._feeds.items()):
            told = await self._next(feed)
            if told:
                self._feeds[run] = self._feeds.pop(run)  # the others first, next time
                return told
        return []

    async def replay(self, runs: Sequence[Known]) -> AsyncIterator[list[bytes]]:
        """Yield the frames of the runs so far, for a new connection. What takes too long comes live, or not at all."""
        deadline = asyncio.get_running_loop().time() + REPLAY_SECONDS
        for started, ended in chosen_runs(runs, MOST_REPLAYED):
            yield [started_frame(started).replayed]
            feed = self._follow(started)
            try:
                while page := await self._page(feed, deadline, is_over=ended is not None):
                    # Connections that come after the end get no transient parts.
                    yield [feed.replayed(each) for each in page if ended is None or not _is_transient(each)]
            except TimeoutError:
                log.info("replaying the runs of %r takes too long; the rest is left out", self._agent)
            if ended is not None:
                yield [ended_frame(started, ended, feed.tail.chunks).replayed]
                del self._feeds[started.run]

    async def aclose(self) -> None:
        """Let go of every sub-agent."""
        for feed in self._feeds.values():
            await feed.tail.aclose()
        self._feeds.clear()

    def _follow(self, started: RunStarted) -> _Feed:
        child = child_of(self._agent, started)
        feed = _Feed(started, RunFollower(self._directory, child, request_of(started.run), self._wake))
        return self._feeds.setdefault(started.run, feed)

    async def _next(self, feed: _Feed) -> list[bytes]:
        try:
            return [feed.live(committed) for committed in await feed.tail.poll()]
        except (AgentStopped, LogError):
            if self._directory.is_stopping:
                raise
            asyncio.get_running_loop().call_later(AGAIN, self._wake.set)
            return []

    async def _page(self, feed: _Feed, deadline: float, *, is_over: bool) -> list[Committed]:
        async with asyncio.timeout_at(deadline):
            try:
                return await (feed.tail.read_stored() if is_over else feed.tail.poll())
            except (AgentStopped, LogError):
                if self._directory.is_stopping:
                    raise
                return []


class _Feed:
    """One run that is followed."""

    __slots__ = ("started", "tail")

    def __init__(self, started: RunStarted, tail: RunFollower) -> None:
        self.started, self.tail = started, tail

    def live(self, committed: Committed) -> bytes:
        """Return the frame of a chunk, built once for all who watch the agent."""
        frame = committed.frames.get("run")
        if frame is None:
            assert isinstance(committed.event, Chunk)
            frame = committed.frames["run"] = chunk_frame(self.started, committed.event).live
        return frame

    def replayed(self, committed: Committed) -> bytes:
        assert isinstance(committed.event, Chunk)
        return chunk_frame(self.started, committed.event).replayed


def _is_transient(committed: Committed) -> bool:
    return isinstance(committed.event, Chunk) and committed.event.transient
