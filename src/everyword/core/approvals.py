"""Which principal approved which call, for the tool that runs because of it (R-35). The newest are kept."""

from __future__ import annotations

from typing import Final

import msgspec

from ..events import CallAnswered, Identity
from ..ids import CallId, Millis
from ..messages.tool_calls import ApprovalAnswer
from ..rows import KeptRow
from .commands import AnswerToolCall
from .state import Approved, State

__all__ = ["APPROVAL", "approval_row", "approval_rows", "approval_to_remove", "evolve_approval", "restore_approval"]

APPROVAL: Final = "approval"
"""The kind of the rows of approvals."""

RECENT_APPROVALS: Final = 128
"""How many approvals are kept. An approved call runs soon, so the calls of older approvals have run."""


class _StoredApproval(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of an approval's row."""

    by: Identity
    at: Millis


def approval_to_remove(state: State, command: AnswerToolCall) -> CallId | None:
    """Return the call whose approval is removed to make room for a new one; None if there is room."""
    if command.principal is None or not isinstance(command.answer, ApprovalAnswer) or not command.answer.approved:
        return None
    return next(iter(state.approvals)) if len(state.approvals) >= RECENT_APPROVALS else None


def evolve_approval(state: State, event: CallAnswered, at: Millis) -> None:
    """Keep the principal that approved a call."""
    if event.forgets is not None:
        state.approvals.pop(event.forgets, None)
    if event.principal is not None and event.kind == "approval" and msgspec.json.decode(event.value).get("approved"):
        state.approvals[event.call] = Approved(event.principal, at)


def approval_rows(state: State, event: CallAnswered) -> list[KeptRow]:
    """Return the rows that the event changed."""
    changed = [call for call in (event.call, event.forgets) if call is not None]
    return [approval_row(state, call) for call in changed if call in state.approvals or call == event.forgets]


def approval_row(state: State, call: CallId) -> KeptRow:
    """Return the row of an approval; without a body if the approval was removed."""
    found = state.approvals.get(call)
    body = msgspec.json.encode(_StoredApproval(found.by, found.at)) if found is not None else None
    return KeptRow(APPROVAL, call, body)


def restore_approval(row: KeptRow) -> Approved:
    """Return the approval of a row.

    Raises:
        msgspec.DecodeError: the row is unreadable.
    """
    kept = msgspec.json.decode(row.body or b"", type=_StoredApproval)
    return Approved(kept.by, kept.at)
