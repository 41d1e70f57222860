"""Versions of a conversation as agents' own code knows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...ids import MessageId, NodeId
from ...messages.message import UIMessage

__all__ = ["VersionRecord", "VersionedPlace"]


@dataclass(frozen=True, slots=True)
class VersionRecord:
    """One of the messages that stand in one place of the conversation; `is_shown` is true of one of them at most."""

    node: NodeId
    message: UIMessage
    is_shown: bool


@dataclass(frozen=True, slots=True)
class VersionedPlace:
    """A place of the shown conversation that has other versions. `shown` is an index into `versions`.

    `message` and `shown` are None where an answer ended without a word.
    """

    message: MessageId | None
    after: MessageId | None
    versions: Sequence[NodeId]
    shown: int | None
