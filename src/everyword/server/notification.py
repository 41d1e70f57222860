"""A notification: what happened in which conversation, for receivers that are not connected to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, get_args

from ..agents import Participant

__all__ = ["TYPES", "ApprovalNotice", "Notification", "NotificationType", "notification_json", "notification_of"]

NotificationType = Literal["turn.ended", "approval.requested"]
TYPES: Final[tuple[NotificationType, ...]] = get_args(NotificationType)


@dataclass(frozen=True, slots=True)
class ApprovalNotice:
    """The call that a notification asks to approve."""

    id: str
    """What `app.approvals.answer` takes. It gives no permission."""
    tool: str
    summary: str | None = None
    """`approval_summary` of the tool."""
    risk: str | None = None
    expires_at: float | None = None
    """Seconds since 1970; None if it does not expire."""
    url: str | None = None
    """The page on which it is answered; None without `public_url`."""


@dataclass(frozen=True, slots=True)
class Notification:
    """Something that happened while no one watched the conversation."""

    id: str
    """The same for each attempt to tell it, and for each receiver. Receivers use it to drop repeats."""
    type: NotificationType
    """`turn.ended` or `approval.requested`. Later versions may add some."""
    at: float
    """When it happened, in seconds since 1970."""
    kind: str
    name: str
    """Kind and name of the conversation. What happened may be of an agent below it."""
    request: str
    """The request id of the turn."""
    title: str | None = None
    """None if texts are left out, or if the conversation has none."""
    owner: str | None = None
    participants: Sequence[Participant] = ()
    connected: Sequence[Participant] = ()
    """The principals that are connected all the same: only with `even_if_watched`."""
    status: Literal["completed", "error", "aborted"] | None = None
    """How the turn ended; None for other types."""
    preview: str | None = None
    """The beginning of the answer, at most 200 characters; None for other types, and if texts are left out."""
    approval: ApprovalNotice | None = None
    """The call, for `approval.requested`."""


def notification_json(each: Notification) -> dict[str, Any]:
    """Return a notification as webhooks and stored jobs have it."""
    asked = each.approval
    return {
        "id": each.id,
        "type": each.type,
        "timestamp": _time(each.at),
        "data": {
            "kind": each.kind,
            "name": each.name,
            "title": each.title,
            "owner": each.owner,
            "participants": [_person(who) for who in each.participants],
            "connected": [_person(who) for who in each.connected],
            "request": each.request,
            "status": each.status,
            "preview": each.preview,
            "approval": None
            if asked is None
            else {
                "id": asked.id,
                "tool": asked.tool,
                "summary": asked.summary,
                "risk": asked.risk,
                "expiresAt": None if asked.expires_at is None else _time(asked.expires_at),
                "url": asked.url,
            },
        },
    }


def notification_of(said: dict[str, Any]) -> Notification:
    """Return the notification of a `notification_json`."""
    data = said["data"]
    asked = data["approval"]
    expires = asked["expiresAt"] if asked is not None else None
    return Notification(
        id=said["id"],
        type=said["type"],
        at=_seconds(said["timestamp"]),
        kind=data["kind"],
        name=data["name"],
        title=data["title"],
        owner=data["owner"],
        participants=[Participant(**who) for who in data["participants"]],
        connected=[Participant(**who) for who in data["connected"]],
        request=data["request"],
        status=data["status"],
        preview=data["preview"],
        approval=None
        if asked is None
        else ApprovalNotice(
            id=asked["id"],
            tool=asked["tool"],
            summary=asked["summary"],
            risk=asked["risk"],
            expires_at=None if expires is None else _seconds(expires),
            url=asked["url"],
        ),
    )


def _person(who: Participant) -> dict[str, str | None]:
    return {"id": who.id, "name": who.name}


def _time(seconds: float) -> str:
    shown = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return shown.replace("+00:00", "Z")


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()
