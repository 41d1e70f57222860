"""An agent with a ResumableStreamManager, what it is told to say, and a page that folds what it is told."""

from __future__ import annotations

import asyncio
import inspect
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

from everyword import Agent, ResumableStreamManager, callable
from everyword.agents.chat_responder import responder_for
from everyword.agents.streams.stream_manager import GenerateAIResponseOptions, StreamHistory
from everyword.ids import AgentId
from everyword.log.base import LogStore
from everyword.runtime.agent_runtime.agent_runtime import AgentRuntime
from everyword.runtime.directory import Directory, Settings
from everyword.testing import ManualClock
from tests.timeouts import PATIENCE

AGENT = AgentId("talk/ann")


class Script:
    """What the agent says, and where it waits. A question of several words is answered word by word.

    `hold:NAME` waits until the gate of that name is opened, `fail` fails, everything else is said.
    """

    def __init__(self) -> None:
        self.gates: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.asked: list[GenerateAIResponseOptions] = []
        self.say: Callable[[GenerateAIResponseOptions], list[str]] = words


def words(options: GenerateAIResponseOptions) -> list[str]:
    return options.messages[-1]["content"].split(" ")


class Talk(Agent):
    """Says the question again, word by word."""

    script: ClassVar[Script] = Script()
    initial_state: ClassVar[Any] = {"messages": [], "activeStreamId": None, "theme": "dark"}

    def __init__(self, port: Any) -> None:
        super().__init__(port)
        self.streams = ResumableStreamManager(self)

    async def on_start(self) -> None:
        await super().on_start()
        await self.streams.initialize_tables()
        await self.streams.load_and_sync_messages()

    async def generate_ai_response(self, options: GenerateAIResponseOptions) -> str:
        self.script.asked.append(options)
        said = ""
        for word in self.script.say(options):
            if word.startswith("hold:"):
                await self.script.gates[word.removeprefix("hold:")].wait()
            elif word == "fail":
                raise RuntimeError("a reason that stays here")
            else:
                await options.process_chunk(f"{word} ")
                said += f"{word} "
        return said

    @callable
    async def send_message(self, content: str) -> dict[str, str]:
        return {**await self.streams.send_message(content)}

    @callable
    async def get_stream_history(self, stream_id: str) -> StreamHistory:
        return await self.streams.get_stream_history(stream_id)

    @callable
    async def clear(self) -> None:
        await self.streams.clear_history()
        await self.set_state(self.initial_state)


def fresh_script() -> Script:
    """Give the agent a script of its own; call it in a test's own loop."""
    Talk.script = Script()
    return Talk.script


@asynccontextmanager
async def talking(
    store: LogStore, clock: ManualClock | None = None, cls: type[Talk] = Talk
) -> AsyncIterator[tuple[Talk, Directory]]:
    """Load one agent and keep it loaded."""
    made: list[Any] = []

    def responder(agent: AgentId) -> Any:
        made.append(responder_for(cls, AgentRuntime(directory, agent)))
        return made[-1]

    directory = Directory(store, responder, clock=clock or ManualClock(), settings=Settings(grace=0.0))
    async with directory, directory.attach(AGENT):
        yield made[-1].agent, directory


async def until(fact: Callable[[], Any]) -> None:
    """Let others run until a fact is there; it may have to be asked for."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = fact()
            if await found if inspect.isawaitable(found) else found:
                return
            await asyncio.sleep(0)


async def over(agent: Talk, stream: str) -> StreamHistory:
    """Wait until a stream has ended and the state says so; return its history."""

    async def is_over() -> bool:
        history = await agent.streams.get_stream_history(stream)
        assert history["metadata"] is not None
        waiting = [job.payload["streamId"] for job in await agent.jobs.list("_rsm_generate_response", queued=True)]
        return history["metadata"]["status"] != "streaming" and stream not in waiting

    await until(is_over)
    return await agent.streams.get_stream_history(stream)


async def said(agent: Talk, stream: str, count: int) -> None:
    """Wait until a stream has so many chunks."""

    async def is_said() -> bool:
        return len((await agent.streams.get_stream_history(stream))["chunks"]) >= count

    await until(is_said)


def text_of(history: StreamHistory) -> str:
    return "".join(chunk["content"] for chunk in sorted(history["chunks"], key=lambda chunk: chunk["index"]))


@dataclass
class PageStream:
    """One stream as a page shows it: history and live frames in any order give each index once."""

    restarts: int = 0
    chunks: dict[int, str] = field(default_factory=dict)
    status: str = "streaming"
    error: str | None = None
    needs_history: bool = False
    solid: int = -1
    """What is missing up to here was never said."""
    early: list[dict[str, Any]] = field(default_factory=list)
    """Frames of an attempt whose beginning is not known yet."""
    applied: int = 0
    """How many chunks were put on the screen: more than there are means that some were replayed twice."""

    def frame(self, frame: dict[str, Any]) -> None:
        """Take in a live frame."""
        ahead = frame.get("restarts", 0) - self.restarts
        match frame["type"]:
            case "rsm_stream_end":
                self.status, self.error = frame["status"], frame.get("error")
            case "rsm_stream_cut" if ahead == 1:
                self.restarts, self.solid = self.restarts + 1, min(self.solid, frame["index"] - 1)
                self.chunks = {index: text for index, text in self.chunks.items() if index < frame["index"]}
            case "rsm_stream_chunk" if ahead == 0:
                self._add(frame["index"], frame["content"])
            case _ if ahead > 0:
                self.early.append(frame)
        self.needs_history = self.needs_history or bool(self.early) or len(self._shown) < len(self.chunks)

    def history(self, history: StreamHistory) -> None:
        """Take in the answer to a call for the history."""
        metadata = history["metadata"]
        if metadata is None or metadata.get("restarts", 0) < self.restarts:
            return
        if metadata.get("restarts", 0) > self.restarts:
            self.restarts, self.chunks, self.solid = metadata.get("restarts", 0), {}, -1
        for chunk in history["chunks"]:
            self._add(chunk["index"], chunk["content"])
            self.solid = max(self.solid, chunk["index"])
        if metadata["status"] != "streaming":
            self.status, self.error = metadata["status"], metadata.get("error")
        self.needs_history = len(self._shown) < len(self.chunks)
        early, self.early = self.early, []
        for frame in early:
            self.frame(frame)

    def _add(self, index: int, text: str) -> None:
        if index not in self.chunks:
            self.chunks[index] = text
            self.applied += 1

    @property
    def _shown(self) -> list[int]:
        """The indexes up to the first gap: what is behind it waits for what is missing."""
        shown: list[int] = []
        for index in sorted(self.chunks):
            if index - 1 > max(self.solid, shown[-1] if shown else -1):
                break
            shown.append(index)
        return shown

    @property
    def text(self) -> str:
        return "".join(self.chunks[index] for index in self._shown)
