"""A link while pages follow it: one reader of the log and one rendering for all of them, at the agent's owner.

A page is a place in nothing: it remembers what it was sent last, and is sent the difference to what is there now. So a
slow page costs no queue. A page of a frozen link is only told that the link is over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import msgspec

from ..core.record import ConversationRecord
from ..errors import AgentGone, AgentStopped, EverywordError, LogUnavailable, OwnedElsewhere
from ..ids import Millis, NodeId
from ..runtime.api.lists import SharedAgent
from ..runtime.directory import Directory
from ..runtime.records import read_record_with_head
from ..transcripts.document import Shown, describe_message, head_of
from ..transcripts.html_page import facts_html
from ..transcripts.live import LiveHead, LiveMessage, changes, head_changes
from ..transcripts.safe_text import storable
from ..wire.sse import KEEP_ALIVE, encode_sse, retry_after
from .event_streams import IDLE
from .shared_views import rendered, with_shown_title

__all__ = ["GONE", "SharedFeeds"]

log = logging.getLogger("everyword.server")

PACE: Final = 0.1
"""Seconds between two renderings: what a model writes meanwhile is sent together."""

RECONNECT: Final = 2000
"""Milliseconds after which a page connects again."""

MOST_BYTES: Final = 64 * 1024
"""Changes are sent together up to about this size."""

GONE: Final = "This link does not work any more: it was revoked."


class Snapshot(NamedTuple):
    """What a page shows at one moment."""

    head: LiveHead | None = None
    messages: Sequence[LiveMessage] = ()

    def changes_to(self, now: Snapshot) -> Iterator[dict[str, Any]]:
        """Yield what a page that shows this has to do to show `now`."""
        yield from head_changes(self.head, now.head) if now.head is not None else ()
        yield from changes(self.messages, now.messages)


class _Feed:
    """What the pages of one link show now."""

    def __init__(self, directory: Directory, shared: SharedAgent, shown: Shown) -> None:
        self._directory, self._shared, self._shown = directory, shared, shown
        self._versions: dict[NodeId, Hashable] = {}
        self._rendered: dict[NodeId, LiveMessage | None] = {}
        self.changed = asyncio.Event()
        """Set at the next change; then there is another one."""
        self.readers = 0
        self.snapshot: Snapshot | None = None
        """None until the log is read, and for a frozen link."""
        self.is_over = False
        """True when the link was revoked, or the conversation deleted."""
        self.is_cut = False
        """True when this node cannot follow the log any more: pages come back, and may find another owner."""
        self.task = asyncio.create_task(self._follow(), name=f"shared link of {shared.agent!r}")

    async def _follow(self) -> None:
        agent = self._shared.agent
        try:
            while not self.is_over:
                await self._follow_until_unloaded()
        except AgentGone:
            self.is_over = True
        except OwnedElsewhere:
            self.is_cut = True
        except EverywordError as exc:
            log.warning("unable to follow a shared link of %r: %s", agent, exc)
            self.is_cut = True
        except Exception:
            log.exception("unable to follow a shared link of %r", agent)
            self.is_cut = True
        finally:
            self._wake()

    async def _follow_until_unloaded(self) -> None:
        """Read the log and follow it, until the link is over or the agent is unloaded."""
        directory, agent, share = self._directory, self._shared.agent, self._shared.share.id
        try:
            async with directory.attach(agent) as loaded:
                # While it is loaded: an erasure unloads the agent, and what was read before must not be shown.
                record, head = await read_record_with_head(directory.store, agent)
                async with loaded.subscribe(head) as subscription:
                    subscription.raise_if_stopped()
                    while record.has_share(share):
                        if not self._shared.share.frozen:  # of a frozen one, pages have what there is
                            await self._render(record)
                        await asyncio.sleep(PACE)
                        for committed in await subscription.next():
                            record.apply(committed.event, committed.at)
            self.is_over = True
        except (AgentGone, OwnedElsewhere):
            raise  # the log is gone; or another node has it, and pages come back to find it
        except (AgentStopped, LogUnavailable):
            if directory.is_stopping:
                raise
            # An erasure unloads the agent and changes earlier events, and then nothing of this may be shown any more.
            self._versions, self._rendered, self.snapshot = {}, {}, None
            await directory.clock.sleep_until(Millis(directory.clock.now() + directory.settings.retry_after))

    async def _render(self, record: ConversationRecord) -> None:
        found: dict[NodeId, LiveMessage | None] = {}
        versions = dict(record.versions())
        for node, version in versions.items():
            before = self._rendered.get(node)
            if node in self._rendered and self._versions[node] == version:
                found[node] = before
                continue
            recorded = record.message(node)
            message = describe_message(recorded, self._shown) if recorded is not None else None
            found[node] = await rendered(node, message, before) if message is not None else None
            await asyncio.sleep(0)  # a long conversation must not hold up the others
        self._versions, self._rendered = versions, found
        self.snapshot = Snapshot(self._head(record), [each for each in found.values() if each is not None])
        self._wake()

    def _head(self, record: ConversationRecord) -> LiveHead | None:
        if record.summary is None:
            return None
        summary = with_shown_title(record.summary, record.messages())
        head = head_of(summary, "", "", self._directory.clock.now(), self._shown)
        return LiveHead(storable(head.title), facts_html(head))

    def _wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


class SharedFeeds:
    """The live links that pages of this node follow."""

    def __init__(self) -> None:
        self._feeds: dict[str, _Feed] = {}

    async def follow(self, directory: Directory, shared: SharedAgent, shown: Shown) -> AsyncGenerator[bytes, None]:
        """Yield what a page has to show, as server-sent events, until the link is over."""
        yield retry_after(RECONNECT)
        with self._joined(directory, shared, shown) as feed:
            seen = Snapshot()
            is_first = True
            while not feed.is_cut:
                changed, now = feed.changed, feed.snapshot
                if feed.is_over:
                    yield _event([{"type": "over", "text": GONE}])
                    return
                if now is not None:
                    given = ({"type": "clear"},) if is_first else ()
                    for piece in _events([*given, *seen.changes_to(now)]):
                        yield piece
                    seen, is_first = now, False
                try:
                    async with asyncio.timeout(IDLE):
                        await changed.wait()
                except TimeoutError:
                    yield KEEP_ALIVE

    @contextmanager
    def _joined(self, directory: Directory, shared: SharedAgent, shown: Shown) -> Iterator[_Feed]:
        digest = shared.share.digest
        feed = self._feeds.get(digest)
        if feed is None or feed.task.done():
            feed = self._feeds[digest] = _Feed(directory, shared, shown)
        feed.readers += 1
        try:
            yield feed
        finally:
            feed.readers -= 1
            if not feed.readers:
                feed.task.cancel()
                if self._feeds.get(digest) is feed:
                    del self._feeds[digest]


def _events(given: Sequence[dict[str, Any]]) -> Iterator[bytes]:
    """Yield changes as events of a moderate size."""
    together: list[bytes] = []
    size = 0
    for change in given:
        encoded = msgspec.json.encode(change)
        together.append(encoded)
        size += len(encoded)
        if size >= MOST_BYTES:
            yield encode_sse(b"[%b]" % b",".join(together))
            together, size = [], 0
    if together:
        yield encode_sse(b"[%b]" % b",".join(together))


def _event(given: Sequence[dict[str, Any]]) -> bytes:
    return b"".join(_events(given))
