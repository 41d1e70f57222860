"""A process that erases a person and kills itself before or after one of the writes of the erasure.

Arguments: the log, the number of the write, and `before` or `after`. It says `done` if there are fewer writes.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

from everyword.log.sqlite.erasing import SqliteErasure
from everyword.log.sqlite.store import SqliteLog
from tests.erasure.room import ANN, make_app

WRITES = [(SqliteErasure, name) for name in ("put_notes", "rewrite", "rename_destroyed", "scrub")]
LIFETIME = 60.0
"""Seconds after which a forgotten process goes by itself."""


def main(path: str, number: str, when: str) -> None:
    left = int(number)

    def dying(method: Any) -> Any:
        async def write(*arguments: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0 and when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            result = await method(*arguments)
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return write

    for cls, name in [*WRITES, (SqliteLog, "destroy")]:
        setattr(cls, name, dying(getattr(cls, name)))
    asyncio.run(_erase(path))
    os.write(1, b"done\n")


async def _erase(path: str) -> None:
    async with asyncio.timeout(LIFETIME), make_app(path) as app:
        await app.principals.erase(ANN)
