"""What is kept of a message: the agent's own code decides (R-25)."""

from __future__ import annotations

from typing import Any

from ..errors import Rejected
from .state import Rules

__all__ = ["sanitized"]


def sanitized(message: dict[str, Any], rules: Rules) -> dict[str, Any]:
    """Return what is to be stored of a message.

    Raises:
        Rejected: the agent's code failed.
    """
    try:
        return rules.sanitize(message)
    except Exception as exc:
        raise Rejected("unable to store the message; the agent could not prepare it for storage") from exc
