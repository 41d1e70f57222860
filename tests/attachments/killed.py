"""A process that works with attachments and kills itself before or after one of its steps.

A step is a call of the blob store that reads or changes a key, the rename of a file inside of it, or an append to the
log. Arguments: the folder, what to do, the number of the step, and `before` or `after`. It writes the name of the step
at which it dies, or `done` if there are fewer.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from everyword.attachments import folder as folder_store
from everyword.attachments.folder import FolderBlobStore
from everyword.log.sqlite.store import SqliteLog
from tests.attachments.room import PHOTOS, UPLOADED, Chat, accept, ask, question, running

LIFETIME = 60.0
"""Seconds after which a forgotten process goes by itself."""


class Death:
    """Counts steps, and kills this process at one of them."""

    def __init__(self, number: int, when: str) -> None:
        self._left, self._when = number, when

    def is_next(self, name: str) -> bool:
        """Count a step; die here if this is the one and is not to be done. Returns whether to die after it."""
        self._left -= 1
        if self._left >= 0:
            return False
        if self._left == -1 and self._when == "before":
            self.die(name)
        return self._left == -1

    def die(self, name: str) -> None:
        os.write(1, f"{name}\n".encode())
        os.kill(os.getpid(), signal.SIGKILL)

    def at_method(self, name: str) -> None:
        method = getattr(FolderBlobStore, name)

        async def step(*arguments: Any) -> Any:
            is_last = self.is_next(name)
            result = await method(*arguments)
            if is_last:
                self.die(name)
            return result

        setattr(FolderBlobStore, name, step)

    def at_rename(self) -> None:
        rename = folder_store._replace

        def step(source: Path, target: Path) -> None:
            is_last = self.is_next("rename")
            rename(source, target)
            if is_last:
                self.die("rename")

        folder_store._replace = step

    def at_append(self) -> None:
        append = SqliteLog.append

        def step(store: SqliteLog, batches: Any) -> Any:
            is_last = self.is_next("append")
            receipts = append(store, batches)
            if is_last:
                receipts[-1].then(lambda _: self.die("append"))
            return receipts

        SqliteLog.append = step  # type: ignore[method-assign]


def main(folder: str, task: str, number: str, when: str) -> None:
    death = Death(int(number), when)
    for name in ("put", "move", "find", "delete"):
        death.at_method(name)
    death.at_rename()
    death.at_append()
    asyncio.run(TASKS[task](Path(folder)))
    os.write(1, b"done\n")


async def _ask(folder: Path, scan: Any = None) -> None:
    async with asyncio.timeout(LIFETIME), running(folder, scan=scan) as (_, client):
        await ask(client, question(*PHOTOS))


async def _ask_checked(folder: Path) -> None:
    await _ask(folder, accept)


async def _upload(folder: Path) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(UPLOADED), 100_000):
            yield UPLOADED[start : start + 100_000]

    async with asyncio.timeout(LIFETIME), running(folder) as (_, client):
        answer = await client.post("attachments", content=pieces(), headers={"content-type": "image/png"})
        assert answer.status_code == 201


async def _sweep(folder: Path) -> None:
    async with asyncio.timeout(LIFETIME), running(folder, grace=0) as (app, _):
        await app.attachments.sweep()


async def _destroy(folder: Path) -> None:
    async with asyncio.timeout(LIFETIME), running(folder) as (app, _):
        await app.get(Chat, "ann").destroy()


TASKS: dict[str, Callable[[Path], Any]] = {
    "ask": _ask,
    "ask-checked": _ask_checked,
    "upload": _upload,
    "sweep": _sweep,
    "destroy": _destroy,
}
