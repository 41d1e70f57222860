"""Attachments for commands: where they are, and copying, checking and deleting them without a server."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

from ..attachments.base import Blob, BlobStore, pieces_of
from ..attachments.keys import blob_key, folder_of, hash_in, owner_key, unused_key
from ..errors import AttachmentMissing, LogLocked
from ..ids import AgentId, Millis, root_id
from ..log.memory import MemoryLog
from ..log.postgres.address import is_postgres
from ..log.sqlite.store import SqliteLog
from ..runtime.attachment_sweep import Folder, StoredRows, folders, old_incoming, stored_references
from ..runtime.rebuild import AdminStore
from ..server.stores import open_blob_store
from .log_reader import LogReader
from .store_access import leased, path_of
from .text import count_of

__all__ = ["CheckedAttachments", "add_attachments", "attachments_of", "check_attachments", "collect_attachments"]
__all__ += ["copy_conversation", "drop_attachments", "foretell_attachments", "read_attachments", "write_attachments"]


class CheckedAttachments(NamedTuple):
    """Findings of `doctor`: messages whose attachments are missing, and attachments without an agent."""

    missing: Sequence[tuple[AgentId, str]] = ()
    orphans: Sequence[str] = ()
    """Folders whose agent is not stored."""

    def lines(self) -> list[str]:
        """Return a line for each agent and folder."""
        gone = Counter(agent for agent, _ in self.missing)
        found = [
            f"{agent}: {count_of(count, 'attachment')} of its messages not stored; restore the folder from a backup"
            for agent, count in gone.items()
        ]
        return [
            *found,
            *(f"{each} has attachments, and its agent is not stored; it will be deleted" for each in self.orphans),
        ]

    def as_json(self) -> dict[str, Any]:
        """Return the same for scripts."""
        missing = [{"agent": agent, "sha256": sha256} for agent, sha256 in self.missing]
        return {"missing": missing, "orphans": list(self.orphans)}


def add_attachments(parser: argparse.ArgumentParser) -> None:
    """Add --attachments."""
    parser.add_argument(
        "--attachments",
        metavar="PLACE",
        help="folder or s3://bucket/prefix with the attachments (default: the folder beside the database file)",
    )


def attachments_of(db: str, place: str | None) -> BlobStore | None:
    """Return where the attachments of a store are; None for a PostgreSQL database if no place is named."""
    if place is None and is_postgres(db):
        return None
    log = SqliteLog(path_of(db)) if not is_postgres(db) else MemoryLog()
    return open_blob_store(place, log)


async def read_attachments(blobs: BlobStore | None, rows: StoredRows, agents: Sequence[AgentId]) -> dict[str, bytes]:
    """Return the contents that the stored messages of a family refer to, by hash; what is gone is left out."""
    found: dict[str, bytes] = {}
    if blobs is None:
        return found
    for sha256 in sorted(await stored_references(rows, agents)):
        try:
            found[sha256] = b"".join([piece async for piece in blobs.read(blob_key(agents[0], sha256))])
        except AttachmentMissing:
            continue
    return found


async def write_attachments(blobs: BlobStore, agent: AgentId, contents: Iterable[tuple[str, bytes]]) -> int:
    """Write contents of an agent's conversation; return how many."""
    count = 0
    for sha256, content in contents:
        if not count:
            await blobs.put(owner_key(folder_of(agent)), pieces_of(root_id(agent).encode()))
        await blobs.put(blob_key(agent, sha256), pieces_of(content))
        count += 1
    return count


async def copy_conversation(
    source: BlobStore, target: BlobStore, old: AgentId, new: AgentId, hashes: Iterable[str]
) -> int:
    """Copy contents of a conversation to another one, piece by piece; return how many. What is gone is left out."""
    count = 0
    for sha256 in hashes:
        if await source.find(blob_key(old, sha256)) is None:
            continue
        if not count:
            await target.put(owner_key(folder_of(new)), pieces_of(root_id(new).encode()))
        await target.put(blob_key(new, sha256), source.read(blob_key(old, sha256)))
        count += 1
    return count


async def drop_attachments(blobs: BlobStore | None, agent: AgentId) -> None:
    """Delete all contents of a conversation, if this is its root agent."""
    if blobs is not None and agent == root_id(agent):
        for blob in [each async for each in blobs.list(f"{folder_of(agent)}/")]:
            await blobs.delete(blob.key)


async def check_attachments(
    blobs: BlobStore, rows: StoredRows, agents: Sequence[AgentId], known: Sequence[AgentId]
) -> CheckedAttachments:
    """Compare what messages of `agents` refer to with what is stored; `known` are all agents."""
    stored = {folder.path: folder async for folder in folders(blobs)}
    missing: list[tuple[AgentId, str]] = []
    for agent in agents:
        folder = stored.get(folder_of(agent))
        there = {hash_in(blob.key) for blob in folder.blobs} if folder is not None else set()
        missing += [(agent, sha256) for sha256 in sorted(await stored_references(rows, [agent])) if sha256 not in there]
    owned = {folder_of(agent) for agent in known}
    return CheckedAttachments(missing, sorted(path for path in stored if path not in owned))


async def foretell_attachments(blobs: BlobStore, rows: LogReader, before: Millis) -> tuple[int, int]:
    """Count what `collect_attachments` would delete, also while a server uses the store; return its bytes, too."""
    gone = await old_incoming(blobs, before)
    async for folder, _, stored in _candidates(blobs, rows, before):
        loaded = [await rows.load(each, recent=1) for each in stored]
        if not any(turn.is_open for activation in loaded for turn in activation.turns):
            gone += await _unreferenced(folder, stored, rows, before)
    return len(gone), sum(blob.size for blob in gone)


async def collect_attachments(blobs: BlobStore, store: AdminStore, before: Millis) -> tuple[int, int]:
    """Delete what no stored message refers to and was written before a time; return how many, and their bytes."""
    gone = await old_incoming(blobs, before)
    for blob in gone:
        await blobs.delete(blob.key)
    async for folder, agent, stored in _candidates(blobs, store, before):
        # A file is ours as a whole, and the lease of an agent that is not stored would create it.
        owned = stored if store.nodes is None else [*dict.fromkeys([agent, *stored])]
        try:
            async with AsyncExitStack() as stack:
                what = "collect the attachments of"
                loaded = [await stack.enter_async_context(leased(store, each, what)) for each in owned]
                if any(turn.is_open for activation in loaded for turn in activation.turns):
                    continue  # its chunks are not in the messages yet
                old = await _unreferenced(folder, stored, store, before)
                for blob in old:
                    await blobs.delete(blob.key)
                    await blobs.delete(unused_key(blob.key))
                gone += old
                if not stored and len(old) == len(folder.blobs):
                    await blobs.delete(owner_key(folder.path))
        except LogLocked:
            continue  # a node has it loaded, and sweeps it by itself
    return len(gone), sum(blob.size for blob in gone)


async def _candidates(
    blobs: BlobStore, rows: LogReader | AdminStore, before: Millis
) -> AsyncIterator[tuple[Folder, AgentId, Sequence[AgentId]]]:
    """Yield the folders with something old: with their root agent, and those of its family that are stored."""
    async for folder in folders(blobs):
        agent = folder.agent
        if agent is not None and (folder.is_empty(before) or any(blob.modified <= before for blob in folder.blobs)):
            yield folder, agent, [each for each in await rows.agents(agent) if root_id(each) == agent]


async def _unreferenced(folder: Folder, stored: Sequence[AgentId], rows: StoredRows, before: Millis) -> list[Blob]:
    referenced = await stored_references(rows, stored)
    return [blob for blob in folder.blobs if blob.modified <= before and hash_in(blob.key) not in referenced]
