"""Shared links: tokens with which anyone may read the conversation. A fold of the log, kept as a row per link.

A link ends when it is revoked, and when the conversation is cleared. An expired one is forgotten with the next change.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from ..errors import Rejected
from ..events import ChatCleared, Event, ShareCreated, ShareRevoked
from ..ids import Millis, ShareId
from ..rows import SHARE, KeptRow, Participant, ShareRecord
from .commands import CreateShare, RevokeShare
from .state import State

__all__ = ["MOST_SHARES", "decide_share", "evolve_share", "restore_share", "share_rows"]

MOST_SHARES: Final = 100
"""The links of one conversation that have not expired."""


def decide_share(state: State, command: CreateShare | RevokeShare, now: Millis) -> list[Event]:
    """Return the event that a command about a link causes.

    Raises:
        Rejected: there is nothing to share, or there are too many links.
    """
    if isinstance(command, RevokeShare):
        known = command.share in state.shares
        return [ShareRevoked(command.share, command.principal)] if known else []
    if state.conversation is None:
        raise Rejected("unable to share the conversation; it has no messages yet")
    if sum(not each.is_over(now) for each in state.shares.values()) >= MOST_SHARES:
        raise Rejected(f"unable to share the conversation; it has {MOST_SHARES} links, the limit. Revoke some first.")
    return [
        ShareCreated(
            command.share,
            command.digest,
            frozen=command.frozen,
            expires_at=command.expires_at,
            shows=command.shows,
            label=command.label,
            principal=command.principal,
        )
    ]


def evolve_share(state: State, event: Event, at: Millis) -> list[KeptRow]:
    """Apply an event to the links; return the rows that changed."""
    match event:
        case ShareCreated():
            over = _forget(state, [share for share, each in state.shares.items() if each.is_over(at)])
            who = event.principal
            state.shares[event.share] = record = ShareRecord(
                event.share,
                event.digest,
                at,
                frozen=event.frozen,
                expires_at=event.expires_at,
                shows=event.shows,
                label=event.label,
                created_by=Participant(who.id, who.name) if who is not None else None,
            )
            return [*over, _row(record)]
        case ShareRevoked():
            return _forget(state, [event.share])
        case ChatCleared():
            return _forget(state, list(state.shares))
        case _:
            return []


def _forget(state: State, shares: Iterable[ShareId]) -> list[KeptRow]:
    gone = [state.shares.pop(share) for share in shares if share in state.shares]
    return [KeptRow(SHARE, each.digest, None) for each in gone]


def _row(record: ShareRecord) -> KeptRow:
    return KeptRow(SHARE, record.digest, msgspec.json.encode(record))


def share_rows(state: State) -> list[KeptRow]:
    """Return the rows of all links."""
    return [_row(each) for each in state.shares.values()]


def restore_share(row: KeptRow) -> ShareRecord:
    """Return the link of a row.

    Raises:
        msgspec.DecodeError: the row is unreadable.
    """
    return msgspec.json.decode(row.body or b"", type=ShareRecord)
