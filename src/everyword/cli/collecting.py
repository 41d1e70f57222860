"""`everyword gc`: retention now, and what it freed."""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import threading
from pathlib import Path

from ..errors import LogUnavailable
from ..ids import Millis
from ..log.sqlite.lock import FileLock
from ..runtime.clock import SystemClock
from .opening import PATIENCE, parse_duration, path_of, reading, writing
from .screen import Screen, count_of, size_of

__all__ = ["run"]


def run(chosen: argparse.Namespace) -> int:
    """Delete the chunks of turns that ended long enough ago."""
    screen = Screen(is_json=chosen.json)
    before = Millis(SystemClock().now() - parse_duration(chosen.keep))
    if chosen.dry_run:
        return asyncio.run(_foretell(screen, chosen.db, before))
    return asyncio.run(_collect(screen, chosen, before))


async def _foretell(screen: Screen, db: str, before: Millis) -> int:
    async with reading(db) as store:
        chunks, size = await store.prunable(before)
    if screen.is_json:
        screen.document({"chunks": chunks, "bytes": size, "isDryRun": True})
    else:
        screen.say(f"would delete {count_of(chunks, 'chunk')}, {size_of(size)} of text; nothing was changed")
    return 0


async def _collect(screen: Screen, chosen: argparse.Namespace, before: Millis) -> int:
    async with writing(chosen.db, "collect"):
        pass  # says so at once when somebody uses the file, and makes an old one readable
    async with reading(chosen.db) as file:
        total, text = await file.prunable(before)
        size, _ = await file.pages()
    chunks = 0
    async with writing(chosen.db, "collect") as store:
        with screen.progress("deleting", total) as bar:
            while (pruned := await store.prune(before)).chunks or pruned.more:
                chunks += pruned.chunks
                bar.step(amount=pruned.chunks)
    if chosen.shrink:
        _shrink(path_of(chosen.db))
    async with reading(chosen.db) as file:
        new_size, free = await file.pages()
    if screen.is_json:
        screen.document({"chunks": chunks, "bytes": text, "fileBytes": new_size, "freeBytes": free, "wasBytes": size})
        return 0
    screen.say(f"deleted {count_of(chunks, 'chunk')}, {size_of(text)} of text")
    if chosen.shrink:
        screen.say(f"the file is {size_of(new_size)}, and was {size_of(size)}")
    elif free:
        screen.say(f"the file stays {size_of(new_size)}, {size_of(free)} of it free for what comes")
        screen.note("--shrink gives it back to the disk")
    return 0


def _shrink(path: str) -> None:
    """Write the file anew without what is free in it. Takes as much room again while it does."""
    lock = FileLock(str(Path(path).resolve()))
    lock.acquire(PATIENCE, threading.Event())
    try:
        connection = sqlite3.connect(path, isolation_level=None)
        try:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            connection.close()
    except sqlite3.Error as exc:
        raise LogUnavailable(f"unable to shrink {path!r}; {exc}. It needs as much free space as the file has") from exc
    finally:
        lock.release()
