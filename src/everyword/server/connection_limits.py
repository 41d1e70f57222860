"""What a connection may take before its request, or its message, is whole. Only a server can keep these bounds.

An ASGI application is called when a request has come and is handed a message when it is whole: what is begun and never
finished is out of its sight. `everyword serve` sets these from the application's `Limits`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .limits import Limits

__all__ = ["ConnectionLimits"]


_DEFAULT: Final = Limits()


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Bounds on connections, whichever application they are for."""

    request_seconds: float = _DEFAULT.request_seconds
    message_seconds: float = _DEFAULT.message_seconds
    unfinished: int = _DEFAULT.unfinished
    fragments: int = 4096
    """Fragments of one message; one more is allowed for every KiB of it."""
    pings_per_second: int = 64
    """Pings, pongs and closes of one client: each costs as much as a message, and no limit counts it."""
    header_bytes: int = 64 * 1024
    pipelined: int = 16
    """Requests of one connection that may wait behind the one that is answered; browsers send none."""
    close_seconds: float = 10.0
    """A socket that was closed is dropped after this, if its client does not read what is in the way."""

    @classmethod
    def within(cls, limits: Limits) -> ConnectionLimits:
        """Return the bounds for an application with these limits."""
        return cls(limits.request_seconds, limits.message_seconds, limits.unfinished)
