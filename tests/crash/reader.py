"""A process that outlives the killed one: it writes down what it is shown and comes back by cursor.

Every line `connect` on its input makes it connect, once all that it was shown before is read. After each piece it says
`at N` on its output, the sum of its cursors; when its input ends it writes what it saw, in order, into its file.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import msgspec

from tests.crash.child import AGENTS, HEADER


class Record(msgspec.Struct, array_like=True, frozen=True):
    """One event as one reader was shown it."""

    agent: int
    seq: int
    body: bytes


class Notebook:
    """What was seen, in order, and how far in each log."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.cursors = [0] * len(AGENTS)

    def note(self, record: Record) -> None:
        self.records.append(record)
        self.cursors[record.agent] = record.seq


class Connection(asyncio.Protocol):
    """One agent's log as it arrives. A frame that is cut off by the server's death was not seen."""

    def __init__(self, notebook: Notebook) -> None:
        self.over = asyncio.get_running_loop().create_future()
        self._notebook, self._pending = notebook, b""

    def data_received(self, data: bytes) -> None:
        pending, start = self._pending + data, 0
        while len(pending) >= start + HEADER.size:
            agent, seq, length = HEADER.unpack_from(pending, start)
            if len(pending) < start + HEADER.size + length:
                break
            start += HEADER.size
            self._notebook.note(Record(agent, seq, pending[start : start + length]))
            start += length
        self._pending = pending[start:]
        os.write(1, f"at {sum(self._notebook.cursors)}\n".encode())

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.over.done():
            self.over.set_result(None)


async def connect(notebook: Notebook, address: str, agent: int) -> Connection | None:
    loop = asyncio.get_running_loop()
    try:
        transport, connection = await loop.create_unix_connection(lambda: Connection(notebook), address)
    except (ConnectionError, FileNotFoundError):
        return None  # dead again already
    transport.write(f"{agent} {notebook.cursors[agent]}\n".encode())
    return connection


async def read(address: str) -> list[Record]:
    """Read until told to stop; return everything that was seen."""
    loop, notebook = asyncio.get_running_loop(), Notebook()
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    connections: list[Connection] = []
    while await lines.readline() == b"connect\n":
        await asyncio.gather(*(connection.over for connection in connections))
        found = [await connect(notebook, address, agent) for agent in range(len(AGENTS))]
        connections = [connection for connection in found if connection is not None]
    return notebook.records


if __name__ == "__main__":
    address, path = sys.argv[1:]
    Path(path).write_bytes(msgspec.msgpack.encode(asyncio.run(read(address))))
