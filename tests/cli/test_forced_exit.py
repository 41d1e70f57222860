"""Real processes that are told to stop while something in them hangs: they are gone in time all the same."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.cli.kit import Running, running

pytestmark = pytest.mark.crash

APP = """
import asyncio, threading
from everyword import AIChatAgent, Agent, Everyword, Principal, tool

async def hangs():
    while True:
        try:
            print("it hangs", flush=True)
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass

class Chat(AIChatAgent):
    async def on_chat_message(self, turn):
        yield "One, "
        async for step in turn.steps():
            async for chunk in step.run(call(self.messages[-1].text)):
                yield chunk

    @tool
    async def awaits(self) -> str:
        await hangs()

    @tool
    async def blocks(self) -> str:
        print("it hangs", flush=True)
        while not threading.Event().wait(0.05):
            pass  # a signal that comes right before one long call would be heard after it

    @tool
    def threads(self) -> str:
        print("it hangs", flush=True)
        threading.Event().wait()

class Slow(Agent):
    async def on_start(self):
        await hangs()

async def call(name):
    yield {{"type": "tool-input-available", "toolCallId": "k1", "toolName": name, "input": {{}}}}

async def authorize(connecting):
    if connecting.name == "stranger":
        await hangs()
    return Principal("ann")

app = Everyword([Chat, Slow], store="log.db", authorize=authorize)
app.grace = {grace}
"""
QUESTION = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": ""}]}
GONE = (0, 1, -signal.SIGTERM, -signal.SIGINT, 130)
LONG = 600.0


def process(folder: Path, grace: float) -> object:
    (folder / "app.py").write_text(APP.format(grace=grace), encoding="utf-8")
    return running("serve", "app.py", "--port", "0", folder=folder)


async def make_it_hang(server: Running, how: str) -> list[asyncio.Task[httpx.Response] | asyncio.StreamWriter]:
    """Let a request hang, and return what keeps it open."""
    url = await server.url()
    if how == "body":
        host, _, port = url.removeprefix("http://").rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = f"POST /agents/chat/ann/chat HTTP/1.1\r\nHost: {host}:{port}\r\n"
        writer.write(f"{head}Expect: 100-continue\r\nContent-Length: 100\r\n\r\n".encode())
        await reader.readuntil(b"100 Continue")
        return [writer]
    client = httpx.AsyncClient(base_url=f"{url}/agents", timeout=None)
    if how in ("awaits", "blocks", "threads"):
        question = {**QUESTION, "parts": [{"type": "text", "text": how}]}
        asking = client.post("chat/ann/chat", json={"messages": [question]})
    else:
        asking = client.get({"authorize": "chat/stranger/get-messages", "start": "slow/one/odd"}[how])
    task = asyncio.create_task(asking)
    await server.until("it hangs")
    return [task]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("how", ["body", "authorize", "start", "awaits", "blocks", "threads"])
async def test_a_process_is_gone_soon_after_its_grace_whatever_hangs(
    tmp_path: Path, how: str, number: signal.Signals
) -> None:
    async with process(tmp_path, 0.1) as server:  # type: ignore[attr-defined]
        kept = await make_it_hang(server, how)
        server.process.send_signal(number)
        assert await server.ended() in GONE
        for each in kept:
            if isinstance(each, asyncio.Task):
                await asyncio.wait([each])
                each.exception()
            else:
                each.close()
    with closing(sqlite3.connect(tmp_path / "log.db")) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("how", ["authorize", "awaits", "blocks"])
async def test_a_second_signal_ends_the_process_at_once(tmp_path: Path, how: str, number: signal.Signals) -> None:
    async with process(tmp_path, LONG) as server:  # type: ignore[attr-defined]
        (kept,) = await make_it_hang(server, how)
        server.process.send_signal(number)
        server.process.send_signal(signal.SIGTERM if number is signal.SIGINT else signal.SIGINT)
        assert await server.ended() in (128 + signal.SIGTERM, 128 + signal.SIGINT)
        assert isinstance(kept, asyncio.Task)
        await asyncio.wait([kept])
        kept.exception()
