"""The message tree (B3): nodes of its own, because an edit keeps its message id.

The active path leads from a root to the active leaf. A node whose parent is gone (removed by the cap) is a root.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..ids import MessageId, NodeId
from .state import Node, State

__all__ = ["active_path", "ancestors", "node_of_message", "shown_path", "versions"]


def ancestors(state: State, node: NodeId | None) -> Iterator[NodeId]:
    """Iterate from `node` up to its root."""
    while node is not None and node in state.nodes:
        yield node
        node = state.nodes[node].parent


def active_path(state: State) -> Sequence[NodeId]:
    """Return the nodes from the root to the active leaf, reserved ones included."""
    if state.leaf != (state.path[-1] if state.path else None):
        state.path = _path_to(state, state.leaf)
    return state.path


def shown_path(state: State, leaf: NodeId | None = None) -> list[tuple[NodeId, Node]]:
    """Return the nodes with a message from the root to `leaf` (default: the active leaf)."""
    path = active_path(state) if leaf is None or leaf == state.leaf else _path_to(state, leaf)
    nodes = state.nodes
    return [(node, place) for node in path if (place := nodes[node]).body is not None or place.draft is not None]


def _path_to(state: State, leaf: NodeId | None) -> tuple[NodeId, ...]:
    """Walk up from the leaf, as far as the path is not known from the last time."""
    known, below = state.path, list[NodeId]()
    for node in ancestors(state, leaf):
        if known and node == known[-1]:
            return known + tuple(below[::-1])
        if len(known) > 1 and node == known[-2]:
            return known[:-1] + tuple(below[::-1])
        below.append(node)
    return tuple(below[::-1])


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
