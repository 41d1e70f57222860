"""Attachments of the agents of one app: uploads, contents of messages, reading, and what protects a blob from deletion.

The order that makes a crash harmless: a content is written and on the disk, then the message that refers to it is
committed. A blob without a message is deleted some time later (`attachment_sweep`). Whoever is about to commit a
reference holds the blob meanwhile, so the sweep does not delete it between its look at the messages and the commit.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import logging
import secrets
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Container, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from ..attachments.base import INCOMING, Blob, BlobStore, pieces_of
from ..attachments.keys import blob_key, folder_of, owner_key, unused_key
from ..attachments.media_types import SNIFFED, media_type_problem, stored_type
from ..attachments.signatures import LinkSigner
from ..errors import AttachmentRefused, UsageError
from ..events import Identity
from ..ids import AgentId, root_id
from ..messages.attachments import (
    MovedFile,
    attachment_url,
    find_references,
    large_data_urls,
    move_data_urls,
    referenced_by,
    with_agent_path,
)
from .attachment_quota import AttachmentQuota, Reservation

__all__ = ["AttachmentRules", "Attachments", "Scan", "Upload", "copying", "storing"]

log = logging.getLogger("everyword.runtime")

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Upload:
    """A content that is about to be stored, for the app's own check."""

    kind: str
    """The kind of the root agent."""
    name: str
    """Its name."""
    media_type: str
    filename: str | None
    size: int
    sha256: str
    principal: Identity | None
    """Who sent it; None for the agent's own code."""
    read: Callable[[], AsyncIterator[bytes]]
    """Reads it in pieces, from the beginning each time."""


Scan = Callable[[Upload], Awaitable[str | bool | None] | str | bool | None]
"""The app's own check: True or None to store it; False, or a text for the sender, to refuse it."""


@dataclass(frozen=True, slots=True)
class AttachmentRules:
    """What may be stored, and where clients find it."""

    prefix: str = "/agents"
    """What stands before the agent's path in a URL."""
    inline_limit: int = 16 * 1024
    """A `data:` URL of more characters is moved out of its message."""
    media_types: Sequence[str] = ("*/*",)
    upload: int = 128 * 1024 * 1024
    """Most bytes of one content."""
    conversation: int = 2 * 1024 * 1024 * 1024
    """Most bytes of all contents of one conversation."""
    grace: int = 24 * 60 * 60 * 1000
    """For how many milliseconds a blob without a reference is kept."""
    scan: Scan | None = None
    gives_links: bool = False
    """Whether models are given signed links, and not bytes."""


class Attachments:
    """The attachments of an app. All of an agent's are used by the process that owns the agent, except for reading."""

    def __init__(self, store: BlobStore, rules: AttachmentRules | None = None, key: bytes | None = None) -> None:
        self.store, self.rules = store, rules if rules is not None else AttachmentRules()
        self.signer = LinkSigner(store, key)
        self.prefix = self.rules.prefix
        """What stands before an agent's path in a URL that is not made for one client."""
        self._holds = BlobHolds()
        self._quota = AttachmentQuota(store, self.rules.conversation)

    @property
    def holds(self) -> BlobHolds:
        """Blobs that are about to be referred to, and blobs that are being deleted."""
        return self._holds

    def holding(self, agent: AgentId, hashes: Iterable[str]) -> AbstractAsyncContextManager[None]:
        """Keep contents of an agent, and its folder, from being deleted inside the block."""
        return self._holds.hold([owner_key(folder_of(agent)), *(blob_key(agent, each) for each in hashes)])

    def url(self, agent: AgentId, sha256: str, prefix: str | None = None) -> str:
        """Return the URL of a content, as it stands in a message; `prefix` is where this client finds the agents."""
        return attachment_url(prefix if prefix is not None else self.prefix, agent, sha256)

    # -- writing ---------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def storing(
        self,
        agent: AgentId,
        messages: Sequence[JsonObject],
        *,
        prefix: str | None = None,
        sender: Identity | None = None,
        unmoved: Container[str] = (),
    ) -> AsyncIterator[Sequence[JsonObject]]:
        """Move large `data:` URLs out of messages; yield the messages to commit inside the block.

        Their contents are stored when the block begins, and held until it ends. Messages with an id in `unmoved` stay
        as they are.

        Raises:
            AttachmentRefused: one of them may not be stored.
            AttachmentsUnavailable: the store cannot be used.
        """
        contents: list[MovedFile] = []
        limit = self.rules.inline_limit
        large = [each for each in messages if large_data_urls(each, limit) and each["id"] not in unmoved]
        if large:
            moved, contents = await asyncio.to_thread(
                move_data_urls, large, limit, lambda sha256: self.url(agent, sha256, prefix), stored_type
            )
            by_place = {id(old): new for old, new in zip(large, moved, strict=True)}
            messages = [by_place.get(id(each), each) for each in messages]
        async with self.holding(agent, referenced_by(messages)):
            await self._keep_files(agent, contents, sender)
            yield messages

    async def put(
        self, agent: AgentId, content: bytes, media_type: str, filename: str | None, sender: Identity | None = None
    ) -> JsonObject:
        """Store a content that is in memory; return the file part for a message."""
        media_type = stored_type(media_type, content[:SNIFFED])
        sha256 = await asyncio.to_thread(lambda: hashlib.sha256(content).hexdigest())
        async with self.holding(agent, [sha256]), self._writing(agent) as reserved:
            await self._keep(agent, reserved, content, sha256, media_type, filename, sender)
        return self._part(agent, sha256, media_type, filename, None)

    async def upload(
        self,
        agent: AgentId,
        pieces: AsyncIterable[bytes],
        media_type: str,
        filename: str | None,
        *,
        size: int = 0,
        prefix: str | None = None,
        sender: Identity | None = None,
    ) -> JsonObject:
        """Store a content that arrives in pieces, never more than a few of them in memory; return its file part.

        A `media_type` that is not that of the content may be replaced; see `stored_type`. Room for `size` bytes, if the
        size is known, is reserved at once: of uploads at the same time, those that fit are stored.

        Raises:
            AttachmentRefused: it is too large, or may not be stored.
        """
        incoming = f"{INCOMING}/{secrets.token_hex(16)}"
        async with self._quota.reserving(folder_of(agent)) as reserved:
            reserved.add(size)
            measured = _Measured(pieces, self.rules.upload, reserved, size)
            try:
                await self.store.put(incoming, measured.pieces())
                sha256, media_type = measured.digest.hexdigest(), stored_type(media_type, measured.first)
                await self._check(agent, incoming, sha256, media_type, filename, measured.size, measured.first, sender)
                key = blob_key(agent, sha256)
                async with self.holding(agent, [sha256]), self._writing(agent):
                    is_new = await self.store.find(key) is None
                    await self.store.move(incoming, key)  # also a known one: its grace time begins anew
            except BaseException:
                await asyncio.shield(self.store.delete(incoming))
                raise
            if is_new:
                reserved.confirm()
        return self._part(agent, sha256, media_type, filename, prefix)

    async def _keep_files(self, agent: AgentId, files: Sequence[MovedFile], sender: Identity | None) -> None:
        """Store the contents of messages that are not stored yet."""
        # A client sends its history again, and with it contents of which it has not heard where they are.
        new = [each for each in files if await self.store.find(blob_key(agent, each.sha256)) is None]
        if not new:
            return
        async with self._writing(agent) as reserved:
            for each in new:
                try:
                    await self._keep(agent, reserved, each.content, each.sha256, each.media_type, each.filename, sender)
                except AttachmentRefused as exc:
                    raise AttachmentRefused(
                        f"unable to take message {each.message[:100]!r}; {str(exc).partition('; ')[2]}",
                        status=exc.status,
                    ) from exc

    async def _keep(
        self,
        agent: AgentId,
        reserved: Reservation,
        content: bytes,
        sha256: str,
        media_type: str,
        filename: str | None,
        sender: Identity | None,
    ) -> None:
        if len(content) > self.rules.upload:
            raise _too_large(self.rules.upload)
        key, incoming = blob_key(agent, sha256), f"{INCOMING}/{secrets.token_hex(16)}"
        is_new = await self.store.find(key) is None
        if is_new:
            reserved.add(len(content))
        first = content[:SNIFFED]
        if self.rules.scan is None:
            await self._check(agent, key, sha256, media_type, filename, len(content), first, sender)
            await self.store.put(key, pieces_of(content))
        else:
            try:
                await self.store.put(incoming, pieces_of(content))
                await self._check(agent, incoming, sha256, media_type, filename, len(content), first, sender)
                await self.store.move(incoming, key)
            except BaseException:
                await asyncio.shield(self.store.delete(incoming))
                raise
        if is_new:
            reserved.confirm()

    async def _check(
        self,
        agent: AgentId,
        key: str,
        sha256: str,
        media_type: str,
        filename: str | None,
        size: int,
        first: bytes,
        sender: Identity | None,
    ) -> None:
        """Refuse an empty content, a type that is not allowed, and what the app's own check refuses."""
        if not size:
            raise AttachmentRefused("unable to store the file; it is empty")
        problem = media_type_problem(media_type, first, self.rules.media_types)
        if problem is not None:
            raise AttachmentRefused(f"unable to store the file; {problem}", status=415)
        if self.rules.scan is None:
            return
        kind, _, name = root_id(agent).partition("/")
        given = Upload(kind, name, media_type, filename, size, sha256, sender, lambda: self.store.read(key))
        try:
            verdict = self.rules.scan(given)
            verdict = await verdict if inspect.isawaitable(verdict) else verdict
        except Exception:
            log.exception("the check of an upload to %r raised; the upload is refused", agent)
            raise AttachmentRefused(
                "unable to store the file; it could not be checked. Try again later.", status=503
            ) from None
        if verdict is not None and verdict is not True:
            why = verdict if isinstance(verdict, str) else "it was refused"
            raise AttachmentRefused(f"unable to store the file; {why}")

    @asynccontextmanager
    async def _writing(self, agent: AgentId) -> AsyncIterator[Reservation]:
        """Write contents of a conversation inside the block; its folder says which agent it belongs to.

        A folder that does not say so is never swept. The agent's id is written before the contents, because of crashes,
        and looked for again after them, because the folder may have been deleted meanwhile, here or by another node.
        """
        await self._name_folder(agent)
        async with self._quota.reserving(folder_of(agent)) as reserved:
            yield reserved
        await self._name_folder(agent)

    async def _name_folder(self, agent: AgentId) -> None:
        name = owner_key(folder_of(agent))
        if await self.store.find(name) is None:
            await self.store.put(name, pieces_of(root_id(agent).encode()))

    def _part(
        self, agent: AgentId, sha256: str, media_type: str, filename: str | None, prefix: str | None
    ) -> JsonObject:
        named = {"filename": filename} if filename else {}
        return {"type": "file", "mediaType": media_type, **named, "url": self.url(agent, sha256, prefix)}

    async def copy(self, source: AgentId, target: AgentId, hashes: Iterable[str]) -> None:
        """Copy contents to another conversation, piece by piece; what is not stored is left out."""
        async with self._writing(target):
            for sha256 in hashes:
                blob = await self.store.find(blob_key(source, sha256))
                if blob is not None:
                    await self.store.put(blob_key(target, sha256), self.read(source, sha256))

    # -- reading ---------------------------------------------------------------------------------------------------

    async def find(self, agent: AgentId, sha256: str) -> Blob | None:
        """Return size and time of a content; None if it is not stored."""
        return await self.store.find(blob_key(agent, sha256))

    def read(self, agent: AgentId, sha256: str, start: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        """Yield a content in pieces, or a part of it.

        Raises:
            AttachmentMissing: it is not stored.
        """
        return self.store.read(blob_key(agent, sha256), start, length)

    def read_now(self, agent: AgentId, sha256: str, length: int | None = None) -> bytes:
        """Return a content at once, or its first `length` bytes.

        Raises:
            AttachmentMissing: it is not stored.
            UsageError: the store cannot be read without waiting.
        """
        read = getattr(self.store, "read_now", None)
        if read is None:
            raise UsageError(
                "unable to give attachments to a model; object storage cannot be read without waiting. Convert "
                "`await self.attachments.for_model(self.messages)` instead of `self.messages`"
            )
        content: bytes = read(blob_key(agent, sha256), length)
        return content

    # -- deleting --------------------------------------------------------------------------------------------------

    async def drop(self, agent: AgentId) -> None:
        """Delete everything of a conversation, if this is its root agent; called when the agent is destroyed."""
        if agent != root_id(agent):
            return
        for _ in range(2):  # a sweep, here or on another node, may store a note about a blob after the first look
            for blob in [each async for each in self.store.list(f"{folder_of(agent)}/")]:
                await self.store.delete(blob.key)


@asynccontextmanager
async def storing(
    attachments: Attachments | None,
    agent: AgentId,
    messages: Sequence[JsonObject],
    *,
    prefix: str | None = None,
    sender: Identity | None = None,
    unmoved: Container[str] = (),
) -> AsyncIterator[Sequence[JsonObject]]:
    """`Attachments.storing`, which leaves the messages as they are if there is no place for attachments."""
    if attachments is None:
        yield messages
        return
    async with attachments.storing(agent, messages, prefix=prefix, sender=sender, unmoved=unmoved) as moved:
        yield moved


@asynccontextmanager
async def copying(
    attachments: Attachments | None, source: AgentId, target: AgentId, messages: Sequence[JsonObject]
) -> AsyncIterator[Sequence[JsonObject]]:
    """Copy the attachments of messages to another agent; yield the messages with its URLs, to commit in the block.

    A content that is not stored any more is left out.
    """
    body = msgspec.json.encode(messages)
    hashes = find_references(body)
    if attachments is None or not hashes:
        yield messages
        return
    async with attachments.holding(target, hashes):
        if folder_of(source) != folder_of(target):
            await attachments.copy(source, target, hashes)
        yield msgspec.json.decode(with_agent_path(body, source, target))


class BlobHolds:
    """Which blobs are about to be referred to, and which are being deleted: never the same one at the same time."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()
        self._deleting: dict[str, asyncio.Future[None]] = {}
        self._touched: dict[object, set[str]] = {}
        self.sweeping = asyncio.Lock()
        """Held by a sweep: another one would note what this one deletes."""

    @asynccontextmanager
    async def hold(self, keys: Iterable[str]) -> AsyncIterator[None]:
        """Keep blobs from being deleted inside the block; waits for deletions that have begun."""
        taken = list(keys)
        self._held.update(taken)
        for touched in self._touched.values():
            touched.update(taken)
        try:
            while deleting := [self._deleting[key] for key in taken if key in self._deleting]:
                await asyncio.wait(deleting)
            yield
        finally:
            self._held.subtract(taken)
            for key in taken:
                if self._held[key] <= 0:
                    del self._held[key]

    @contextmanager
    def watch(self) -> Iterator[set[str]]:
        """Yield the set of blobs that were held at any time since the block began."""
        watch, touched = object(), set(self._held)
        self._touched[watch] = touched
        try:
            yield touched
        finally:
            del self._touched[watch]

    async def delete(self, store: BlobStore, key: str, touched: set[str]) -> bool:
        """Delete a blob unless it was held since the watch began; return whether it was deleted."""
        if key in touched:
            return False
        if (other := self._deleting.get(key)) is not None:  # of another sweep
            await asyncio.wait([other])
            return False
        done = self._deleting[key] = asyncio.get_running_loop().create_future()
        try:
            await store.delete(key)
            await store.delete(unused_key(key))
        finally:
            del self._deleting[key]
            done.set_result(None)
        return True


class _Measured:
    """The pieces of an upload while they pass: their size, their hash and their first bytes."""

    def __init__(self, pieces: AsyncIterable[bytes], most: int, reserved: Reservation, announced: int) -> None:
        self._pieces, self._most, self._reserved, self._announced = pieces, most, reserved, announced
        self.size, self.first, self.digest = 0, b"", hashlib.sha256()

    async def pieces(self) -> AsyncIterator[bytes]:
        async for piece in self._pieces:
            self.size += len(piece)
            if self.size > self._most:
                raise _too_large(self._most)
            self._reserved.add(max(0, min(len(piece), self.size - self._announced)))
            if len(self.first) < SNIFFED:
                self.first = (self.first + piece)[:SNIFFED]
            self.digest.update(piece)
            yield piece


def _too_large(most: int) -> AttachmentRefused:
    return AttachmentRefused(
        f"unable to store the file; it is larger than {most / 1024 / 1024:g} MiB, the limit of this server", status=413
    )
