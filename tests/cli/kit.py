"""Running the command as a process of its own, and waiting for what it says."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.server.kit import PATIENCE

ROOT = Path(__file__).resolve().parents[2]


class Running:
    """A `holdfast` process; `url` once it has said where it is."""

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

    async def url(self) -> str:
        return await self.until(r"http://\S+:\d+")

    async def ended(self) -> int:
        async with asyncio.timeout(PATIENCE):
            return await self.process.wait()


@asynccontextmanager
async def running(*arguments: str, folder: Path | None = None) -> AsyncIterator[Running]:
    """Run `holdfast` with these arguments; whatever happens, it is gone afterwards."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "holdfast", *arguments),
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
