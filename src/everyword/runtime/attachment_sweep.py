"""Delete attachments that no stored message refers to, some time after they were written and last referred to.

References are not counted: they are read from the rows of the conversation. So they are right after a crash, a rebuild,
an import, and beside nodes of an older release that know no attachments. A reference is an attachment's URL anywhere in
a message, of any branch, or in a kept row: the state, jobs, fibers, runs.

The first sweep that finds no reference to a blob stores an empty object beside it: its grace time begins. So a page may
put back a message that it has removed.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from ..attachments.base import INCOMING, Blob, BlobStore, pieces_of
from ..attachments.keys import AGENTS, folder_of, hash_in, owner_key, unused_in, unused_key
from ..errors import AgentStopped, AttachmentMissing, AttachmentsUnavailable, LogError
from ..ids import AgentId, Millis, children_prefix
from ..messages.attachments import find_references

if TYPE_CHECKING:
    from .attachments import Attachments
    from .directory import Directory

__all__ = ["AttachmentSweep", "Folder", "StoredRows", "delete_incoming", "folders", "old_incoming"]
__all__ += ["stored_references"]

log = logging.getLogger("everyword.runtime")

LONGEST_UPLOAD: Final = 60 * 60 * 1000
"""Milliseconds for which an upload may not be written to, however short the grace time is: it may still go on."""


class Folder(NamedTuple):
    """The blobs of one conversation."""

    path: str
    agent: AgentId | None
    """The root agent; None if the folder does not say which."""
    blobs: Sequence[Blob]
    name: Blob | None
    """The object with the agent's id."""
    unused: Mapping[str, Blob]
    """Key of a blob → the object whose time says since when nothing refers to the blob."""

    def is_empty(self, before: Millis) -> bool:
        """Return whether the folder has only the agent's id, written before a time."""
        return not self.blobs and self.name is not None and self.name.modified <= before


class StoredRows(Protocol):
    """The source of references: a store, or a reader of the command line."""

    async def conversation(self, agent: AgentId) -> Any: ...

    async def kept(self, agent: AgentId) -> Any: ...


async def folders(store: BlobStore) -> AsyncIterator[Folder]:
    """Yield the blobs of each conversation."""
    found: dict[str, list[Blob]] = {}
    async for blob in store.list(f"{AGENTS}/"):
        found.setdefault(blob.key.rpartition("/")[0], []).append(blob)
    for path, blobs in found.items():
        yield _folder(path, await _agent_of(store, path), blobs)


def _folder(path: str, agent: AgentId | None, blobs: Sequence[Blob]) -> Folder:
    name = next((blob for blob in blobs if blob.key == owner_key(path)), None)
    unused = {key: blob for blob in blobs if (key := unused_in(blob.key)) is not None}
    return Folder(path, agent, [blob for blob in blobs if hash_in(blob.key) is not None], name, unused)


async def _agent_of(store: BlobStore, folder: str) -> AgentId | None:
    try:
        agent = AgentId(b"".join([piece async for piece in store.read(owner_key(folder))]).decode(errors="replace"))
    except AttachmentMissing:
        return None
    return agent if folder_of(agent) == folder else None


async def stored_references(store: StoredRows, agents: Sequence[AgentId]) -> set[str]:
    """Return the hashes that the stored messages, drafts and kept rows of agents refer to."""
    found: set[str] = set()
    for agent in agents:
        for row in (await store.conversation(agent))[1]:
            found |= find_references(row.body or b"") | find_references(row.draft or b"")
        for row in await store.kept(agent):
            found |= find_references(row.body or b"")
    return found


async def delete_incoming(store: BlobStore, before: Millis) -> int:
    """Delete what is left of uploads that a crash has cut off; return how many there were."""
    old = await old_incoming(store, before)
    for blob in old:
        await store.delete(blob.key)
    return len(old)


async def old_incoming(store: BlobStore, before: Millis) -> list[Blob]:
    """Return what is left of uploads that a crash has cut off."""
    return [blob async for blob in store.list(f"{INCOMING}/") if blob.modified <= before]


class AttachmentSweep:
    """Sweeps the conversations that this process owns, or may own."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    async def keep_sweeping(self) -> None:
        """Sweep every eighth of the grace time, until the task is cancelled."""
        attachments, clock = self._directory.attachments, self._directory.clock
        if attachments is None:
            return
        every = max(attachments.rules.grace // 8, 1000)
        while True:
            try:
                deleted = await self.sweep()
                if deleted:
                    log.info("deleted %d attachments that no message refers to", deleted)
            except LogError as exc:  # of the log, or of the place of the attachments
                log.error("unable to look for attachments without a message; trying again later: %s", exc)
            await clock.sleep_until(Millis(clock.now() + every))

    async def sweep(self) -> int:
        """Delete every blob without a reference whose grace time is over; return how many there were."""
        attachments = self._directory.attachments
        if attachments is None:
            return 0
        async with attachments.holds.sweeping:
            return await self._sweep(attachments)

    async def _sweep(self, attachments: Attachments) -> int:
        written_until = Millis(min(self._before, self._directory.clock.now() - LONGEST_UPLOAD))
        deleted = await delete_incoming(attachments.store, written_until)
        async for found in folders(attachments.store):
            folder, agent = found, found.agent
            unused = await self._unused(folder)
            if (agent is not None or not folder.blobs) and await self._note(folder, unused):
                folder = await self._listed(folder.path, agent)
            if agent is None or (not self._due(folder, unused) and not await self._is_abandoned(folder)):
                continue
            try:
                deleted += await self._sweep_conversation(agent)
            except (AgentStopped, LogError) as exc:
                if isinstance(exc, AttachmentsUnavailable):
                    raise
                log.debug("%r is not swept now: %s", agent, exc)  # its owner is another node
            except Exception:
                # Its own code fails when it is loaded: one agent must not keep the others from being swept.
                log.exception("unable to sweep the attachments of %r", agent)
        return deleted

    @property
    def _before(self) -> Millis:
        attachments = self._directory.attachments
        assert attachments is not None
        return Millis(self._directory.clock.now() - attachments.rules.grace)

    async def _is_abandoned(self, folder: Folder) -> bool:
        """Return whether a folder is empty, and its agent was never stored: only an upload was."""
        if folder.agent is None or not folder.is_empty(self._before):
            return False
        return not any([await self._directory.store.has(each) for each in await self._family(folder.agent)])

    async def _unused(self, folder: Folder) -> list[Blob]:
        """Return the blobs to which nothing refers."""
        if not folder.blobs or folder.agent is None:
            return []
        referenced = await stored_references(self._directory.store, await self._family(folder.agent))
        return [blob for blob in folder.blobs if hash_in(blob.key) not in referenced]

    async def _note(self, folder: Folder, unused: Sequence[Blob]) -> bool:
        """Store since when nothing refers to blobs, and remove this from others; return whether anything changed."""
        attachments, keys = self._directory.attachments, {blob.key for blob in unused}
        assert attachments is not None
        for key in keys - folder.unused.keys():
            await attachments.store.put(unused_key(key), pieces_of(b""))
            if await attachments.store.find(key) is None:  # its conversation is deleted meanwhile
                await attachments.store.delete(unused_key(key))
        for key in folder.unused.keys() - keys:
            await attachments.store.delete(unused_key(key))
        return keys != folder.unused.keys()

    def _due(self, folder: Folder, unused: Sequence[Blob]) -> list[Blob]:
        """Return the unused blobs whose grace time is over."""
        before, since = self._before, folder.unused
        return [
            blob
            for blob in unused
            if blob.modified <= before and blob.key in since and since[blob.key].modified <= before
        ]

    async def _sweep_conversation(self, agent: AgentId) -> int:
        """Look again as the owner of the conversation, and delete.

        What was held since the look began is left, and so is everything while a turn is open: its chunks are not in
        the rows yet.
        """
        attachments, directory, deleted = self._directory.attachments, self._directory, 0
        assert attachments is not None
        async with AsyncExitStack() as stack:
            touched = stack.enter_context(attachments.holds.watch())
            for member in await self._family(agent):
                if await self._is_busy(member, stack):
                    return 0
            path = folder_of(agent)
            folder = await self._listed(path, agent)
            for blob in self._due(folder, await self._unused(folder)):
                directory.check_lease(agent)
                deleted += await attachments.holds.delete(attachments.store, blob.key, touched)
            if await self._is_abandoned(await self._listed(path, agent)):
                directory.check_lease(agent)
                await attachments.holds.delete(attachments.store, owner_key(path), touched)
        return deleted

    async def _listed(self, path: str, agent: AgentId | None) -> Folder:
        attachments = self._directory.attachments
        assert attachments is not None
        return _folder(path, agent, [blob async for blob in attachments.store.list(f"{path}/")])

    async def _is_busy(self, agent: AgentId, stack: AsyncExitStack) -> bool:
        """Keep an agent loaded, so that no other process owns it; return whether a turn of it is open.

        An agent without a log is not loaded in a store of one process: that could create it.
        """
        directory = self._directory
        if directory.ownership is None and directory.peek(agent) is None and not await directory.store.has(agent):
            return False
        loaded = await stack.enter_async_context(directory.attach(agent))
        return await loaded.actor.inspect(lambda state: bool(state.open))

    async def _family(self, agent: AgentId) -> list[AgentId]:
        return [agent, *await self._directory.store.agents(children_prefix(agent))]
