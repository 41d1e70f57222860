"""The names things go by. NewTypes only, so that a turn is never passed where a node belongs."""

from __future__ import annotations

from typing import Final, NewType
from urllib.parse import quote, unquote

__all__ = ["AgentId", "Attempt", "CallId", "Epoch", "FiberId", "Generation", "JobId", "MessageId", "Millis", "NodeId"]
__all__ += ["SUB", "RequestId", "RunId", "Seq", "TurnId", "agent_depth", "agent_id", "can_name_a_root"]
__all__ += ["LONGEST_ID", "children_prefix", "cut_id", "id_problem", "parent_id", "split_agent_id", "sub_agent_id"]

AgentId = NewType("AgentId", str)
"""`kind/name`: the agent's class in kebab case and the instance's name. One id, one log.

A sub-agent's id is its path: the parent's id, `/sub/`, its own kind and its own name, percent-encoded.
"""

SUB: Final = "sub"
"""The path segment that leads from an agent to its sub-agents; no kind, and no segment of a root's name."""

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

FiberId = NewType("FiberId", str)
"""A fiber's id; ours, or the caller's idempotency key."""

RunId = NewType("RunId", str)
"""A run of a sub-agent as a tool: unique within its parent, and the sub-agent's name."""

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

LONGEST_ID: Final = 512
"""Bytes of UTF-8 that an id may have which a client invents: it is stored, and repeated in every frame of a turn."""


def id_problem(name: str, what: str) -> str | None:
    """Return why a client may not use this id, as the second half of an error text; None when it may."""
    # No character has more than four bytes: most ids need not be encoded to be measured.
    if len(name) <= LONGEST_ID // 4 or (size := _utf8_size(name)) <= LONGEST_ID:
        return None
    return f"{what} has {size} bytes, and {LONGEST_ID} is the limit"


def cut_id(name: str) -> str:
    """Return the beginning of an id that is too long, for an error text or the frame that carries one."""
    return name.encode(errors="replace")[:LONGEST_ID].decode(errors="ignore")


def _utf8_size(name: str) -> int:
    return len(name.encode(errors="replace"))


def agent_id(kind: str, name: str) -> AgentId:
    """Join an agent's kind and its instance name; `kind` has no slash, `name` may have."""
    return AgentId(f"{kind}/{name}")


def can_name_a_root(name: str) -> bool:
    """Tell whether an agent that is nobody's sub-agent may have this name: its id must not look like a path."""
    return "/" not in name or SUB not in name.split("/")


def sub_agent_id(parent: AgentId, kind: str, name: str) -> AgentId:
    """Return the id of a sub-agent: where its parent is found, and what it is called there."""
    return AgentId(f"{children_prefix(parent)}{kind}/{quote(name, safe='')}")


def children_prefix(agent: AgentId) -> str:
    """Return what the ids of the agent's sub-agents, theirs and so on begin with, and no others do."""
    return f"{agent}/{SUB}/"


def parent_id(agent: AgentId) -> AgentId | None:
    """Return the id of the agent whose sub-agent this is; None for one that is nobody's."""
    parent, found, _ = agent.rpartition(f"/{SUB}/")
    return AgentId(parent) if found else None


def agent_depth(agent: AgentId) -> int:
    """Return how many agents are above this one."""
    return agent.count(f"/{SUB}/")


def split_agent_id(agent: AgentId) -> tuple[str, str]:
    """Return (kind, name) of the agent itself, wherever it stands."""
    _, found, own = agent.rpartition(f"/{SUB}/")
    kind, _, name = (own if found else agent).partition("/")
    return (kind, unquote(name)) if found else (kind, name)
