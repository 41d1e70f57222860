"""The usage of a turn, with the usage of the sub-agents that worked for it.

A sub-agent's turn has its own usage in its own log. The parent's turn has the sum of them under `subAgents`, apart from
its own numbers: the sum of the top-level numbers of all turns counts every token once.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from ..events import ABSENT, to_raw
from .state import State
from .turn_state import TurnState

__all__ = ["SUB_AGENTS", "total_usage", "usage_of_turn"]

SUB_AGENTS: Final = "subAgents"


def usage_of_turn(state: State, turn: TurnState, own: Raw) -> Raw:
    """Return a turn's usage with the sum of its ended runs. Each run counts once, also over several attempts."""
    runs = (run for run in state.runs.values() if run.started.within == turn.id and run.ended is not None)
    used = [msgspec.json.decode(run.ended.usage) for run in runs if run.ended and run.ended.usage != ABSENT]
    if not used:
        return own
    given = msgspec.json.decode(own)
    return to_raw({**(given if isinstance(given, dict) else {}), SUB_AGENTS: _sum(used)})


def total_usage(usage: Any) -> dict[str, int | float] | None:
    """Return the numbers of a turn's usage, with those of its sub-agents; None if there are none."""
    if not isinstance(usage, dict):
        return None
    below = usage.get(SUB_AGENTS)
    return _sum([usage, below] if isinstance(below, dict) else [usage]) or None


def _sum(used: list[dict[str, Any]]) -> dict[str, int | float]:
    total: dict[str, int | float] = {}
    for each in used:
        for name, count in each.items():
            if isinstance(count, int | float) and not isinstance(count, bool):
                total[name] = total.get(name, 0) + count
    return total
