"""The codes with which sockets are closed, and what clients make of them (RFC 6455, 7.4)."""

from __future__ import annotations

from typing import Final

__all__ = ["COME_BACK", "GOING_AWAY", "INTERNAL", "REFUSED", "TOO_BIG", "TRY_LATER"]

GOING_AWAY: Final = 1001
"""The agent was destroyed: the client comes back, to a new one."""
REFUSED: Final = 1008
"""Policy violation: the client gives up."""
TOO_BIG: Final = 1009
"""A message is more than four times as large as `Limits.frame`: the client comes back, and should send less."""
INTERNAL: Final = 1011
"""The server or the agent's own code failed: the client comes back."""
COME_BACK: Final = 1012
"""Service restart: the client reconnects by itself."""
TRY_LATER: Final = 1013
"""Too much at once, or nothing can be stored right now: the client comes back after a while."""
