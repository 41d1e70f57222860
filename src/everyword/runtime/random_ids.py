"""Ids of our own making."""

from __future__ import annotations

import secrets

from ..ids import MessageId, RequestId

__all__ = ["random_message_id", "random_request_id"]


def random_request_id() -> RequestId:
    """Return an id for a turn that we start ourselves."""
    return RequestId(secrets.token_urlsafe(16))


def random_message_id() -> MessageId:
    """Return an id for a message of ours."""
    return MessageId(f"assistant_{secrets.token_urlsafe(12)}")
