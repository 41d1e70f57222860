"""An agent class behind a directory, without a server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from everyword.agents import AIChatAgent, ChatResponder, responder_for
from everyword.ids import AgentId
from everyword.log.base import LogStore
from everyword.log.memory import MemoryLog
from everyword.runtime.agent_runtime.agent_runtime import AgentRuntime
from everyword.runtime.directory import Directory, Settings
from everyword.testing import CrashingLog, ManualClock
from tests.runtime.kit import kill_everything

AGENT = AgentId("chat/ann")


class Served:
    """A directory that serves one agent class, and the newest instance of it."""

    def __init__(self, cls: type[AIChatAgent], store: LogStore, clock: ManualClock) -> None:
        self._cls, self.clock = cls, clock
        self.directory = Directory(store, self._responder, clock=clock, settings=Settings(grace=0.0))
        self._newest: ChatResponder | None = None

    def _responder(self, agent: AgentId) -> ChatResponder:
        self._newest = responder_for(self._cls, AgentRuntime(self.directory, agent))
        return self._newest

    @property
    def agent(self) -> AIChatAgent:
        assert self._newest is not None
        return self._newest.agent


@asynccontextmanager
async def dying(cls: type[AIChatAgent], store: LogStore) -> AsyncIterator[Served]:
    """As `served`, but at the end of the block the process dies without closing anything."""
    log = CrashingLog(store)
    serving = Served(cls, log, ManualClock())
    await serving.directory.open()
    async with serving.directory.attach(AGENT):
        yield serving
    log.crashed.set()
    await kill_everything()
    await store.aclose()


@asynccontextmanager
async def served(cls: type[AIChatAgent], store: LogStore | None = None) -> AsyncIterator[Served]:
    """Load one agent of the class and keep it loaded."""
    serving = Served(cls, store if store is not None else MemoryLog(), ManualClock())
    async with serving.directory, serving.directory.attach(AGENT):
        yield serving
