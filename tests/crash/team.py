"""A process that is killed while an agent works as a tool of another: what the worker did is counted in a file.

Arguments: the log, the file of effects, how the worker lives, the base class, and what to do: `ask`, `stop`, `settle`.
In a life of `work` the worker does what it is asked, in one of `hang` it stops in the middle, and in one of `die` it
kills the process. It says what it has seen, line by line: `at work`, `stopped`, `settled`.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar

from everyword import TurnLimits
from everyword.agents import responder_for
from everyword.agents.agent_tools import agent_tool
from everyword.agents.sub_agent_classes import class_of
from everyword.core.commands import CancelTurns, Submit
from everyword.core.state import State
from everyword.ids import AgentId, MessageId, RequestId, sub_agent_id
from everyword.log.sqlite.store import SqliteLog
from everyword.messages.tool_calls import tool_parts
from everyword.runtime.agent_runtime.agent_runtime import AgentRuntime
from everyword.runtime.directory import Directory, LoadedAgent, Settings
from tests.agents.bases import Asked, answering

LEAD = AgentId("lead/ann")
WORKER = sub_agent_id(LEAD, "worker", "agent-tool:k")
LIFETIME = 60.0
"""Seconds after which a forgotten process goes by itself."""


class Worker:
    """Says two words, and writes each of its attempts down."""

    turn_limits = TurnLimits(max_attempts=3)
    is_plain = True
    effects: ClassVar[Path]
    life: ClassVar[str]
    name: str

    async def reply(self, asked: Asked) -> AsyncIterator[Any]:
        with self.effects.open("a", encoding="utf-8") as file:
            file.write(f"attempt {asked.turn.attempt} of {self.name}\n")
        if asked.answer is None or "half" not in asked.answer.text:
            yield "half "
        await asked.turn._call.message()
        report("at work")
        if self.life == "hang":
            await asyncio.Event().wait()
        if self.life == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        yield {"type": "message-metadata", "messageMetadata": {"usage": {"outputTokens": 2}}}
        yield "whole"


class Lead:
    """Lets a worker do what it is asked, and says what it was told of that."""

    async def reply(self, asked: Asked) -> AsyncIterator[Any]:
        calls = list(tool_parts(asked.answer)) if asked.answer is not None else []
        if calls:
            yield f"{calls[0].get('output', calls[0].get('errorText'))}"
        else:
            yield {"type": "tool-input-available", "toolCallId": "k", "toolName": "worker", "input": {"input": "go"}}


def team(base: str) -> type[Any]:
    """Return a lead of this base class, whose workers are of it, too."""
    lead = answering(base, Lead)
    lead.tools = [agent_tool(answering(base, Worker), description="Works.")]  # type: ignore[attr-defined]
    return lead


def report(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def _is_busy(state: State) -> bool:
    return bool(state.open) or any(run.is_open for run in state.runs.values())


async def live(path: str, base: str, action: str) -> None:
    directory: Directory
    lead = team(base)

    def responder(agent: AgentId) -> Any:
        cls = class_of(agent, {"lead": lead})
        assert cls is not None
        return responder_for(cls, AgentRuntime(directory, agent))

    directory = Directory(SqliteLog(path), responder, settings=Settings(grace=0.0))
    async with asyncio.timeout(LIFETIME), directory, directory.attach(LEAD) as loaded:
        if action == "ask":
            question = {"id": "u", "role": "user", "parts": [{"type": "text", "text": "go"}]}
            await loaded.actor.ask(Submit(RequestId("r"), MessageId("a"), [question]))
        if action == "stop":
            await loaded.actor.insist(CancelTurns(RequestId("r")))
            report("stopped")
        await settle(loaded)
        report("settled")
        await asyncio.Event().wait()


async def settle(loaded: LoadedAgent) -> None:
    async with loaded.subscribe() as subscription:
        while await loaded.actor.inspect(_is_busy):
            await subscription.next()


def main(log: str, file: str, how: str, named: str, act: str) -> None:
    Worker.effects, Worker.life = Path(file), how
    asyncio.run(live(log, named, act))
