"""The message tree (B3): nodes of its own, because an edit keeps its message id.

The active path leads from a root to the active leaf. A node whose parent is gone (removed by the cap) is a root.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..ids import MessageId, NodeId
from .state import Node, State

__all__ = ["active_path", "ancestors", "node_of_message", "shown_path", "versions"]


def ancestors(state: State, node: NodeId | None) -> Iterator[NodeId]:
    """Iterate from `node` up to its root."""
    while node is not None and node in state.nodes:
        yield node
        node = state.nodes[node].parent


def active_path(state: State) -> list[NodeId]:
    """Return the nodes from the root to the active leaf, reserved ones included."""
    return list(ancestors(state, state.leaf))[::-1]


def shown_path(state: State, leaf: NodeId | None = None) -> list[tuple[NodeId, Node]]:
    """Return the nodes with a message from the root to `leaf` (default: the active leaf)."""
    nodes = list(ancestors(state, state.leaf if leaf is None else leaf))[::-1]
    return [(node, state.nodes[node]) for node in nodes if state.nodes[node].shown is not None]


def node_of_message(state: State, message: MessageId) -> NodeId | None:
    """Return the node that has this message id: on the active path if possible, else the newest."""
    found: NodeId | None = None
    for node in ancestors(state, state.leaf):
        if state.nodes[node].id == message:
            return node
    for node, place in state.nodes.items():
        if place.id == message:
            found = node
    return found


def versions(state: State, node: NodeId) -> list[NodeId]:
    """Return the siblings of `node`, itself included, that have a message: the versions of an answer or a question."""
    place = state.nodes[node]
    return [
        other
        for other, sibling in state.nodes.items()
        if sibling.parent == place.parent and sibling.role == place.role and sibling.shown is not None
    ]
