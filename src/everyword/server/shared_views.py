"""The contents of a shared link: its settings, its messages, and their attachments.

Pages, JSON, live changes and files all take it from here, so a file can be read only if a message of the page has it.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from ..core.conversations import short_title
from ..core.record import RecordedMessage
from ..ids import AgentId, NodeId, Seq, root_id
from ..log.base import LogStore, Stored
from ..messages.attachments import agent_path, attachment_hash, find_references
from ..rows import ConversationSummary
from ..runtime.api.lists import SharedAgent
from ..runtime.records import read_frozen_record, read_head, read_record_with_head
from ..transcripts.document import (
    DataPart,
    FilePart,
    FileUrl,
    Shown,
    ToolCallPart,
    TranscriptMessage,
    describe_message,
    is_large,
)
from ..transcripts.live import LiveMessage, render
from ..transcripts.urls import data_image, link_target, shared_file_url

__all__ = [
    "AT_ONCE",
    "Form",
    "SharedView",
    "VisibleFiles",
    "described_messages",
    "read_view",
    "rendered",
    "shown_of",
    "with_shown_title",
]

Form = Literal["html", "json", "stream", "file"]

AT_ONCE: Final = 2
"""Maximum number of links that are read from the log at the same time."""

REMEMBERED: Final = 200
"""Maximum number of links whose files are remembered."""

REMEMBERED_FOR: Final = 10_000
"""Milliseconds for which the files of a link are remembered. A page asks for all its photos within that time."""

PAGE: Final = 256

_ATTACHMENT: Final = re.compile(r"/attachments/[0-9a-f]{16}")


class SharedView(NamedTuple):
    """A link that works, and how it is asked for."""

    shared: SharedAgent
    token: str
    shown: Shown
    form: Form


def shown_of(shared: SharedAgent, token: str, *, has_files: bool) -> Shown:
    """Return what a link shows; `has_files` tells whether the app has a place for attachments."""
    shows = shared.share.shows
    linked = token if shows.files and has_files else None
    return Shown(
        reasoning=shows.reasoning,
        tools=shows.tools,
        data=shows.data,
        people=shows.people,
        address=False,
        system=False,
        files=shows.files,
        file_url=_file_url(linked),
        value=_without_address(shared.agent, linked),
    )


def _file_url(token: str | None) -> FileUrl:
    def file_url(part: Any) -> str | None:
        """Return a URL that readers can open: of an attachment below the link, of a picture, or of another server."""
        url = part.get("url")
        if not isinstance(url, str):
            return None
        if (sha256 := attachment_hash(url)) is not None:
            # Also where it is absolute (`AttachmentOptions.public_url`): the path of an attachment names the agent.
            return shared_file_url(token, sha256) if token is not None else None
        is_elsewhere = not url.startswith("/") and link_target(url) is not None and not _ATTACHMENT.search(url)
        return url if data_image(url) is not None or is_elsewhere else None

    return file_url


def _without_address(agent: AgentId, token: str | None) -> Callable[[Any], Any]:
    """Return a function that removes the agent's name from URLs of attachments in a value, such as a tool's output."""
    path = re.escape(agent_path(root_id(agent)).encode())
    before = rb"(?:https?://[^/\"\s]+)?(?:/[^/\"\s]+){0,8}?"
    url = re.compile(before + path + rb"(?:/sub/[^/\"\s]+/[^/\"\s]+)*/attachments/([0-9a-f]{64})")

    def without_address(value: Any) -> Any:
        body = msgspec.json.encode(value)
        if not find_references(body):
            return value
        place = f"{token}/files/" if token is not None else "attachments/"
        return msgspec.json.decode(url.sub(lambda found: place.encode() + found[1], body))

    return without_address


class SharedConversation(NamedTuple):
    """The conversation of a link, before anything is hidden."""

    summary: ConversationSummary
    messages: Iterator[RecordedMessage]
    head: Seq
    """The last event of the log that was read; only if that was asked for, for a frozen link."""


async def read_view(store: LogStore, shared: SharedAgent, *, to_head: bool = False) -> SharedConversation | None:
    """Return what a link shows; None if it was revoked meanwhile. With `to_head`, `head` is that of the log."""
    agent, digest = shared.agent, shared.share.digest
    if not shared.share.frozen:
        record, head = await read_record_with_head(store, agent)
        summary = record.summary
        if summary is None or not record.has_share(shared.share.id):
            return None
        return SharedConversation(with_shown_title(summary, record.messages()), record.messages(), head)
    found = await read_frozen_record(store, agent, digest)
    if found is None or found[0].summary is None:
        return None
    frozen, head = found
    if to_head:
        head = await read_head(store, agent, head)
    # Messages that were removed since are not shown.
    there = {row.node: row.body is not None for row in (await store.conversation(agent))[1]}

    def shown() -> Iterator[RecordedMessage]:
        return (each for each in frozen.ended_messages() if there.get(each.node, False) or each.message is None)

    return SharedConversation(with_shown_title(found[0].summary, shown()), shown(), head)


def with_shown_title(summary: ConversationSummary, messages: Iterator[RecordedMessage]) -> ConversationSummary:
    """Return the summary with the first question that readers see: theirs may be on another branch, or removed."""
    first = next((each.message for each in messages if each.role == "user" and each.message is not None), None)
    texts = [part.get("text") for part in first.parts if part["type"] == "text"] if first is not None else []
    return replace(summary, question=short_title(" ".join(text for text in texts if isinstance(text, str))))


def described_messages(
    messages: Iterator[RecordedMessage], shown: Shown
) -> Iterator[tuple[RecordedMessage, TranscriptMessage]]:
    """Yield the messages that readers see, each beside what it is made from."""
    for recorded in messages:
        described = describe_message(recorded, shown)
        if described is not None:
            yield recorded, described


async def rendered(node: NodeId, message: TranscriptMessage, before: LiveMessage | None = None) -> LiveMessage:
    """Return `render(…)`, by a thread if the message is large."""
    if is_large(message):
        return await asyncio.to_thread(render, node, message, before)
    return render(node, message, before)


class _Known(NamedTuple):
    files: frozenset[str]
    head: Seq
    """The last event of the log that was read."""
    until: int


class VisibleFiles:
    """Knows which attachments links show. What it remembers holds until the log has an event that may change it.

    An erasure changes a log without a new event; therefore nothing is remembered for long.
    """

    def __init__(self, slots: asyncio.Semaphore) -> None:
        self._slots = slots
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._reading: dict[str, asyncio.Lock] = {}

    async def shows(self, store: LogStore, view: SharedView, sha256: str, now: int) -> bool:
        """Return whether a message that the link shows has the attachment."""
        digest = view.shared.share.digest
        files = await self._remembered(store, view, now)
        if files is None:
            lock = self._reading.setdefault(digest, asyncio.Lock())
            try:
                async with lock:
                    files = await self._remembered(store, view, now)  # another request may have read them meanwhile
                    files = files if files is not None else await self._read(store, view, now)
            finally:
                if not lock.locked() and self._reading.get(digest) is lock:
                    del self._reading[digest]
        return sha256 in files

    async def _remembered(self, store: LogStore, view: SharedView, now: int) -> frozenset[str] | None:
        digest = view.shared.share.digest
        known = self._known.get(digest)
        if known is None or known.until <= now:
            return None
        while page := await store.read(view.shared.agent, known.head, PAGE):
            if not all(_changes_no_files(each) for each in page):
                return None
            known = self._known[digest] = known._replace(head=page[-1].seq)
        return known.files

    async def _read(self, store: LogStore, view: SharedView, now: int) -> frozenset[str]:
        digest = view.shared.share.digest
        async with self._slots:
            found = await read_view(store, view.shared, to_head=True)
            if found is None:
                return frozenset()
            files = set[str]()
            for _, described in described_messages(found.messages, view.shown):
                files |= _files_of(described, view.token)
                await asyncio.sleep(0)  # a long conversation must not hold up the others
        known = self._known[digest] = _Known(frozenset(files), found.head, now + REMEMBERED_FOR)
        self._known.move_to_end(digest)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return known.files


def _files_of(message: TranscriptMessage, token: str) -> set[str]:
    """Return the hashes of the attachments that a message shows, as a file or in the output of a tool."""
    parts = [part for part in message.parts if isinstance(part, FilePart | ToolCallPart | DataPart)]
    url = re.compile(rb"%b([0-9a-f]{64})(?![0-9a-f])" % shared_file_url(token, "").encode())
    return {found.decode() for found in url.findall(msgspec.json.encode(parts))} if parts else set()


def _changes_no_files(stored: Stored) -> bool:
    return stored.kind == "chunk" and not find_references(stored.body)
