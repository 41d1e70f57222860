"""Running the command as a process of its own, and waiting for what it says."""

from __future__ import annotations

import asyncio
import io
import os
import re
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import asyncpg
import httpx

from everyword.agents import AIChatAgent
from everyword.ids import AgentId
from everyword.log.postgres.store import PostgresLog
from everyword.testing import Gate
from tests.server.kit import PATIENCE, ask, chat, question, scripted

ROOT = Path(__file__).resolve().parents[2]


class Running:
    """An `everyword` process; `url` once it has said where it is."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.said = ""

    async def until(self, pattern: str) -> str:
        """Read what it says until a line matches; return the match."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            while True:
                found = re.search(pattern, self.said)
                if found is not None:
                    return found.group()
                line = (await self.process.stdout.readline()).decode()
                assert line, f"it ended without a match for {pattern!r}: {self.said}"
                self.said += line

    async def until_piece(self, text: str) -> None:
        """Read until this was said, in a line that may not be over."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            while text not in self.said:
                piece = await self.process.stdout.read(1024)
                assert piece, f"it ended without {text!r}: {self.said}"
                self.said += piece.decode()

    async def url(self) -> str:
        return await self.until(r"http://\S+:\d+")

    async def ended(self) -> int:
        async with asyncio.timeout(PATIENCE):
            return await self.process.wait()


@asynccontextmanager
async def running(*arguments: str, folder: Path | None = None) -> AsyncIterator[Running]:
    """Run `everyword` with these arguments; whatever happens, it is gone afterwards."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "everyword", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(ROOT)])},
    )
    try:
        yield Running(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


ESCAPE = "\033[31mred\033[0m\a"
"""What a terminal would obey, if it were let."""

PAY: list[Any] = [
    {"type": "tool-input-available", "toolCallId": "k1", "toolName": "pay", "input": {"sum": 7}},
    {"type": "tool-approval-request", "toolCallId": "k1", "approvalId": "a1"},
]
LOOK: list[Any] = [
    {"type": "tool-input-available", "toolCallId": "k2", "toolName": "look", "input": {"at": "sea"}},
    {"type": "tool-output-available", "toolCallId": "k2", "output": {"sky": "clear"}},
    {"type": "data-chart", "data": [1, 2]},
    {"type": "source-url", "sourceId": "s1", "url": "https://example.org", "title": "A source"},
    "It is clear.",
]


def speaker(gate: Gate | None = None) -> type[AIChatAgent]:
    """Return an agent whose turns go as their request ids say; `stay` stops at the gate."""
    scripts: dict[str, list[Any]] = {
        "fail": ["Hel", ValueError("the inside of it")],
        "pay": PAY,
        "look": LOOK,
        "stay": ["Hel", gate if gate is not None else "lo"],
        "escape": [f"a {ESCAPE} word"],
    }
    return scripted(lambda turn: scripts.get(turn.id, ["Hello, ", "you ", "there"]))


async def converse(path: Path) -> None:
    """Leave a store behind with turns that ended in every way, one that did not, versions and a clear."""
    gate = Gate()
    app = chat(speaker(gate), store=str(path))
    async with app, httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:

        async def turn(name: str, question_id: str, text: str, key: str | None = None) -> None:
            client.base_url = httpx.URL(f"http://localhost/agents/chat/{name}")
            await ask(client, question(question_id, text), **({} if key is None else {"idempotency_key": key}))

        await turn("ann", "u1", "hello")
        await turn("ann", "u1", "hello again")
        await turn("ann", "u2", "look", "look")
        await turn("ann", "u3", "fail", "fail")
        await turn("bob", "u1", "pay", "pay")
        await turn("dan", "u1", "hello")
        await app.get(next(iter(app.classes.values())), "dan").clear_history()
        await turn("dan", "u2", "escape", "escape")
        client.base_url = httpx.URL("http://localhost/agents/chat/cid")
        headers = {"prefer": "respond-async", "idempotency-key": "stay"}
        await client.post("chat", json=question("u1"), headers=headers)
        await gate.reached.wait()


def damage(path: Path, *statements: str) -> None:
    """Do to a store what no program of ours does."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TRIGGER IF EXISTS turn_ends_once")
        for statement in statements:
            connection.execute(statement)
        connection.commit()


async def execute(url: str, *statements: str) -> None:
    """Do to a database what no program of ours does. `{}` stands for its schema."""
    server, _, schema = url.rpartition("&schema=")
    connection = await asyncpg.connect(server)
    try:
        for statement in statements:
            await connection.execute(statement.replace("{}", schema))
    finally:
        await connection.close()


@asynccontextmanager
async def owned(url: str, agent: str) -> AsyncIterator[None]:
    """Let the node `web-1` own an agent while the block runs."""
    node = PostgresLog(url, name="web-1", link_url="10.0.0.1:4000")
    await node.open()
    try:
        await node.activate(AgentId(agent))
        yield
    finally:
        await node.aclose()


class Paper(io.StringIO):
    """A stream to write to, with a reader."""

    def __init__(self) -> None:
        super().__init__()
        self._written = asyncio.Event()

    def write(self, text: str) -> int:
        self._written.set()
        return super().write(text)

    async def until(self, pattern: str) -> None:
        """Wait until what was written matches."""
        async with asyncio.timeout(PATIENCE):
            while not re.search(pattern, self.getvalue()):
                self._written.clear()
                await self._written.wait()


class Tty(io.StringIO):
    """A terminal that keeps what was written to it."""

    def isatty(self) -> bool:
        return True
