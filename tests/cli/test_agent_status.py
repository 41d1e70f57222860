"""How a conversation stands: one word, and why."""

from __future__ import annotations

from typing import Any

import pytest

from everyword.cli.agent_status import STUCK_AFTER, status_of
from everyword.cli.log_reader import AgentSummary
from everyword.ids import AgentId, Seq

NOW = 10_000_000
ASKS = b'{"id":"m","role":"assistant","parts":[{"type":"tool-pay","toolCallId":"k","state":"approval-requested"}]}'
OLD = NOW - STUCK_AFTER - 60_000


def _summary(**members: Any) -> AgentSummary:
    blank = dict.fromkeys(AgentSummary._fields)
    return AgentSummary(
        **{**blank, "id": AgentId("chat/ann"), "epoch": 1, "turns": 1, "head": Seq(1), "active_at": NOW, **members}
    )


OPEN = {"open_turn": 1, "open_status": "running", "open_attempt": 1, "open_accepted_at": NOW, "wake": 0}
QUEUED = {**OPEN, "open_status": "accepted", "open_attempt": 0}


@pytest.mark.parametrize(
    ("members", "is_served", "word", "why"),
    [
        ({}, False, "idle", ""),
        ({"last_status": "completed"}, True, "idle", ""),
        ({"last_status": "error", "last_error": "It failed."}, True, "failed", "It failed."),
        ({"last_status": "completed", "last_message": ASKS}, True, "asking", "pay waits"),
        ({"last_status": "completed", "last_message": b'{"approval-requested"'}, True, "idle", ""),
        (OPEN, True, "running", ""),
        ({**OPEN, "open_attempt": 3}, True, "running", "attempt 3"),
        (OPEN, False, "stuck", "no server is running"),
        ({**OPEN, "active_at": OLD}, True, "stuck", "no event for 6 min"),
        (QUEUED, True, "running", "starting"),
        (QUEUED, False, "stuck", "no server is running"),
        ({**QUEUED, "wake": NOW + 60_000}, True, "waiting", "starts in 1 min"),
        ({**QUEUED, "wake": NOW + 60_000}, False, "waiting", "starts in 1 min"),
        ({**QUEUED, "wake": None, "last_message": ASKS}, True, "waiting", "pay waits"),
        ({"wake": NOW + 3_600_000}, True, "waiting", "a job is due in 1 h"),
        ({"wake": OLD}, True, "stuck", "work was due 6 min ago"),
    ],
)
def test_every_conversation_stands_in_one_way(members: dict[str, Any], is_served: bool, word: str, why: str) -> None:
    status = status_of(_summary(**members), NOW, is_served=is_served)
    assert (status.word, why in status.why) == (word, True), status
