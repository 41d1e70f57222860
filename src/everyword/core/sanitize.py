"""What is kept of a message: the agent's own code decides (R-25)."""

from __future__ import annotations

from typing import Any

from ..errors import Rejected
from ..messages.server_fields import fields_of, with_fields
from .state import Rules

__all__ = ["sanitized"]


def sanitized(message: dict[str, Any], rules: Rules) -> dict[str, Any]:
    """Return what is to be stored of a message. The server's fields stay, whatever the agent's code does (R-37).

    Raises:
        Rejected: the agent's code failed.
    """
    try:
        return with_fields(rules.sanitize(message), fields_of(message))
    except Exception as exc:
        raise Rejected("unable to store the message; the agent could not prepare it for storage") from exc
