"""Conversations and approvals as clients get them: JSON with times in milliseconds since 1970."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..agents import Approval, ApprovalPage, Conversation, ConversationChange, ConversationPage, Participant, Share

__all__ = ["approval_json", "approvals_json", "change_json", "conversation_json", "conversations_json"]
__all__ += ["principals_json", "share_json"]

JsonObject = dict[str, Any]


def conversation_json(each: Conversation) -> JsonObject:
    """Return one conversation."""
    return {
        "kind": each.kind,
        "name": each.name,
        "title": each.title,
        "hasOwnTitle": each.has_own_title,
        "preview": each.preview,
        "status": each.status,
        "owner": each.owner,
        "participants": [_participant(who) for who in each.participants],
        "createdAt": _millis(each.created_at),
        "updatedAt": _millis(each.updated_at),
        "archived": each.archived,
        "messages": each.messages,
        "unread": each.unread,
        "metadata": each.metadata,
        "excerpt": each.excerpt,
    }


def conversations_json(page: ConversationPage) -> JsonObject:
    """Return a page of conversations."""
    return {"conversations": [conversation_json(each) for each in page.conversations], "cursor": page.cursor}


def change_json(change: ConversationChange) -> JsonObject:
    """Return an event of a live list."""
    if change.page is not None:
        return {"type": change.type, **conversations_json(change.page)}
    if change.conversation is not None:
        return {"type": change.type, "conversation": conversation_json(change.conversation)}
    return {"type": change.type, "kind": change.kind, "name": change.name}


def approval_json(each: Approval, *, may_answer: bool | None = None) -> JsonObject:
    """Return one approval; `may_answer` says whether the client may answer it."""
    said: JsonObject = {
        "id": each.id,
        "kind": each.kind,
        "name": each.name,
        "owner": each.owner,
        "tool": each.tool,
        "input": each.input,
        "status": each.status,
        "summary": each.summary,
        "risk": each.risk,
        "approvers": list(each.approvers),
        "askedAt": _millis(each.asked_at),
        "askedBy": _participant(each.asked_by),
        "expiresAt": _millis(each.expires_at),
        "settledAt": _millis(each.settled_at),
        "settledBy": _participant(each.settled_by),
        "reason": each.reason,
        "messageId": each.message_id,
        "toolCallId": each.call,
    }
    return said if may_answer is None else {**said, "mayAnswer": may_answer}


def approvals_json(page: ApprovalPage, allowed: dict[str, bool]) -> JsonObject:
    """Return a page of approvals; `allowed` says by id which the client may answer."""
    approvals = [approval_json(each, may_answer=allowed.get(each.id)) for each in page.approvals]
    return {"approvals": approvals, "cursor": page.cursor}


def share_json(each: Share) -> JsonObject:
    """Return one shared link, without its token."""
    return {
        "id": each.id,
        "frozen": each.is_frozen,
        "createdAt": _millis(each.created_at),
        "createdBy": _participant(each.created_by),
        "expiresAt": _millis(each.expires_at),
        "expired": each.is_expired,
        "label": each.label,
        "reasoning": each.reasoning,
        "tools": each.tools,
        "data": each.data,
        "people": each.people,
        "files": each.files,
    }


def principals_json(principals: Sequence[Participant]) -> JsonObject:
    """Return the principals that are connected to an agent."""
    return {"principals": [_participant(who) for who in principals]}


def _participant(who: Participant | None) -> JsonObject | None:
    return None if who is None else {"id": who.id, "name": who.name}


def _millis(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)
