"""The message tree (B3): nodes of its own, because an edit keeps its message id.

The active path leads from a root to the active leaf. A node whose parent is gone (removed by the cap) is a root.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

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


def shown_path(state: State, leaf: NodeId | None = None) -> Sequence[tuple[NodeId, Node]]:
    """Return the nodes with a message from the root to `leaf` (default: the active leaf)."""
    if leaf is None or leaf == state.leaf:
        return _active_shown(state)
    path = active_path(state)
    if len(path) > 1 and leaf == path[-2]:  # where an answer is being written: all but the answer
        shown = _active_shown(state)
        return shown[:-1] if shown and shown[-1][0] == path[-1] else shown
    return _shown(state, _path_to(state, leaf))


def _active_shown(state: State) -> Sequence[tuple[NodeId, Node]]:
    """Return the active branch; walked once for all who ask before it changes."""
    known = state.shown
    now = (state.revision, state.leaf)
    if known is None or known[0] != now:
        known = state.shown = (now, _shown(state, active_path(state)))
    return known[1]


def _shown(state: State, path: Iterable[NodeId]) -> tuple[tuple[NodeId, Node], ...]:
    nodes = state.nodes
    return tuple([(node, place) for node in path if (place := nodes[node]).body is not None or place.draft is not None])


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
