"""A client that does not read costs a cursor and a socket's buffer, whatever it misses (I-11)."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from everyword.messages.sse import SseParser
from tests.server.flood import BLOB, BLOBS
from tests.server.kit import PATIENCE, ask, connect, folded, question, text_of

ROOT = Path(__file__).resolve().parents[2]
SLOW = 4
FLOODED = 60.0
"""Seconds in which 50 MB must have reached a client that reads."""
ALLOWED = 30 * 1024 * 1024
"""Bytes that the server may need for clients that have not read 200 MB."""


@asynccontextmanager
async def flooding(folder: Path) -> AsyncIterator[str]:
    """Run the application in a process of its own; yield the URL of one of its agents."""
    script = f"import sys; sys.argv = ['x', '--', {str(folder / 'log.db')!r}]\nfrom tests.server.flood import app\n"
    (folder / "app.py").write_text(script, encoding="utf-8")
    command = [sys.executable, "-m", "everyword", "serve", str(folder / "app.py"), "--port", "0"]
    path = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path}
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, env=environment)
    try:
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            greeting = (await process.stdout.readline()).decode()
        found = re.search(r"http://\S+", greeting)
        assert found is not None, greeting
        yield f"{found.group()}/agents/flood/ann"
    finally:
        process.kill()
        await process.wait()


class Digest:
    """What a reader got: how many chunks, in which order, and a fingerprint of all bytes."""

    def __init__(self) -> None:
        self._parser, self._hash = SseParser(), hashlib.sha256()
        self.next_id = 0
        self.is_done = False

    async def read(self, response: httpx.Response) -> Digest:
        async for piece in response.aiter_raw():
            self._hash.update(piece)
            for event in self._parser.feed(piece):
                if event.data == "[DONE]":
                    self.is_done = True
                else:
                    assert event.id == str(self.next_id)
                    self.next_id += 1
        return self

    @property
    def fingerprint(self) -> str:
        return self._hash.hexdigest()


async def peak(client: httpx.AsyncClient, number: int) -> int:
    """Ask the server how much memory it has needed so far, at most."""
    return int(text_of(folded((await ask(client, question(f"m{number}", "memory"))).chunks)))


async def flood(client: httpx.AsyncClient, key: str, slow: int) -> list[Digest]:
    """Stream 50 MB to one client that reads and to some that do not; then let those read as well."""
    wish = {"prefer": "respond-async"}
    for what in ("hold", "flood"):
        asked = question(f"{key}-{what}", what)
        await client.post("chat", json=asked, headers={**wish, "idempotency-key": f"{key}-{what}"})
    path = f"chat/stream?request={key}-flood"
    async with AsyncExitStack() as stack:
        fast = await stack.enter_async_context(client.stream("GET", path, timeout=FLOODED))
        sleepers = [await stack.enter_async_context(_not_reading(client, path)) for _ in range(slow)]
        stopped = await client.post("chat/stop", json={"requestId": f"{key}-hold"})
        assert stopped.json() == {"stopped": [f"{key}-hold"]}
        async with asyncio.timeout(FLOODED):
            digests = [await Digest().read(fast)]
        assert digests[0].is_done  # while no other client has read anything
        for sleeper in sleepers:
            async with asyncio.timeout(FLOODED):
                digests.append(await Digest().read(sleeper))
    return digests


@asynccontextmanager
async def _not_reading(client: httpx.AsyncClient, path: str) -> AsyncIterator[httpx.Response]:
    """Open a stream over a socket with little room, and leave it alone."""
    options: list[Any] = [(socket.SOL_SOCKET, socket.SO_RCVBUF, 128 * 1024)]
    transport = httpx.AsyncHTTPTransport(verify=False, socket_options=options)
    async with (
        httpx.AsyncClient(transport=transport, base_url=client.base_url, timeout=FLOODED) as own,
        own.stream("GET", path) as response,
    ):
        assert response.status_code == 200
        yield response


@pytest.mark.slow
async def test_clients_that_do_not_read_cost_no_memory_and_get_everything_later(tmp_path: Path) -> None:
    """P-11."""
    async with flooding(tmp_path) as url, connect(url) as client:
        await flood(client, "first", slow=0)
        before = await peak(client, 1)
        digests = await flood(client, "second", slow=SLOW)
        after = await peak(client, 2)
    assert len(digests) == 1 + SLOW
    assert {digest.next_id for digest in digests} == {digests[0].next_id}
    assert digests[0].next_id >= BLOBS
    assert {digest.fingerprint for digest in digests} == {digests[0].fingerprint}
    assert SLOW * BLOBS * len(BLOB) > 6 * ALLOWED
    assert after - before < ALLOWED, f"{(after - before) / 2**20:.1f} MB"
