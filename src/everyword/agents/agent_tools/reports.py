"""Progress and milestones that an agent reports while it works as a tool."""

from __future__ import annotations

import secrets
import time
from typing import Any, Final

from ...errors import UsageError
from ...ids import AgentId
from ...messages.json_values import plain_json
from ...runtime.api import TurnCall
from ..execution_context import turn_of_agent

__all__ = ["report_milestone", "report_progress"]

PROGRESS_EVERY: Final = 0.2
"""Seconds between two reports of progress; what comes sooner is left out."""


async def report_progress(
    agent: AgentId,
    last: tuple[str, float] | None,
    fraction: float | None,
    message: str | None,
    phase: str | None,
    data: Any,
) -> tuple[str, float] | None:
    """Write a report of progress into the agent's turn, unless the last one was just now.

    Takes and returns the request that was reported last, and when.
    """
    call, now = _turn(agent), time.monotonic()
    is_soon = last is not None and last[0] == call.request and now - last[1] < PROGRESS_EVERY
    if is_soon and (fraction or 0) < 1:
        return last
    said = {"fraction": fraction, "message": message, "phase": phase, "data": plain_json(data)}
    told = {key: value for key, value in said.items() if value is not None}
    await call.write({"type": "data-agent-progress", "id": secrets.token_urlsafe(9), "transient": True, "data": told})
    return call.request, now


async def report_milestone(agent: AgentId, name: str, said: dict[str, Any]) -> None:
    """Write a milestone into the agent's turn."""
    call = _turn(agent)
    message = await call.message()
    before = sum(part["type"] == "data-agent-milestone" for part in message.parts) if message is not None else 0
    told = {"name": name, "sequence": before, "at": round(time.time() * 1000), **plain_json(said)}
    await call.write({"type": "data-agent-milestone", "id": f"milestone-{before}", "data": told})


def _turn(agent: AgentId) -> TurnCall:
    call = turn_of_agent(agent)
    if call is None:
        raise UsageError("unable to report progress; this is no turn of this agent")
    return call
