"""How an answer is stored after its server was killed: `make bench-recovery`, or with `SERVERS=peer KILLS=1`.

A server streams one answer, is killed with `kill -9` and restarted, KILLS times (3), and then finishes the answer. The
report has the number of assistant messages and text parts that `get-messages` returns, and two counts of chunks: those
that a client had received and that are missing from the stored answer, and those that are stored twice.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.client import connect, question
from benchmarks.processes import SERVERS, Server, running
from benchmarks.servers.source import Ask

CHUNKS, RATE = 300, 50
STREAMING = 2.0
"""Seconds that each attempt streams before it is killed; shorter than an answer takes."""
PATIENCE = 60.0
"""Seconds that the last attempt has to finish. The peer waits about ten before it begins."""
_STAMP = re.compile(rb"@\d{16}")


def main() -> int:
    """Report on the servers that the environment names."""
    for name in os.environ.get("SERVERS", "everyword,peer").split(","):
        with (
            tempfile.TemporaryDirectory(prefix="bench-") as folder,
            running(SERVERS[name], Path(folder) / "data") as server,
        ):
            print(f"{name:9} {asyncio.run(report(server, int(os.environ.get('KILLS', '3'))))}", flush=True)
    return 0


async def report(server: Server, kills: int) -> str:
    """Kill the server under one answer so many times, wait for the end of the answer, and describe what is stored."""
    socket = await connect(server.port, "killed", keeps=True)
    socket.send(question(Ask(chunks=CHUNKS, rate=RATE)))
    received = set[bytes]()
    for _ in range(kills):
        await asyncio.sleep(STREAMING)
        server.stop(by=signal.SIGKILL)
        await asyncio.sleep(0.1)  # frames that were sent before the kill are still arriving
        received |= _stamps(socket.kept or [])
        server.start()
        socket = await connect(server.port, "killed", keeps=True)
    answers = [message for message in await _finished(server) if message["role"] == "assistant"]
    texts = [part["text"] for message in answers for part in message["parts"] if part["type"] == "text"]
    stored = Counter(_STAMP.findall("".join(texts).encode()))
    twice = sum(count - 1 for count in stored.values())
    return (
        f"{kills} kills: {len(answers)} assistant messages, {len(texts)} text parts, "
        f"{len(received - set(stored))} received chunks missing, {twice} chunks stored twice"
    )


def _stamps(frames: list[bytes]) -> set[bytes]:
    return set(_STAMP.findall(b"".join(frames)))


async def _finished(server: Server) -> list[dict[str, Any]]:
    """Return the messages once the last attempt has added a whole answer to what earlier attempts left."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        messages: list[dict[str, Any]] = json.loads(server.request("GET", "/agents/chat/killed/get-messages"))
        longest = max((_chunks_of(part) for message in messages for part in message["parts"]), default=0)
        if longest >= CHUNKS:
            return messages
        await asyncio.sleep(0.5)
    raise TimeoutError(f"{server.kind.name} did not finish the answer within {PATIENCE:.0f} s")


def _chunks_of(part: dict[str, Any]) -> int:
    return len(_STAMP.findall(str(part.get("text", "")).encode()))


if __name__ == "__main__":
    sys.exit(main())
