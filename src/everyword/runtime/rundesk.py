"""Sub-agents as tools for an agent's own code: `runtime.api.RunPort` over the agent's own mailbox."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

from msgspec import Raw

from ..core.commands import StartRun
from ..core.state import State
from ..errors import AgentStopped, LogError, Rejected
from ..events import ABSENT, Chunk, RunStarted
from ..ids import AgentId, RunId
from ..messages.json_values import encode_json
from ..principals import acting_for
from ..trace_context import current_trace
from .api import RunChunk, RunRecord, RunRequest
from .directory import Directory, Loaded
from .runs import child_of, record_of, request_of
from .runtail import RunTail

__all__ = ["RunDesk"]


class RunDesk:
    """Implements `RunPort` for one agent of a directory."""

    def __init__(self, directory: Directory, agent: AgentId) -> None:
        self._directory, self._agent = directory, agent

    async def start(self, request: RunRequest) -> tuple[RunRecord, bool]:
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
        while True:
            try:
                async with self._directory.attach(self._agent) as loaded:
                    return await (await loaded.actor.inspect(_ending_of(loaded, run)))
            except (AgentStopped, LogError):
                if self._directory.is_closed:
                    raise
                await self._directory.loaded_again(self._agent)

    async def find(self, run: RunId) -> RunRecord | None:
        async with self._directory.attach(self._agent) as loaded:
            return await loaded.actor.inspect(lambda state: _record(state, run))

    async def all(self) -> list[RunRecord]:
        async with self._directory.attach(self._agent) as loaded:
            return await loaded.actor.inspect(lambda state: [record_of(run) for run in state.runs.values()])

    async def cancel(self, run: RunId, reason: str) -> RunRecord | None:
        async with self._directory.attach(self._agent) as loaded:
            record = await loaded.actor.inspect(lambda state: _record(state, run))
            if record is None or record.status != "running":
                return record
            loaded.agency.runs.stop(run, reason)
        return await self.wait(run)

    def abandon(self, run: RunId, reason: str) -> None:
        loaded = self._directory.peek(self._agent)
        if loaded is not None and not self._directory.is_closed and not loaded.actor.tail.closed:
            loaded.agency.runs.stop(run, reason)

    async def tail(self, run: RunId, after: int = -1) -> AsyncIterator[RunChunk]:
        async with self._directory.attach(self._agent) as loaded:
            started = await loaded.actor.inspect(lambda state: _started(state, run))
        if started is None:
            raise Rejected(f"unable to follow run {run!r}; there is none")
        wake = asyncio.Event()
        tail = RunTail(self._directory, child_of(self._agent, started), request_of(run), wake)
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


def _ending_of(loaded: Loaded, run: RunId) -> Callable[[State], asyncio.Future[RunRecord]]:
    return lambda state: loaded.agency.runs.ending(state, run)
