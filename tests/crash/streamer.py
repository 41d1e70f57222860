"""Managed streams under processes that die: the script that people follow, and a server that can be killed.

Run as a program it is a nursery: everything is imported once, and every line on its input begets one process, which
serves one file on one port until it is killed. On its output it says `pid N`, `ready` and `dead`.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from typing import Any, ClassVar

import uvicorn

from everyword import Everyword
from everyword.agents.chat_responder import responder_for
from everyword.agents.streams.stream_manager import GenerateAIResponseOptions
from everyword.events import ChatCleared
from everyword.ids import AgentId
from everyword.log.base import LogStore
from everyword.runtime.agent_runtime.agent_runtime import AgentRuntime
from everyword.runtime.directory import Directory
from tests.agents.streams.kit import Talk, until, words
from tests.crash.world import Person, Step, World
from tests.runtime.kit import QUICK

__all__ = ["LONG", "SCRIPT", "Speaker", "speaking"]

LONG = [f"word{number} " for number in range(60)]


class Speaker(Talk):
    """Says the question again; `is_fickle` makes it say other words at each attempt."""

    is_fickle: ClassVar[bool] = False
    newest: ClassVar[Speaker | None] = None

    def __init__(self, port: Any) -> None:
        super().__init__(port)
        type(self).newest = self

    async def on_start(self) -> None:
        # Without the tables: a thread that takes its time would change how many commits there are.
        await self.streams.load_and_sync_messages()

    async def generate_ai_response(self, options: GenerateAIResponseOptions) -> str:
        said = []
        for number, word in enumerate(words(options)):
            if word == "fail":
                raise RuntimeError("as it was asked to")
            said.append(f"{word}{options.attempt if self.is_fickle and number else ''} ")
            await options.process_chunk(said[-1])
        return "".join(said)


def speaking(world: World, store: LogStore) -> Directory:
    """Return what runs in one process."""

    def responder(agent: AgentId) -> Any:
        return responder_for(Speaker, AgentRuntime(directory, agent))

    directory = Directory(store, responder, clock=world.clock, settings=QUICK)
    return directory


def agent() -> Speaker:
    assert Speaker.newest is not None
    return Speaker.newest


# -- the script: every step may be run again after the process died in the middle of it --------------------------------


def send(*questions: str) -> Step:
    async def step(person: Person) -> None:
        for question in questions:
            there = [message["content"] for message in await agent().streams.load_messages()]
            if question not in there:
                await agent().streams.send_message(question)

    return step


async def settle(person: Person) -> None:
    """Wait until every stream has ended and the state says so."""

    async def is_settled() -> bool:
        if await agent()._runtime.storage.streams.open() or await agent().jobs.list(queued=True):
            return False
        state = agent().state
        return state["activeStreamId"] is None and state["messages"] == await agent().streams.load_messages()

    await until(is_settled)


async def clear(person: Person) -> None:
    await person.catch_up()  # a clear has no id: whether it happened must be read
    if not person.world.has(ChatCleared):
        await agent().streams.clear_history()
        await person.until(lambda: person.world.has(ChatCleared))
    await agent().set_state(agent().initial_state)


async def forget(person: Person) -> None:
    await agent().streams.cleanup_old_streams(0)


SCRIPT: list[Step] = [
    send("one two three"),
    settle,
    send("four fail", "five six", "seven"),
    settle,
    forget,
    send("eight nine"),
    clear,
    send("ten eleven twelve", "thirteen fail"),
    settle,
]


# -- the server that is killed ---------------------------------------------------------------------------------------


class _Announced(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        os.write(1, b"ready\n")


def serve(path: str, port: str) -> None:
    Talk.script.say = lambda options: [word.strip() for word in LONG]
    config = uvicorn.Config(
        Everyword([Talk], store=path), log_level="warning", access_log=False, ws="websockets-sansio"
    )
    listener = socket.create_server(("127.0.0.1", int(port)), backlog=128)
    asyncio.run(_Announced(config).serve(sockets=[listener]))


def nurse(path: str, port: str) -> None:
    for _ in sys.stdin:
        # Nothing but modules was made so far: no thread, no loop, no file that a child could inherit.
        pid = os.fork()
        if pid == 0:
            serve(path, port)
            os._exit(0)
        os.write(1, f"pid {pid}\n".encode())
        os.waitpid(pid, 0)
        os.write(1, b"dead\n")


if __name__ == "__main__":
    nurse(*sys.argv[1:])
