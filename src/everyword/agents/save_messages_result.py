"""SaveMessagesResult: how a turn ended, for code that started it and for `on_chat_response`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..messages.message import UIMessage
from ..runtime.api import TurnResult

__all__ = ["SaveMessagesResult"]


@dataclass(frozen=True, slots=True)
class SaveMessagesResult:
    """What became of a turn. `error` is public text; `recovered` means that this may have been told before (R-28)."""

    request_id: str
    """The id of the request that the turn answered."""
    status: Literal["completed", "error", "aborted", "skipped"]
    """How the turn ended; `skipped` if it never ran."""
    error: str | None = None
    """The error text that clients got."""
    message: UIMessage | None = None
    """The answer as it is stored; None if there is none."""
    continuation: bool = False
    """True if the turn went on from a message that was there."""
    recovered: bool = False
    """True if an earlier process ended the turn, and may have told this already."""

    @classmethod
    def of(cls, result: TurnResult) -> SaveMessagesResult:
        """Translate the runtime's result."""
        return cls(
            request_id=result.request,
            status=result.outcome.value,
            error=result.error,
            message=result.message,
            continuation=result.is_continuation,
            recovered=result.recovered,
        )
