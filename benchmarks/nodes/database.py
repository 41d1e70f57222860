"""The PostgreSQL under the nodes: its CPU by the kernel, and its statements by its own log."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from tests.postgres.server import OwnPostgres

__all__ = ["Database", "started"]

_TICKS = 100
"""Units of a second in /proc/<pid>/stat."""

_STATEMENT = re.compile(r"LOG:  (?:statement|execute [^:]*): (?:--.*\s+)*(.*)")
_FUNCTION = re.compile(r"\.?\"?(\w+?)(?:_\d+)?\"?\(")


@dataclass(frozen=True)
class Database:
    """A running PostgreSQL that only the benchmark uses."""

    server: OwnPostgres

    def url(self, schema: str) -> str:
        """Return the address of a schema of that name."""
        return f"{self.server.url}&schema={schema}"

    def cpu(self) -> float:
        """Return the CPU seconds of all its processes up to now, also of those that have ended."""
        main = int((self.server.folder / "data" / "postmaster.pid").read_text().split("\n")[0])
        stat = Path(f"/proc/{main}/stat").read_text().rpartition(")")[2].split()
        ended = (int(stat[13]) + int(stat[14])) / _TICKS  # its children that it has waited for
        return ended + sum(_cpu(pid) for pid in [main, *_children(main)])

    async def version(self) -> str:
        """Return the number of its version."""
        connection = await self.server.connect()
        try:
            return str(await connection.fetchval("show server_version"))
        finally:
            await connection.close()

    async def fetch(self, statement: str) -> Sequence[asyncpg.Record]:
        """Run one statement."""
        connection = await self.server.connect()
        try:
            rows: Sequence[asyncpg.Record] = await connection.fetch(statement)
            return rows
        finally:
            await connection.close()

    async def statements(self, seconds: float) -> Counter[str]:
        """Count what clients run in the next seconds, by the function or the first words."""
        await self._log_statements("all")
        await asyncio.sleep(0.5)  # sessions read the setting before their next statement
        before = len(self.server.log)
        await asyncio.sleep(seconds)
        said = self.server.log[before:]
        await self._log_statements("none")
        return Counter(_name(found[1]) for found in _STATEMENT.finditer(said) if "log_statement" not in found[1])

    async def _log_statements(self, which: str) -> None:
        await self.fetch(f"alter system set log_statement = '{which}'")
        await self.fetch("select pg_reload_conf()")


@contextmanager
def started() -> Iterator[Database]:
    """Run a PostgreSQL that flushes its commits, as a real one does."""
    server = OwnPostgres.started(durable=True)
    try:
        yield Database(server)
    finally:
        server.close()


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _cpu(pid: int) -> float:
    try:
        return time.clock_gettime(~pid << 3 | 2)  # the kernel's CPU clock of another process
    except OSError:  # it has just ended
        return 0.0


def _name(statement: str) -> str:
    found = _FUNCTION.search(statement)
    return found[1] if found is not None and found[1] != "min" else " ".join(statement.split()[:2])
