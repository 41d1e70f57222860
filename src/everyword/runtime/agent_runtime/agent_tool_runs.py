"""Sub-agents that work as tools, for an agent's own code."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

from msgspec import Raw

from ...core.commands import StartRun
from ...core.state import State
from ...errors import AgentStopped, LogError, OwnedElsewhere, Rejected
from ...events import ABSENT, Chunk, RunStarted
from ...ids import AgentId, RunId
from ...messages.json_values import encode_json
from ...principals import acting_for
from ...trace_context import current_trace
from ..agent_tool_runs.following import RunFollower
from ..agent_tool_runs.watching import child_of, record_of, request_of
from ..api import RunChunk, RunRecord, RunRequest
from ..directory import Directory, LoadedAgent

__all__ = ["AgentToolRunsAccess"]


class AgentToolRunsAccess:
    """The runs of one agent's sub-agents that work as its tools."""

    def __init__(self, directory: Directory, agent: AgentId) -> None:
        self._directory, self._agent = directory, agent

    async def start(self, request: RunRequest) -> tuple[RunRecord, bool]:
        """Record a run, which sets its sub-agent to work; return it as it stands, and whether it was started now."""
        command = StartRun(
            request.run,
            request.kind,
            call=request.call,
            within=request.within,
            input=_raw(request.input),
            preview=request.preview,
            order=request.order,
            display=_raw(request.display),
            is_detached=request.is_detached,
            expects=request.expects,
            refusal=request.refusal,
            principal=acting_for(),
            trace=current_trace(),
        )
        async with self._directory.attach(self._agent) as loaded:
            events = await loaded.actor.ask(command)
            record = await loaded.actor.inspect(lambda state: _record(state, request.run))
        assert record is not None
        return record, bool(events)

    async def wait(self, run: RunId) -> RunRecord:
        """Return how a run ended, whichever process sees that. Safe to cancel: the run goes on.

        Raises:
            Rejected: there is no such run.
        """
        while True:
            try:
                async with self._directory.attach(self._agent) as loaded:
                    return await (await loaded.actor.inspect(_ending_of(loaded, run)))
            except OwnedElsewhere:
                raise
            except (AgentStopped, LogError):
                if self._directory.is_closed:
                    raise
                await self._directory.loaded_again(self._agent)

    async def find(self, run: RunId) -> RunRecord | None:
        """Return a run as it stands."""
        async with self._directory.attach(self._agent) as loaded:
            return await loaded.actor.inspect(lambda state: _record(state, run))

    async def all(self) -> list[RunRecord]:
        """Return the runs, oldest first: all that are open, and the newest of those that have ended."""
        async with self._directory.attach(self._agent) as loaded:
            return await loaded.actor.inspect(lambda state: [record_of(run) for run in state.runs.values()])

    async def cancel(self, run: RunId, reason: str) -> RunRecord | None:
        """Stop a run, and return how it ended; None for an unknown one."""
        async with self._directory.attach(self._agent) as loaded:
            record = await loaded.actor.inspect(lambda state: _record(state, run))
            if record is None or record.status != "running":
                return record
            loaded.reconciler.runs.stop(run, reason)
        return await self.wait(run)

    def abandon(self, run: RunId, reason: str) -> None:
        """Stop a run that its caller does not wait for any longer; not when that is because the process stops."""
        loaded = self._directory.peek(self._agent)
        if loaded is not None and not self._directory.is_closed and not loaded.actor.tail.closed:
            loaded.reconciler.runs.stop(run, reason)

    async def tail(self, run: RunId, after: int = -1) -> AsyncIterator[RunChunk]:
        """Follow what a run's sub-agent says behind chunk `after`, to the end of its turn.

        Raises:
            Rejected: there is no such run.
        """
        async with self._directory.attach(self._agent) as loaded:
            started = await loaded.actor.inspect(lambda state: _started(state, run))
        if started is None:
            raise Rejected(f"unable to follow run {run!r}; there is none")
        wake = asyncio.Event()
        tail = RunFollower(self._directory, child_of(self._agent, started), request_of(run), wake)
        async with aclosing(tail):
            while not tail.is_over:
                wake.clear()
                page = await tail.poll()
                for committed in page:
                    event = committed.event
                    assert isinstance(event, Chunk)
                    if event.index > after:
                        yield RunChunk(event.index, bytes(event.body).decode())
                if not page and not tail.is_over:
                    await wake.wait()


def _raw(value: Any) -> Raw:
    return ABSENT if value is None else Raw(encode_json(value))


def _record(state: State, run: RunId) -> RunRecord | None:
    found = state.runs.get(run)
    return record_of(found) if found is not None else None


def _started(state: State, run: RunId) -> RunStarted | None:
    found = state.runs.get(run)
    return found.started if found is not None else None


def _ending_of(loaded: LoadedAgent, run: RunId) -> Callable[[State], asyncio.Future[RunRecord]]:
    return lambda state: loaded.reconciler.runs.ending(state, run)
