"""Files in the messages that a client sends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from ..core.state import State
from ..events import Identity
from ..messages.attachments import large_data_urls
from ..runtime.attachments import Attachments, storing
from ..runtime.directory import LoadedAgent

__all__ = ["stored_inside", "storing_files"]

JsonObject = dict[str, Any]


@asynccontextmanager
async def storing_files(
    attachments: Attachments | None,
    loaded: LoadedAgent,
    messages: Sequence[JsonObject],
    *,
    prefix: str | None,
    sender: Identity | None,
) -> AsyncIterator[Sequence[JsonObject]]:
    """Move large `data:` URLs out of a client's messages; see `Attachments.storing`.

    Messages that are stored with these `data:` URLs stay as they are: they would be edits, and a rule for files that
    is newer than the conversation would end it.
    """
    unmoved: frozenset[str] = frozenset()
    if attachments is not None:
        limit = attachments.rules.inline_limit
        if any(large_data_urls(message, limit) for message in messages):
            unmoved = await loaded.actor.inspect(lambda state: stored_inside(state, messages, limit))
    async with storing(
        attachments, loaded.actor.agent, messages, prefix=prefix, sender=sender, unmoved=unmoved
    ) as moved:
        yield moved


def stored_inside(state: State, messages: Sequence[JsonObject], limit: int) -> frozenset[str]:
    """Return the ids of messages that are stored with their large `data:` URLs, since before there were attachments."""
    known, found = state.tree.known_ids(), set[str]()
    for message in messages:
        urls = large_data_urls(message, limit)
        node = state.tree.node_of_message(message["id"]) if urls and message["id"] in known else None
        body = state.tree.nodes[node].body if node is not None else None
        if body is not None and urls <= large_data_urls(msgspec.json.decode(body), limit):
            found.add(message["id"])
    return frozenset(found)
