"""Delete the chunks of managed streams (kind `rsm`), which retention leaves to their manager."""

from __future__ import annotations

from typing import NamedTuple

from ...ids import AgentId, Millis
from .retention import REMOVE
from .statements import SQL
from .transaction import Transaction

__all__ = ["StreamErasure", "erase_streams"]


class StreamErasure(NamedTuple):
    """Delete the chunks of the agent's streams that ended at or before `until`, of at most `limit` streams."""

    agent: AgentId
    until: Millis
    limit: int


def erase_streams(transaction: Transaction, erasure: StreamErasure) -> int:
    """Delete the chunks in the open transaction; return the number of streams."""
    transaction.write_pending()
    execute = transaction.connection.execute
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
