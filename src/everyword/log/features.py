"""What later releases write that earlier ones do not know: allowed only when every live node knows it (N-6).

Nodes of two neighbouring releases run side by side during a deploy, and any of them may have to continue any agent. So
a release that brings a new kind of event, or fills a new column, lists it here with the version of the PostgreSQL
schema that it brings (`log/postgres/sql/migrations`; a script with only a comment will do), and asks `is_usable` before
each use. The first time that it is usable, nodes of older releases are shut out for good: they could not read what
follows. A deploy can be rolled back until then. A store of one process has no other nodes; there everything is usable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from .nodes import NodeMembership

__all__ = ["CONVERSATIONS", "FEATURES", "SEARCH", "SHARES", "Feature", "is_usable"]


class Feature(NamedTuple):
    """Something that is written by releases from one version of the schema on."""

    name: str
    version: int
    """The version of the PostgreSQL schema that came with it."""
    kinds: frozenset[str] = frozenset()
    """The kinds of events that it brought."""


CONVERSATIONS: Final = Feature(
    "conversations", 5, frozenset({"approval.requested", "conversation.changed", "conversation.read"})
)
"""Titles, owners, archived conversations, read positions, and what is said about a call that waits for an approval."""

SEARCH: Final = Feature("search", 6)
"""Texts that are indexed: an owner that does not know them would leave the text of a removed message to be found."""

SHARES: Final = Feature("shared links", 7, frozenset({"share.created", "share.revoked"}))
"""Links with which clients without an account read a conversation."""

FEATURES: Final[Sequence[Feature]] = (CONVERSATIONS, SEARCH, SHARES)
"""Every feature since the first release with several nodes, oldest first. What that release wrote is not listed."""


async def is_usable(feature: Feature, nodes: NodeMembership | None) -> bool:
    """Return whether the feature may be used in the store with these nodes; None for a store of one process.

    Raises:
        LogError: the store cannot be asked.
    """
    return nodes is None or await nodes.every_node_knows(feature.version)
