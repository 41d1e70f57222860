"""Sanitise messages before they are stored, with the agent's own function (R-25)."""

from __future__ import annotations

from typing import Any

from ..errors import Rejected
from ..messages.server_fields import fields_of, with_fields
from .state import Rules

__all__ = ["sanitized"]


def sanitized(message: dict[str, Any], rules: Rules) -> dict[str, Any]:
    """Return the message as it is to be stored. The agent's function cannot change the server's fields (R-37).

    Raises:
        Rejected: the agent's function failed.
    """
    try:
        return with_fields(rules.sanitize(message), fields_of(message))
    except Exception as exc:
        raise Rejected("unable to store the message; the agent could not prepare it for storage") from exc
