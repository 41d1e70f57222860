"""The message tree (B3): nodes of its own, because an edit keeps its message id.

The active path leads from a root to the active leaf. A node whose parent is gone (removed by the cap) is a root.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet

from ..events import TurnAccepted, TurnKind
from ..ids import MessageId, NodeId
from .state import Branch, Node, State

__all__ = ["active_path", "ancestors", "answered_in", "asked_below", "known_branch", "known_ids", "node_of_message"]
__all__ += ["shown_path", "versions"]


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
        return _branch(state).shown
    path = active_path(state)
    if len(path) > 1 and leaf == path[-2]:  # where an answer is being written: all but the answer
        shown = _branch(state).shown
        return shown[:-1] if shown and shown[-1][0] == path[-1] else shown
    return _shown(state, _path_to(state, leaf))


def known_ids(state: State) -> AbstractSet[MessageId]:
    """Return the ids of all messages, those of other branches and of answers to come included; not to be kept."""
    return _branch(state).ids


def asked_below(state: State, before: Branch | None, event: TurnAccepted) -> None:
    """Note that a question and the place of its answer were put below `before`: it need not be walked again."""
    parent = event.messages[0].parent if event.messages else event.parent
    if before is None or event.kind is not TurnKind.CHAT or parent != before.leaf:
        return
    put = tuple([(placed.node, state.nodes[placed.node]) for placed in event.messages])
    before.ids.update([placed.id for placed in event.messages])
    before.ids.add(event.message_id)
    state.branch = Branch(state.revision, state.leaf, before.shown + put, before.ids)


def answered_in(state: State, before: Branch | None, node: NodeId) -> None:
    """Note that the last place of `before` has a message, or another one than it had."""
    if before is None or before.leaf != node:
        return
    shown = before.shown
    others = shown[:-1] if shown and shown[-1][0] == node else shown
    state.branch = Branch(state.revision, state.leaf, (*others, (node, state.nodes[node])), before.ids)


def _branch(state: State) -> Branch:
    """Return the active branch; walked once for all who ask before it changes."""
    known = known_branch(state)
    if known is None:
        ids = {node.id for node in state.nodes.values()}
        known = state.branch = Branch(state.revision, state.leaf, _shown(state, active_path(state)), ids)
    return known


def known_branch(state: State) -> Branch | None:
    """Return the active branch if it has been walked since it changed."""
    known = state.branch
    return known if known is not None and known.revision == state.revision and known.leaf == state.leaf else None


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
