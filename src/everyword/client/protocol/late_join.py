"""Join a stream at any chunk, and still get a valid sequence of chunks."""

from __future__ import annotations

from typing import Final

from ...codec.aisdk import chunk_tracker
from ...messages.message import Chunk

__all__ = ["LateJoin"]

_SCOPE: Final = ""
"""The tracker's scope: each join has its own tracker, so one scope is enough."""
_START: Final = "start"
_START_STEP: Final = "start-step"

_DISCRETE: Final = frozenset({"file", "source-url", "source-document", "reasoning-file", "custom"})


class LateJoin:
    """Makes the chunks of one stream valid for a reader that joins it late.

    It adds a missed `start` or `start-step` before content, and opens a text or reasoning part again that is already
    open. It leaves out chunks that mean nothing without an earlier one: deltas of a tool's input (the whole input
    follows them) and answers to calls that were missed. A stream that is fed from its first chunk is not changed.
    """

    def __init__(self, message_id: str) -> None:
        self._context = {"messageId": message_id}
        self._tracker = chunk_tracker()
        self._open: set[tuple[str, str]] = set()
        self._calls: set[str] = set()
        self._inputs: set[str] = set()
        self._approvals: set[str] = set()
        self._in_step = False

    def feed(self, chunk: Chunk) -> list[Chunk]:
        """Return the chunks for the reader in place of the stream's next chunk."""
        kind: str = chunk["type"]
        if kind.startswith(("text-", "reasoning-")) and kind != "reasoning-file":
            return self._text(kind, chunk)
        if kind.startswith("tool-"):
            return self._call(kind, chunk)
        if kind in _DISCRETE:
            return [*self._ensure(), chunk]
        return self._boundary(kind, chunk)

    def _ensure(self) -> list[Chunk]:
        self._in_step = True
        return self._tracker.ensure_phases(_SCOPE, self._context)

    def _text(self, kind: str, chunk: Chunk) -> list[Chunk]:
        family, _, moment = kind.partition("-")
        part = (family, chunk["id"])
        if moment == "end":
            if part not in self._open:
                return []
            self._open.discard(part)
            return [chunk]
        if moment == "start":
            self._open.add(part)
            return [*self._ensure(), chunk]
        if part in self._open:
            return [chunk]
        self._open.add(part)
        return [*self._ensure(), {"type": f"{family}-start", "id": chunk["id"]}, chunk]

    def _call(self, kind: str, chunk: Chunk) -> list[Chunk]:
        if kind == "tool-approval-response":
            return [chunk] if chunk["approvalId"] in self._approvals else []
        call_id = chunk["toolCallId"]
        if kind in ("tool-input-start", "tool-input-available", "tool-input-error"):
            self._calls.add(call_id)
            if kind == "tool-input-start":
                self._inputs.add(call_id)
            return [*self._ensure(), chunk]
        if kind == "tool-input-delta":
            return [chunk] if call_id in self._inputs else []
        if call_id not in self._calls:
            return []
        if kind == "tool-approval-request":
            self._approvals.add(chunk["approvalId"])
        return [chunk]

    def _boundary(self, kind: str, chunk: Chunk) -> list[Chunk]:
        match kind:
            case "start":
                self._tracker.mark_emitted(_SCOPE, _START)
            case "start-step":
                self._tracker.mark_emitted(_SCOPE, _START_STEP)
                return [*self._ensure(), chunk]
            case "finish-step" | "reset-step":
                self._open.clear()
                if not self._in_step:
                    return []
                if kind == "finish-step":
                    self._in_step = False
                    self._tracker.reset_phase(_SCOPE, _START_STEP)
            case "finish" | "abort" | "error":
                self._tracker.clear_scope(_SCOPE)
            case _:
                pass
        return [chunk]
