"""The process that is killed: a file, agents of both base classes that never stop talking, a socket that shows it.

Run as a program it is a nursery: everything is imported once, and every line on its input (`talk` or `finish`) begets
one process, which opens the file from scratch. On its output it says `pid N`, `ready`, `settled N` and `dead`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import struct
import sys
from collections.abc import AsyncIterator
from typing import ClassVar

from everyword.agents import SaveMessagesResult, Turn, responder_for
from everyword.core.commands import Submit
from everyword.core.state import State
from everyword.errors import AgentStopped
from everyword.events import encode_event
from everyword.ids import AgentId, MessageId, RequestId, Seq
from everyword.log.sqlite.store import SqliteLog
from everyword.runtime.agent_runtime.agent_runtime import AgentRuntime
from everyword.runtime.directory import Directory, LoadedAgent, Settings
from tests.agents.bases import BASES, Asked, answering

AGENTS = [AgentId(f"chat/{name}") for name in ("ann", "bob", "cleo", "dan", "eve", "fay", "gus", "hal")]
HEADER = struct.Struct(">HQI")
"""What goes before every body: the agent's place in AGENTS, the seq, the length."""

WORDS = [f"word{n} " for n in range(30)]
ANSWER = "".join(WORDS)
LIFETIME = 100.0
"""Seconds after which a forgotten process goes by itself."""


class Talker:
    """Says the same words in every turn, one commit at a time, going on where an earlier attempt was cut off."""

    max_persisted_messages = 8
    directory: ClassVar[Directory]

    async def reply(self, asked: Asked) -> AsyncIterator[str]:
        said = len(asked.answer.text) if asked.answer is not None else 0
        for word in WORDS[len(ANSWER[:said].split()) :]:
            yield word

    async def said(self, turn: Turn) -> None:
        loaded = self.directory.peek(turn._call.agent)
        if loaded is not None:
            await loaded.actor.inspect(_count_open)  # answered when what was written before is committed

    async def on_chat_response(self, result: SaveMessagesResult) -> None:
        """Have a hook, so that it has to be called."""


TALKERS = [answering(base, Talker) for base in BASES]


async def live(path: str, address: str, *, is_last: bool) -> None:
    """Serve until killed; in the last life ask nothing new, say when every turn has ended, and leave when told to."""
    directory: Directory
    directory = Directory(
        SqliteLog(path),
        lambda agent: responder_for(TALKERS[AGENTS.index(agent) % len(TALKERS)], AgentRuntime(directory, agent)),
        settings=Settings(grace=0.0),
    )
    Talker.directory = directory
    leave = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leave.set)
    async with asyncio.timeout(LIFETIME), directory:
        readers = set[asyncio.Task[None]]()

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(show(directory, reader, writer))
            readers.add(task)
            task.add_done_callback(readers.discard)

        async with asyncio.TaskGroup() as tasks:
            server = await asyncio.start_unix_server(connected, address)
            report("ready")
            if is_last:
                heads = await asyncio.gather(*(settle(directory, agent) for agent in AGENTS))
                report(f"settled {sum(heads)}")
            askers = [] if is_last else [tasks.create_task(ask_on(directory, agent)) for agent in AGENTS]
            await leave.wait()
            server.close()
            for task in [*askers, *readers]:
                task.cancel()


async def show(directory: Directory, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Show one agent's committed events after a cursor to one connection, for ever."""
    place, cursor = map(int, (await reader.readline()).split())
    try:
        async with directory.attach(AGENTS[place]) as loaded, loaded.subscribe(Seq(cursor)) as subscription:
            while True:
                for committed in await subscription.next():
                    body = encode_event(committed.event)
                    writer.write(HEADER.pack(place, committed.seq, len(body)) + body)
                await writer.drain()
    except (AgentStopped, ConnectionError):
        pass
    finally:
        writer.close()


async def ask_on(directory: Directory, agent: AgentId) -> None:
    """Keep one turn running and one waiting."""
    async with directory.attach(agent) as loaded, loaded.subscribe() as subscription:
        while True:
            last = await loaded.actor.inspect(lambda state: state.last_turn)
            if await loaded.actor.inspect(_count_open) < 2:
                await ask(loaded, last + 1)
            else:
                await subscription.next()


async def ask(loaded: LoadedAgent, number: int) -> None:
    question = {"id": f"u{number}", "role": "user", "parts": [{"type": "text", "text": "go on"}]}
    await loaded.actor.ask(Submit(RequestId(f"r{number}"), MessageId(f"a{number}"), [question]))


async def settle(directory: Directory, agent: AgentId) -> Seq:
    """Wait until nothing is open and no hook is due; return the head of the log."""
    async with directory.attach(agent) as loaded, loaded.subscribe() as subscription:
        while await loaded.actor.inspect(_is_busy):
            await subscription.next()
        return loaded.actor.tail.head


def _count_open(state: State) -> int:
    return len(state.open)


def _is_busy(state: State) -> bool:
    return bool(state.open) or any(turn.hook_due for turn in state.ended.values())


def report(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def nurse(path: str, address: str) -> None:
    for line in sys.stdin:
        # Nothing but modules was made so far: no thread, no loop, no file that a child could inherit.
        pid = os.fork()
        if pid == 0:
            asyncio.run(live(path, address, is_last=line.strip() == "finish"))
            os._exit(0)
        report(f"pid {pid}")
        os.waitpid(pid, 0)
        report("dead")


if __name__ == "__main__":
    nurse(*sys.argv[1:])
