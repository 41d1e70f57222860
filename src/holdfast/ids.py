"""The names things go by. NewTypes only, so that a turn is never passed where a node belongs."""

from __future__ import annotations

from typing import NewType

__all__ = ["AgentId", "Attempt", "CallId", "Epoch", "Generation", "JobId", "MessageId", "Millis", "NodeId"]
__all__ += ["RequestId", "Seq", "TurnId", "agent_id", "split_agent_id"]

AgentId = NewType("AgentId", str)
"""`kind/name`: the agent's class in kebab case and the instance's name. One id, one log."""

RequestId = NewType("RequestId", str)
"""The client's idempotency key of a turn; chosen by the client, or by us for turns we start."""

MessageId = NewType("MessageId", str)
"""A UIMessage's id, as clients know it. Not unique in the tree: an edit keeps its message id."""

CallId = NewType("CallId", str)
"""A tool call's id, as the model gave it."""

TurnId = NewType("TurnId", int)
"""Ordinal of a turn within its agent: 1, 2, …; never reused, not even after a clear."""

NodeId = NewType("NodeId", int)
"""Ordinal of a place in the agent's message tree; never reused."""

JobId = NewType("JobId", str)
"""A durable job's id; ours."""

Attempt = NewType("Attempt", int)
"""Ordinal of a try at a turn: 1, 2, …; 0 means not tried yet."""

Generation = NewType("Generation", int)
"""How often the conversation was cleared."""

Seq = NewType("Seq", int)
"""Position of an event in its agent's log: 1, 2, …; a reader's cursor is the last Seq it has."""

Epoch = NewType("Epoch", int)
"""Fencing number of a lease: only the newest epoch of an agent may append."""

Millis = NewType("Millis", int)
"""Wall-clock time in milliseconds since 1970."""


def agent_id(kind: str, name: str) -> AgentId:
    """Join an agent's kind and its instance name; `kind` has no slash, `name` may have."""
    return AgentId(f"{kind}/{name}")


def split_agent_id(agent: AgentId) -> tuple[str, str]:
    """Return (kind, name) of an id made by `agent_id`."""
    kind, _, name = agent.partition("/")
    return kind, name
