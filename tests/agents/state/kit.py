"""One loaded agent with a state, as its own code has it and as others do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import msgspec
import pytest

from everyword import Agent
from everyword.agents import responder_for
from everyword.agents.connections import Connection
from everyword.errors import LogUnavailable
from everyword.events import StateSet
from everyword.ids import AgentId
from everyword.log.base import Batch, LogStore
from everyword.log.memory import MemoryLog
from everyword.runtime.agent_runtime.agent_runtime import AgentRuntime
from everyword.runtime.directory import Directory, Settings
from everyword.testing import ManualClock
from tests.runtime.kit import AGENT, SlowDisk
from tests.timeouts import PATIENCE


class Counter(Agent):
    initial_state: ClassVar[Any] = {"n": 0}

    def __init__(self, port: Any) -> None:
        super().__init__(port)
        self.heard: list[Any] = []

    def validate_state_change(self, state: Any, source: Any) -> None:
        if state["n"] < 0:
            raise ValueError("less than nothing")

    async def on_state_changed(self, state: Any, source: Any) -> None:
        self.heard.append((state["n"], source if source == "server" else source.id))

    async def add(self, amount: int = 1) -> int:
        await self.set_state({"n": self.state["n"] + amount})
        return int(self.state["n"])

    async def count(self) -> int:
        return int((await self.update_state(lambda state: {"n": state["n"] + 1}))["n"])


class FullDisk(SlowDisk):
    """A disk whose appends wait for the gate, and then fail while it is full."""

    is_full = False

    async def append_one(self, batch: Batch) -> None:
        if not self.is_full:
            return await super().append_one(batch)
        await self.gate.wait()
        raise LogUnavailable("unable to append; the disk is full")


class Scene:
    """One loaded agent: its own object, and how others see it."""

    def __init__(self, directory: Directory, clock: ManualClock) -> None:
        self.directory, self.clock = directory, clock

    @property
    def own(self) -> Any:
        loaded = self.directory.peek(AGENT)
        assert loaded is not None
        return loaded.owner

    def outside(self, cls: type[Agent] = Counter) -> Any:
        """Return the agent as `app.get` gives it."""
        return cls(AgentRuntime(self.directory, AGENT))

    @property
    def committed(self) -> Any:
        loaded = self.directory.peek(AGENT)
        assert loaded is not None
        return (
            msgspec.json.decode(loaded.reconciler.view.state_value)
            if loaded.reconciler.view.state_value is not None
            else None
        )


def directory_of(cls: type[Agent], store: LogStore, clock: ManualClock) -> Directory:
    def responder(agent: AgentId) -> Any:
        return responder_for(cls, AgentRuntime(directory, agent))

    directory = Directory(store, responder, clock=clock, settings=Settings(grace=0.0))
    return directory


@asynccontextmanager
async def loaded(cls: type[Agent] = Counter, store: LogStore | None = None) -> AsyncIterator[Scene]:
    clock = ManualClock()
    directory = directory_of(cls, store if store is not None else MemoryLog(), clock)
    async with asyncio.timeout(PATIENCE), directory:
        await AgentRuntime(directory, AGENT).load()
        yield Scene(directory, clock)


def states(events: list[Any]) -> list[Any]:
    return [msgspec.json.decode(bytes(event.state)) for event in events if isinstance(event, StateSet)]


def connection(name: str) -> Connection:
    return Connection(f"s-{name}", name, send=lambda message: None, close=lambda code, reason: None)


def unawaited(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "no code awaited it" in record.getMessage()]
