"""Limits that an agent class sets: of its turns, and of its agent tools."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from ..errors import UsageError
from .durations import Duration, to_seconds

__all__ = ["AgentToolLimits", "TurnLimits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnLimits:
    """Limits of one turn: `turn_limits = TurnLimits(max_attempts=3, stall_timeout=60)`.

    Durations are seconds or a timedelta.
    """

    max_attempts: int = 5
    """How often a turn is tried without progress when the process dies, the model stalls, or an error may be temporary.

    Progress resets the count: a finished step, a tool's output, or 1,000 chunks. An orderly shutdown does not
    count.
    """

    max_total_attempts: int = 100
    """How often a turn is tried in total, with or without progress."""

    max_running_time: Duration = timedelta(hours=24)
    """How long the attempts of a turn may run in total; after that it is not tried again."""

    stall_timeout: Duration | None = None
    """A model that is silent for this long is asked again; None for never. Running tools do not count."""

    tool_timeout: Duration | None = None
    """How long a call of a tool without a `timeout` of its own may take; None for no limit."""

    failed_text: str = "The assistant was interrupted and could not recover. Please try again."
    """What clients read when a turn was tried too often."""

    def __post_init__(self) -> None:
        _check_positive("TurnLimits", max_running_time=self.max_running_time)
        _check_positive("TurnLimits", stall_timeout=self.stall_timeout, tool_timeout=self.tool_timeout)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentToolLimits:
    """Limits of sub-agents that work as tools: `agent_tool_limits = AgentToolLimits(max_concurrent=3)`."""

    max_concurrent: int | None = None
    """How many runs may be active at the same time; a further run fails, and its error names the limit."""

    max_depth: int = 4
    """How many agents may be above a sub-agent that works as a tool."""

    silence_timeout: Duration | None = 120.0
    """A run whose sub-agent is silent for this long (seconds or a timedelta) is `interrupted`; None for never."""

    def __post_init__(self) -> None:
        _check_positive("AgentToolLimits", silence_timeout=self.silence_timeout)


def _check_positive(name: str, **durations: Duration | None) -> None:
    for field, duration in durations.items():
        if duration is not None and not to_seconds(duration) > 0:
            raise UsageError(f"unable to use {name}({field}={duration!r}); give a duration above 0")
