"""How a turn ended, as programmatic callers and hooks are told: the one result shape."""

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
    status: Literal["completed", "error", "aborted", "skipped"]
    error: str | None = None
    message: UIMessage | None = None
    continuation: bool = False
    recovered: bool = False

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
