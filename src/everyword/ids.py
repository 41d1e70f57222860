"""Types of ids, and the functions that build and split agent ids.

The ids are NewTypes, so that a type checker reports a turn id where a node id is expected.
"""

from __future__ import annotations

from typing import Final, NewType
from urllib.parse import quote, unquote

__all__ = ["AgentId", "Attempt", "CallId", "Epoch", "FiberId", "Generation", "JobId", "MessageId", "Millis", "NodeId"]
__all__ += ["Incarnation"]
__all__ += ["SUB", "RequestId", "RunId", "Seq", "ShareId", "TurnId", "agent_depth", "agent_id", "can_name_a_root"]
__all__ += ["LONGEST_ID", "children_prefix", "cut_id", "id_problem", "parent_id", "root_id"]
__all__ += ["split_agent_id", "sub_agent_id"]

AgentId = NewType("AgentId", str)
"""`kind/name`: the agent's class in kebab case and the instance's name. Each id has one log.

A sub-agent's id is its path: the parent's id, `/sub/`, its own kind and its own name, percent-encoded.
"""

SUB: Final = "sub"
"""The path segment between an agent and its sub-agents. Not allowed as a kind or in the name of a root agent."""

RequestId = NewType("RequestId", str)
"""The idempotency key of a turn; chosen by the client, or by the server for turns that it starts."""

MessageId = NewType("MessageId", str)
"""The id of a UIMessage, as clients know it. Not unique in the tree: an edit keeps its message id."""

CallId = NewType("CallId", str)
"""The id of a tool call, chosen by the model."""

TurnId = NewType("TurnId", int)
"""Ordinal of a turn within its agent: 1, 2, …; never reused, not even after a clear."""

NodeId = NewType("NodeId", int)
"""Ordinal of a node in the agent's message tree; never reused."""

JobId = NewType("JobId", str)
"""The id of a durable job, chosen by the server."""

FiberId = NewType("FiberId", str)
"""The id of a fiber; chosen by the server, or the caller's idempotency key."""

ShareId = NewType("ShareId", str)
"""The id of a shared link, chosen by the server. It is no secret: the link has a token besides."""

RunId = NewType("RunId", str)
"""The id of a run of a sub-agent as a tool: unique within its parent, and the name of the sub-agent."""

Attempt = NewType("Attempt", int)
"""Ordinal of an attempt at a turn: 1, 2, …; 0 before the first attempt."""

Generation = NewType("Generation", int)
"""The number of times that the conversation was cleared."""

Seq = NewType("Seq", int)
"""Position of an event in its agent's log: 1, 2, …; a reader's cursor is the last Seq that it has read."""

Epoch = NewType("Epoch", int)
"""Fencing number of a lease: only the newest epoch of an agent may append."""

Incarnation = NewType("Incarnation", int)
"""One life of a node among several: a node that starts again has a new one."""

Millis = NewType("Millis", int)
"""Wall-clock time in milliseconds since 1970."""

LONGEST_ID: Final = 512
"""Most bytes of UTF-8 in an id that a client invents: it is stored, and repeated in every frame of a turn."""


def id_problem(name: str, what: str) -> str | None:
    """Return why a client may not use this id, as the second half of an error text; None if it may."""
    # A character has at most four bytes of UTF-8, so short ids need not be encoded to be measured.
    if len(name) <= LONGEST_ID // 4 or (size := _utf8_size(name)) <= LONGEST_ID:
        return None
    return f"{what} has {size} bytes, and {LONGEST_ID} is the limit"


def cut_id(name: str) -> str:
    """Return the first 512 bytes of an id that is too long, for an error text or its frame."""
    return name.encode(errors="replace")[:LONGEST_ID].decode(errors="ignore")


def _utf8_size(name: str) -> int:
    return len(name.encode(errors="replace"))


def agent_id(kind: str, name: str) -> AgentId:
    """Join an agent's kind and its instance name. `kind` must not contain a slash; `name` may."""
    return AgentId(f"{kind}/{name}")


def can_name_a_root(name: str) -> bool:
    """Return True if a root agent may have this name: its id must not look like a sub-agent's path."""
    return "/" not in name or SUB not in name.split("/")


def sub_agent_id(parent: AgentId, kind: str, name: str) -> AgentId:
    """Return the id of a sub-agent: its parent's id, its kind and its percent-encoded name."""
    return AgentId(f"{children_prefix(parent)}{kind}/{quote(name, safe='')}")


def children_prefix(agent: AgentId) -> str:
    """Return the prefix of the ids of all agents below this one. No other id has it."""
    return f"{agent}/{SUB}/"


def parent_id(agent: AgentId) -> AgentId | None:
    """Return the id of a sub-agent's parent; None for a root agent."""
    parent, found, _ = agent.rpartition(f"/{SUB}/")
    return AgentId(parent) if found else None


def root_id(agent: AgentId) -> AgentId:
    """Return the id of the root agent above this one; a root agent's own id."""
    return AgentId(agent.partition(f"/{SUB}/")[0])


def agent_depth(agent: AgentId) -> int:
    """Return the number of agents above this one."""
    return agent.count(f"/{SUB}/")


def split_agent_id(agent: AgentId) -> tuple[str, str]:
    """Return (kind, name) of the agent itself, for root agents and sub-agents."""
    _, found, own = agent.rpartition(f"/{SUB}/")
    kind, _, name = (own if found else agent).partition("/")
    return (kind, unquote(name)) if found else (kind, name)
