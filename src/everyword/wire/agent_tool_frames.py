"""Frames that tell an agent's pages of sub-agents at work for it: `agent-tool-event` (R-18).

Their numbers come from the log: 0 is the start, a chunk's is its index in the sub-agent's turn plus one, the end's is
one more. So live and replayed frames agree, whatever a page has or has not seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

import msgspec

from ..events import ABSENT, Chunk, RunEnded, RunStarted

__all__ = ["RunFrame", "chosen_runs", "chunk_frame", "ended_frame", "started_frame"]

_encode = msgspec.json.encode

Known = tuple[RunStarted, RunEnded | None]


class RunFrame:
    """One frame. All live clients get the same bytes; a replay adds a flag."""

    __slots__ = ("_stem",)

    def __init__(self, started: RunStarted, sequence: int, event: bytes) -> None:
        call = b'"parentToolCallId":%b,' % _encode(started.call) if started.call is not None else b""
        self._stem = b'{"type":"agent-tool-event",%b"sequence":%d,"event":%b' % (call, sequence, event)

    @property
    def live(self) -> bytes:
        return self._stem + b"}"

    @property
    def replayed(self) -> bytes:
        return self._stem + b',"replay":true}'


def started_frame(started: RunStarted) -> RunFrame:
    """Tell that a run began, and what pages show of it."""
    event: dict[str, Any] = {"kind": "started", "runId": started.run, "agentType": started.kind}
    if started.preview is not None:
        event["inputPreview"] = started.preview
    event["order"] = started.order
    if started.display is not ABSENT:
        event["display"] = started.display
    return RunFrame(started, 0, _encode(event))


def chunk_frame(started: RunStarted, chunk: Chunk) -> RunFrame:
    """Pass on what the sub-agent says."""
    body = _encode(bytes(chunk.body).decode())
    event = b'{"kind":"chunk","runId":%b,"body":%b}' % (_encode(started.run), body)
    return RunFrame(started, chunk.index + 1, event)


def ended_frame(started: RunStarted, ended: RunEnded, chunks: int) -> RunFrame:
    """Tell how a run ended, after so many chunks."""
    event: dict[str, Any] = {"kind": ended.status, "runId": ended.run}
    match ended.status:
        case "completed":
            event |= {"kind": "finished", "summary": ended.summary or ""}
        case "error":
            event["error"] = ended.error or "The sub-agent failed."
        case "aborted":
            event |= {"reason": ended.reason} if ended.reason is not None else {}
        case "interrupted":
            event["error"] = ended.error or "The run was interrupted."
            event |= {"reason": ended.reason} if ended.reason is not None else {}
            event |= {"childStillRunning": ended.is_child_running} if ended.is_child_running is not None else {}
        case _:
            assert_never(ended.status)
    return RunFrame(started, chunks + 1, _encode(event))


def chosen_runs(runs: Sequence[Known], most: int) -> list[Known]:
    """Return the runs to replay for a new connection: all open ones, and the newest of the others, in order."""
    left = max(most - sum(ended is None for _, ended in runs), 0)
    newest = [started.run for started, ended in runs if ended is not None][-left:] if left else []
    return [(started, ended) for started, ended in runs if ended is None or started.run in newest]
