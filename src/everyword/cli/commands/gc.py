"""`everyword gc`: apply the retention rules now, and report the space freed."""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import threading
from pathlib import Path

from ...errors import LogUnavailable, UsageError
from ...ids import Millis
from ...log.postgres.address import is_postgres
from ...log.sqlite.lock import FileLock
from ...runtime.clock import SystemClock
from ..arguments import add_store, parse_duration
from ..attachments import add_attachments, attachments_of, collect_attachments, foretell_attachments
from ..log_reader import Prunable
from ..output import Output
from ..store_access import PATIENCE, path_of, reading, writing
from ..text import count_of, size_of

__all__ = ["HELP", "add_arguments", "run"]

HELP = """\
Delete the chunks of turns that ended more than --keep ago, and states that were replaced before that; report the
space freed. Messages, turns, their outcomes and the current state are kept: chunks only serve clients that join or
replay a turn. Attachments that no message refers to are deleted, too, if they were written more than --keep ago. A
running server does this by itself.

examples:
  everyword gc --dry-run
  everyword gc --keep 7d
  everyword gc --keep 0s --shrink
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--keep",
        default="24h",
        metavar="TIME",
        help="keep chunks of turns that ended, and states that were replaced, within TIME (default: %(default)s)",
    )
    parser.add_argument("--dry-run", action="store_true", help="only report what would be deleted")
    parser.add_argument("--shrink", action="store_true", help="return the freed space to the disk; files only")
    add_attachments(parser)
    add_store(parser)


def run(chosen: argparse.Namespace) -> int:
    """Delete the chunks of turns that ended, and the states that were replaced, before --keep."""
    output = Output(is_json=chosen.json)
    before = Millis(SystemClock().now() - parse_duration(chosen.keep))
    if chosen.dry_run:
        return asyncio.run(_foretell(output, chosen, before))
    return asyncio.run(_collect(output, chosen, before))


async def _foretell(output: Output, chosen: argparse.Namespace, before: Millis) -> int:
    blobs = attachments_of(chosen.db, chosen.attachments)
    async with reading(chosen.db) as store:
        found = await store.prunable(before)
        files = await foretell_attachments(blobs, store, before) if blobs is not None else (0, 0)
    if output.is_json:
        output.json({**found._asdict(), **_as_json(files), "isDryRun": True})
    else:
        output.print(f"would delete {_counted(found)}{_files(files)}; nothing was changed")
    return 0


async def _collect(output: Output, chosen: argparse.Namespace, before: Millis) -> int:
    if chosen.shrink and is_postgres(chosen.db):
        raise UsageError(
            "unable to shrink a PostgreSQL database; it reuses the space by itself, and dropped days are returned to "
            "the disk at once. Run `everyword gc` without --shrink"
        )
    async with writing(chosen.db, "collect"):
        pass  # fails at once when a process uses the file, and migrates an old one
    async with reading(chosen.db) as file:
        found = await file.prunable(before)
        size, _ = await file.sizes()
    chunks = states = 0
    async with writing(chosen.db, "collect") as store:
        with output.progress("deleting", found.chunks + found.states) as bar:
            more = True
            while more:
                pruned = await store.prune(before)
                chunks, states, more = chunks + pruned.chunks, states + pruned.states, pruned.more
                bar.step(amount=pruned.chunks + pruned.states)
        blobs = attachments_of(chosen.db, chosen.attachments)
        files = await collect_attachments(blobs, store, before) if blobs is not None else (0, 0)
    done = Prunable(chunks, states, found.bytes)
    if chosen.shrink:
        _shrink(path_of(chosen.db))
    async with reading(chosen.db) as file:
        new_size, free = await file.sizes()
    if output.is_json:
        output.json({**done._asdict(), "fileBytes": new_size, "freeBytes": free, "wasBytes": size, **_as_json(files)})
        return 0
    output.print(f"deleted {_counted(done)}{_files(files)}")
    if chosen.shrink:
        output.print(f"the file has {size_of(new_size)} now, {size_of(size)} before")
    elif is_postgres(chosen.db):
        output.print(f"the tables have {size_of(new_size)} now, {size_of(size)} before")
    elif free:
        output.print(f"the file keeps its size of {size_of(new_size)}; {size_of(free)} of it can be reused")
        output.note("--shrink returns it to the disk")
    return 0


def _as_json(files: tuple[int, int]) -> dict[str, int]:
    return {"attachments": files[0], "attachmentBytes": files[1]}


def _files(files: tuple[int, int]) -> str:
    return f"; {count_of(files[0], 'attachment')}, {size_of(files[1])}" if files[0] else ""


def _counted(taken: Prunable) -> str:
    states = f" and {count_of(taken.states, 'superseded state')}" if taken.states else ""
    return f"{count_of(taken.chunks, 'chunk')}{states}, {size_of(taken.bytes)} of text"


def _shrink(path: str) -> None:
    """Rewrite the file without its free pages. Needs as much disk space again meanwhile."""
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
