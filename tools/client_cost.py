"""Measure what clients cost a server: `python -m tools.client_cost`.

Starts `everyword serve` once for each row, opens raw sockets that misbehave in one way, and prints how much memory the
server needed for them at most. The table in docs/how-to/deploy.md has these numbers.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import re
import struct
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
MIB: Final = 1024 * 1024
ANSWER: Final = 44 * 100_000
"""Bytes of the answer that clients resume."""
REPLY: Final = MIB
QUIET: Final = 5.0
"""Seconds without growth after which the server has taken what it takes."""

APP: Final = """
import dataclasses
from everyword import AIChatAgent, Everyword, Limits, callable

WANTED = {"sockets_per_agent": 10_000, "sockets_per_principal": 10_000}
KNOWN = {field.name for field in dataclasses.fields(Limits)}


class Chat(AIChatAgent):
    async def on_chat_message(self, turn):
        for _ in range(ANSWER // 44):
            yield "forty-four bytes of an answer, word by word. "[:44]
        await turn.cancelled

    @callable
    def big(self):
        return "x" * REPLY


app = Everyword([Chat], store="chats.db", limits=Limits(**{k: v for k, v in WANTED.items() if k in KNOWN}))
"""


class Client:
    """A raw WebSocket, which reads nothing unless it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def connect(cls, port: int) -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=64 * 1024)
        key = base64.b64encode(os.urandom(16)).decode()
        writer.write(
            f"GET /agents/chat/ann HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        await reader.readuntil(b"\r\n\r\n")
        return cls(reader, writer)

    def send(self, **frame: object) -> None:
        payload = json.dumps(frame).encode()
        self._writer.write(struct.pack("!BBH4x", 0x81, 0xFE, len(payload)) + payload)

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def begin(self, size: int) -> None:
        """Announce a frame and send all of it but the last byte; stop where the server closes."""
        self._writer.write(struct.pack("!BBQ4x", 0x81, 0xFF, size))
        piece = b"x" * 65536
        try:
            for _ in range(size // len(piece) - 1):
                self._writer.write(piece)
                await self._writer.drain()
            self._writer.write(b"x" * (len(piece) - 1))
            await self._writer.drain()
        except OSError:
            return

    async def until(self, text: bytes) -> None:
        seen = b""
        while text not in seen:
            seen = seen[-256:] + await self._reader.read(65536)

    def close(self) -> None:
        self._writer.transport.abort()


async def resuming(port: int, count: int) -> list[Client]:
    """Ask for a long answer, wait until all of it is there, and have everybody resume it."""
    asker = await Client.connect(port)
    message = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "go"}]}
    init = {"method": "POST", "body": json.dumps({"messages": [message]})}
    asker.send(type="cf_agent_use_chat_request", id="r1", init=init)
    await asker.until(b'"seq":%d' % (ANSWER // 44))
    clients = await asyncio.gather(*(Client.connect(port) for _ in range(count)))
    for client in clients:
        client.send(type="cf_agent_stream_resume_ack", id="r1")
    return [asker, *clients]


async def unfinished(port: int, count: int) -> list[Client]:
    """Have everybody send a frame of the largest size that is taken, without its end."""
    clients = await asyncio.gather(*(Client.connect(port) for _ in range(count)))
    await asyncio.gather(*(client.begin(128 * MIB if IS_BEFORE else 32 * MIB) for client in clients))
    return list(clients)


async def not_reading(port: int, count: int) -> list[Client]:
    """Have everybody call a method with a large result, many times, and read nothing."""
    clients = await asyncio.gather(*(Client.connect(port) for _ in range(count)))
    for call in range(64):
        for client in clients:
            client.send(type="rpc", id=f"c{call}", method="big", args=[])
        await asyncio.sleep(0.02)
    return list(clients)


async def no_handshake(port: int, count: int) -> list[Client]:
    """Have everybody begin a request for a socket, with long headers, and never end it."""
    clients = [Client(*await asyncio.open_connection("127.0.0.1", port)) for _ in range(count)]
    for client in clients:
        client.write(b"GET /agents/chat/ann HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 50_000)
    return clients


IS_BEFORE = "--before" in sys.argv
Misbehaving = Callable[[int, int], Awaitable[list[Client]]]
ROWS: Final[dict[str, tuple[Misbehaving, int]]] = {
    "clients that resume an answer of 4.4 MB and read nothing": (resuming, 500),
    "sockets with a frame that is all there but its last byte": (unfinished, 12),
    "sockets that call for 64 MiB of replies and read none": (not_reading, 40),
    "connections that never finish their handshake": (no_handshake, 1000),
}


def memory(pid: int, what: str) -> int:
    found = re.search(rf"{what}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="ascii"))
    assert found is not None
    return int(found.group(1)) * 1024


async def settled(pid: int, quiet: float) -> int:
    """Wait until the server needs no more than it did `quiet` seconds before; return the most that it needed."""
    before = -1
    while (now := memory(pid, "VmHWM")) != before:
        before = now
        await asyncio.sleep(quiet)
    return now


def write_app(folder: Path) -> None:
    (folder / "app.py").write_text(f"ANSWER = {ANSWER}\nREPLY = {REPLY}\n{APP}", encoding="utf-8")


async def measure(run: Misbehaving, count: int, quiet: float = QUIET) -> tuple[int, int]:
    """Return how much memory the server had with nobody there, and at most."""
    with tempfile.TemporaryDirectory() as folder:
        write_app(Path(folder))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "everyword", "serve", "app.py", "--port", "0"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        )
        clients: list[Client] = []
        try:
            assert process.stdout is not None
            greeting = (await process.stdout.readline()).decode()
            port = int(greeting.rsplit(":", 1)[1])
            idle = memory(process.pid, "VmRSS")
            clients = await run(port, count)
            return idle, await settled(process.pid, quiet)
        finally:
            for client in clients:
                client.close()
            process.kill()
            await process.wait()


async def main(only: str) -> None:
    for name, (run, count) in ROWS.items():
        if only in name:
            idle, most = await measure(run, count)
            took = (most - idle) / MIB
            print(f"| {count} {name} | {took:,.0f} MiB | {took / count:.2f} MiB each |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="measure the rows whose name has this in it")
    parser.add_argument("--before", action="store_true", help="send frames of 128 MiB, which servers once took")
    asyncio.run(main(parser.parse_args().only))
