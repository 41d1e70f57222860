"""The demo as a process that can be killed: what the recording and the screenshots show."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Running:
    """A server that has said where it is."""

    process: asyncio.subprocess.Process
    port: str
    said: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    async def kill(self) -> None:
        """Kill it as `kill -9` does, and wait until it is gone."""
        self.process.kill()
        await self.process.wait()


@asynccontextmanager
async def running(folder: Path, port: str = "0") -> AsyncIterator[Running]:
    """Run `everyword dev` on a file in the folder; it is gone afterwards."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "everyword", "dev", "--no-reload", "--port", port),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=folder,
    )
    try:
        assert process.stdout is not None
        while not (found := re.search(r"http://\S+:(\d+)$", said := (await process.stdout.readline()).decode())):
            if not said:
                raise SystemExit("unable to show the demo; the server ended before it said where it is")
        drain = asyncio.create_task(process.stdout.read())
        yield Running(process, found[1], said.rstrip())
        drain.cancel()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
