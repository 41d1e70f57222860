"""A process that erases a person and kills itself before or after one of the writes of the erasure.

Arguments: the store, the number of the write, `before` or `after`, and for PostgreSQL the folder of the attachments. It
says `done` if there are fewer writes.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

from everyword.log.postgres.erasing import PostgresErasure
from everyword.log.postgres.store import PostgresLog
from everyword.log.sqlite.erasing import SqliteErasure
from everyword.log.sqlite.store import SqliteLog
from everyword.server.node_settings import NodeSettings
from tests.erasure import room
from tests.erasure.room import ANN, make_app

NAMES = ("put_notes", "rewrite", "rename_destroyed", "scrub")
WRITES: list[tuple[type, str]] = [(cls, name) for cls in (SqliteErasure, PostgresErasure) for name in NAMES]
WRITES += [(SqliteLog, "destroy"), (PostgresLog, "destroy")]
LIFETIME = 60.0
"""Seconds after which a forgotten process goes by itself."""


def main(path: str, number: str, when: str, files: str | None = None) -> None:
    left = int(number)
    room.FILES = files

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

    for cls, name in WRITES:
        setattr(cls, name, dying(getattr(cls, name)))
    asyncio.run(_erase(path, NodeSettings(name="killed", lease=2) if files is not None else None))
    os.write(1, b"done\n")


async def _erase(path: str, node: NodeSettings | None) -> None:
    async with asyncio.timeout(LIFETIME), make_app(path, node) as app:
        await app.principals.erase(ANN)
