"""The benchmarks run: every row on a server, in sizes that say nothing about speed."""

from __future__ import annotations

from pathlib import Path

import pytest
import uvloop
from picows import WSUpgradeRequest, ws_create_server

from benchmarks.__main__ import SIZES
from benchmarks.client import connect
from benchmarks.processes import SERVERS, running
from benchmarks.rows import ROWS
from benchmarks.servers.bare import Connection
from benchmarks.servers.floor import Floor
from benchmarks.servers.source import Ask

RESTARTING = {"cold", "kill"}
"""Rows that start the server again, which takes too long for a test of the harness."""


class Forgetful(Connection):
    """Loses one frame of the tenth."""

    sent = 0

    async def send(self, frame: bytes) -> None:
        self.sent += 1
        if self.sent % 10:
            await super().send(frame)


@pytest.mark.parametrize("name", ["everyword", "stored", "bare"])
def test_every_row_runs_and_has_all_its_figures(name: str, tmp_path: Path) -> None:
    kind = SERVERS[name]
    rows = [row for row in ROWS.values() if row.name not in kind.lacks | RESTARTING]
    with running(kind, tmp_path / "server") as server:
        for row in rows:
            figures = uvloop.run(row.run(server, SIZES["tiny"]))
            assert {metric.name for metric in row.metrics} <= figures.keys()


async def test_a_server_that_loses_a_chunk_has_no_figures() -> None:
    floor = Floor()

    def connection(request: WSUpgradeRequest) -> Connection:
        return Forgetful(floor, "a")

    server = await ws_create_server(connection, "127.0.0.1", 0)
    try:
        socket = await connect(server.sockets[0].getsockname()[1], "a")
        with pytest.raises(RuntimeError, match="20 chunks were asked for, 18 arrived"):
            await socket.ask(Ask(chunks=20))
        await socket.close()
    finally:
        server.close()
        await server.wait_closed()
