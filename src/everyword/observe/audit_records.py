"""The records of the audit trail, made from access decisions and from committed events. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw

from ..events import (
    ABSENT,
    AgentDestroyed,
    ApprovalRequested,
    CallAnswered,
    CancelRequested,
    ChatCleared,
    ConversationChanged,
    ConversationRead,
    Event,
    Identity,
    ShareCreated,
    ShareRevoked,
    TurnAccepted,
    kind_of,
)
from ..ids import AgentId, Millis, Seq, split_agent_id
from .api import AccessDecision

__all__ = ["RECORDED", "AuditRecord", "Who", "record_of_decision", "record_of_event"]

MOST_ARGUMENTS: Final = 16 * 1024
"""Maximum size of arguments in a record, in bytes. Of larger ones the record has the size and the SHA-256."""

RECORDED: Final = frozenset(
    {
        "turn.accepted",
        "turn.cancel_requested",
        "approval.requested",
        "call.answered",
        "conversation.changed",
        "conversation.read",
        "chat.cleared",
        "share.created",
        "share.revoked",
        "agent.destroyed",
    }
)
"""The kinds of events that have a record."""


class Who(msgspec.Struct, frozen=True, omit_defaults=True):
    """The principal of a record. Its claims are not recorded."""

    id: str
    name: str | None = None


class AuditRecord(msgspec.Struct, frozen=True):
    """One line of the audit trail."""

    time: Millis
    """Milliseconds since 1970: of the decision, or of the commit."""
    action: str
    """An action of `authorize`; or `authenticate`, `request-approval`, `unshare`, `destroy`, `export`, `erase` or
    `miss`."""
    outcome: Literal["allowed", "refused", "committed", "done"]
    """`allowed` or `refused`: a decision about a client, before anything was done. `committed`: an event is in the log.
    `done`: the app's own code did it."""
    kind: str
    name: str
    """The agent; with the path of a sub-agent, as in its id. Empty if the action is about no single agent."""
    principal: Who | None = None
    """Who did it; None for a stranger, and for the app's own code outside of a request."""
    why: str | None = None
    """Why it was refused, as the client was told."""
    what: Mapping[str, Any] = {}
    """Ids, such as `request` and `call`, and for an approval the arguments that were shown."""
    node: str | None = None
    id: str | None = None
    """Of a committed event: agent and number in its log. The same event has the same id in a replay."""


def record_of_decision(decision: AccessDecision, node: str | None = None) -> AuditRecord:
    """Return the record of a decision about a client, or of something that the app's own code did."""
    return AuditRecord(
        decision.at,
        decision.action,
        decision.outcome,
        decision.kind,
        decision.name,
        _who(decision.principal),
        decision.why,
        decision.what,
        node,
    )


def record_of_event(
    agent: AgentId, seq: Seq, at: Millis, event: Event, node: str | None = None, *, arguments: bool = True
) -> AuditRecord | None:
    """Return the record of a committed event; None for kinds that have none."""
    found = _described(event, arguments)
    if found is None:
        return None
    action, principal, what = found
    kind, name = split_agent_id(agent)
    said = {"event": kind_of(event), **{key: value for key, value in what.items() if value is not None}}
    return AuditRecord(at, action, "committed", kind, name, _who(principal), None, said, node, f"{agent}#{seq}")


def _described(event: Event, arguments: bool) -> tuple[str, Identity | None, dict[str, Any]] | None:
    """Return the action of an event, its principal, and the details."""
    match event:
        case TurnAccepted() if event.kind.is_chat:
            about = {"request": event.request, "turn": event.turn, "turn_kind": event.kind.value}
            return "ask", event.principal, {**about, "messages": list(event.message_ids)}
        case CancelRequested():
            return "stop", Identity(event.by) if event.by is not None else None, {"turn": event.turn}
        case ApprovalRequested():
            about = {"turn": event.turn or None, "call": event.call, "tool": event.tool, "risk": event.risk}
            shown = event.summary if arguments else None
            return "request-approval", None, {**about, "summary": shown, "approvers": event.approvers or None}
        case CallAnswered():
            return "answer", event.principal, _answer(event, arguments)
        case ConversationChanged():
            fields = ("title", "owner", "archived", "metadata", "keep_for")
            changed = [name for name in fields if getattr(event, name) not in (msgspec.UNSET, ABSENT)]
            return "manage", event.by, {"changed": changed}
        case ConversationRead():
            return "read", Identity(event.principal), {"messages": event.messages}
        case ChatCleared():
            return "clear", None, {"generation": event.generation}
        case ShareCreated():
            about = {"share": event.share, "frozen": event.frozen, "expires_at": event.expires_at}
            return "share", event.principal, about
        case ShareRevoked():
            return "unshare", event.principal, {"share": event.share}
        case AgentDestroyed():
            return "delete", None, {}
        case _:
            return None


def _answer(event: CallAnswered, arguments: bool) -> dict[str, Any]:
    about: dict[str, Any] = {"call": event.call, "answer": event.kind, "tool": event.tool or None}
    if event.kind != "approval":
        return about
    answer = msgspec.json.decode(bytes(event.value))
    if isinstance(answer, dict):
        about |= {"approved": answer.get("approved"), "reason": answer.get("reason") if arguments else None}
    if arguments and bytes(event.input) != bytes(ABSENT):
        about["arguments"] = _shown(event.input)
    return about


def _shown(value: Raw) -> Any:
    body = bytes(value)
    if len(body) <= MOST_ARGUMENTS:
        return value
    return {"bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}


def _who(identity: Identity | None) -> Who | None:
    return Who(identity.id, identity.name) if identity is not None else None
