"""Deleting the chunks of streams that retention leaves to their manager."""

from __future__ import annotations

from typing import NamedTuple

from ...ids import AgentId, Millis
from .retention import REMOVE
from .statements import SQL
from .transaction import Scribe

__all__ = ["Erasure", "erase_streams"]


class Erasure(NamedTuple):
    """Which streams of an agent are to lose their chunks, and how many of them at most."""

    agent: AgentId
    until: Millis
    limit: int


def erase_streams(scribe: Scribe, erasure: Erasure) -> int:
    """Delete the chunks in the scribe's transaction; return how many streams there were."""
    scribe.write_events()
    execute = scribe.connection.execute
    found = execute(SQL["agent_by_id"], (erasure.agent,)).fetchone()
    if found is None:
        return 0
    key = found[0]
    turns = execute(SQL["streams_to_erase"], (key, erasure.until, erasure.limit)).fetchall()
    for (turn,) in turns:
        execute(SQL["doom_stream"], (key, turn))
        execute(SQL["close_span"], (key, turn))
    for name in REMOVE:
        execute(SQL[name])
    return len(turns)
