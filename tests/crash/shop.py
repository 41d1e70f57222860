"""A process that is killed while its tools have effects in a file: the file is the world, and says what happened.

Run as a program it is a nursery: every line on its input, a list of arguments as JSON, begets one process. Arguments:
the base class, the log, the file of effects, how it lives, and what to do: `ask QUESTION`, `then QUESTION` for a second
one, `approve CALL`, or `settle`.
In a life of `work` tools answer after their effect, in one of `hang` they never do, and in one of `still` no time
passes, so that nothing that was answered goes on. It says what it has seen, line by line: `did TOOL`, `asks`,
`answered`, `settled`; the nursery says `pid N` and `dead`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar

from everyword.agents import responder_for
from everyword.agents.tools import ToolContext, tool
from everyword.core.commands import AnswerToolCall, Submit
from everyword.core.state import State
from everyword.events import CallAnswered
from everyword.ids import AgentId, CallId, MessageId, RequestId
from everyword.log.sqlite.store import SqliteLog
from everyword.messages.message import UIMessage
from everyword.messages.tool_calls import ApprovalAnswer, open_calls, tool_parts
from everyword.runtime.agent_runtime.agent_runtime import AgentRuntime
from everyword.runtime.clock import Clock, SystemClock
from everyword.runtime.directory import Directory, LoadedAgent, Settings
from everyword.testing import ManualClock
from tests.agents.bases import Asked, answering

AGENT = AgentId("shop/ann")
LIFETIME = 60.0
"""Seconds after which a forgotten process goes by itself."""


class Shop:
    """Does what it is asked with one tool of that name, then says what became of it."""

    effects: ClassVar[Path]
    hangs: ClassVar[bool]

    async def reply(self, asked: Asked) -> AsyncIterator[Any]:
        calls = list(tool_parts(asked.messages[-1]))
        if calls:
            yield "; ".join(f"{part['state']}: {part.get('output', part.get('errorText'))}" for part in calls)
        else:
            name = asked.question
            yield {"type": "tool-input-available", "toolCallId": f"k-{name}", "toolName": name, "input": {}}

    async def _do(self, name: str, context: ToolContext) -> str:
        with self.effects.open("a", encoding="utf-8") as file:
            file.write(f"{name} {context.idempotency_key}\n")
        report(f"did {name}")
        if self.hangs:
            await asyncio.Event().wait()
        return "done"

    @tool
    async def send(self, context: ToolContext) -> str:
        return await self._do("send", context)

    @tool(idempotent=True)
    async def look(self, context: ToolContext) -> str:
        return await self._do("look", context)

    @tool(needs_approval=True)
    async def refund(self, context: ToolContext) -> str:
        return await self._do("refund", context)


def report(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def _is_busy(state: State) -> bool:
    return bool(state.open)


def _asks(state: State) -> bool:
    last = state.tree.shown_path()[-1][1].shown
    return last is not None and bool(open_calls(UIMessage.decode(last)))


async def live(base: str, path: str, clock: Clock, action: str, what: str) -> None:
    shop = answering(base, Shop)
    directory: Directory
    directory = Directory(
        SqliteLog(path),
        lambda agent: responder_for(shop, AgentRuntime(directory, agent)),
        clock=clock,
        settings=Settings(grace=0.0),
    )
    async with asyncio.timeout(LIFETIME), directory, directory.attach(AGENT) as loaded:
        if action in ("ask", "then"):
            number = 1 if action == "ask" else 3
            question = {"id": f"u{number}", "role": "user", "parts": [{"type": "text", "text": what}]}
            await loaded.actor.ask(Submit(RequestId(f"r{number}"), MessageId(f"a{number}"), [question]))
        if action == "approve":
            events = await loaded.actor.ask(AnswerToolCall(CallId(what), ApprovalAnswer(True), RequestId("r2")))
            report("answered" if any(isinstance(event, CallAnswered) for event in events) else "refused")
        await settle(loaded)
        report("asks" if await loaded.actor.inspect(_asks) else "settled")
        await asyncio.Event().wait()


async def settle(loaded: LoadedAgent) -> None:
    async with loaded.subscribe() as subscription:
        while await loaded.actor.inspect(_is_busy):
            await subscription.next()


def nurse() -> None:
    for line in sys.stdin:
        # Nothing but modules was made so far: no thread, no loop, no file that a child could inherit.
        pid = os.fork()
        if pid == 0:
            base, log, file, how, act, *rest = json.loads(line)
            Shop.effects, Shop.hangs = Path(file), how == "hang"
            clock = ManualClock() if how == "still" else SystemClock()
            asyncio.run(live(base, log, clock, act, rest[0] if rest else ""))
            os._exit(0)
        report(f"pid {pid}")
        os.waitpid(pid, 0)
        report("dead")


if __name__ == "__main__":
    nurse()
