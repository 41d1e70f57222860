"""The codes with which sockets are closed, and what clients make of them (RFC 6455, 7.4)."""

from __future__ import annotations

from typing import Final

__all__ = ["COME_BACK", "GOING_AWAY", "INTERNAL", "REFUSED", "TOO_BIG", "TRY_LATER", "UNREAD"]

GOING_AWAY: Final = 1001
"""What the stock server says when it destroys an agent: the client comes back, to a new one."""
REFUSED: Final = 1008
"""Policy violation: the client gives up."""
TOO_BIG: Final = 1009
INTERNAL: Final = 1011
COME_BACK: Final = 1012
"""Service restart: the client reconnects by itself."""
TRY_LATER: Final = 1013

UNREAD: Final = "unable to send any more; read faster"
"""Why a socket is closed whose client does not read."""
