"""Frames of runs: their numbers are the log's, and a replay says what was said live."""

from __future__ import annotations

import json

import pytest
from msgspec import Raw

from everyword.events import Chunk, RunEnded, RunStarted
from everyword.ids import Attempt, CallId, RunId, TurnId
from everyword.wire.agent_tool_frames import chosen_runs, chunk_frame, ended_frame, started_frame

RUN = RunId("r")
STARTED = RunStarted(RUN, "kid", call=CallId("c"), preview="do it", order=2, display=Raw(b'{"icon":"x"}'))
BARE = RunStarted(RUN, "kid")


def test_a_start_says_what_pages_show_and_is_number_nought() -> None:
    assert json.loads(started_frame(STARTED).live) == {
        "type": "agent-tool-event",
        "parentToolCallId": "c",
        "sequence": 0,
        "event": {
            "kind": "started",
            "runId": "r",
            "agentType": "kid",
            "inputPreview": "do it",
            "order": 2,
            "display": {"icon": "x"},
        },
    }
    assert json.loads(started_frame(BARE).live) == {
        "type": "agent-tool-event",
        "sequence": 0,
        "event": {"kind": "started", "runId": "r", "agentType": "kid", "order": 0},
    }


def test_a_chunk_is_numbered_by_its_index_and_passed_on_as_it_is() -> None:
    chunk = Chunk(TurnId(1), Attempt(1), 4, Raw(b'{"type":"text-delta","id":"t","delta":"\xc3\xb6\\n"}'))
    frame = json.loads(chunk_frame(STARTED, chunk).live)
    assert frame["sequence"] == 5
    assert frame["event"] == {"kind": "chunk", "runId": "r", "body": bytes(chunk.body).decode()}


@pytest.mark.parametrize(
    ("ended", "event"),
    [
        (RunEnded(RUN, "completed", summary="done"), {"kind": "finished", "summary": "done"}),
        (RunEnded(RUN, "completed"), {"kind": "finished", "summary": ""}),
        (RunEnded(RUN, "error", error="bad"), {"kind": "error", "error": "bad"}),
        (RunEnded(RUN, "error"), {"kind": "error", "error": "The sub-agent failed."}),
        (RunEnded(RUN, "aborted", reason="stop"), {"kind": "aborted", "reason": "stop"}),
        (RunEnded(RUN, "aborted"), {"kind": "aborted"}),
        (
            RunEnded(RUN, "interrupted", error="silent", reason="no-progress", is_child_running=True),
            {"kind": "interrupted", "error": "silent", "reason": "no-progress", "childStillRunning": True},
        ),
        (RunEnded(RUN, "interrupted"), {"kind": "interrupted", "error": "The run was interrupted."}),
    ],
)
def test_an_end_is_one_frame_behind_the_last_chunk(ended: RunEnded, event: dict[str, object]) -> None:
    """Trap 196: whatever it says live, it says again."""
    frame = ended_frame(STARTED, ended, 7)
    assert json.loads(frame.live)["sequence"] == 8
    assert json.loads(frame.live)["event"] == {"runId": "r", **event}
    assert json.loads(frame.replayed) == {**json.loads(frame.live), "replay": True}


@pytest.mark.parametrize(
    "frame", [started_frame(STARTED), started_frame(BARE), ended_frame(BARE, RunEnded(RUN, "error"), 0)]
)
def test_a_replayed_frame_is_the_live_one_and_a_flag(frame: object) -> None:
    live, replayed = frame.live, frame.replayed  # type: ignore[attr-defined]
    assert replayed == live[:-1] + b',"replay":true}'


def test_a_new_connection_is_told_of_what_is_open_and_of_the_newest_ends() -> None:
    """Trap 198."""
    runs = [
        (RunStarted(RunId(f"r{n}"), "kid"), None if n in (1, 8) else RunEnded(RunId(f"r{n}"), "error"))
        for n in range(10)
    ]
    assert [started.run for started, _ in chosen_runs(runs, 4)] == ["r1", "r7", "r8", "r9"]
    assert [started.run for started, _ in chosen_runs(runs, 1)] == ["r1", "r8"]
    assert chosen_runs(runs, 20) == runs
    assert chosen_runs([], 20) == []
