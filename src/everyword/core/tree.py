"""The message tree (B3). Nodes have numbers of their own, because an edited message keeps its message id.

The active path leads from a root to the active leaf. A node whose parent was removed by the limit on stored messages
is a root.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from ..ids import MessageId, Millis, NodeId

__all__ = ["Node", "Tree"]


class Node(msgspec.Struct, frozen=True, gc=False):
    """A place in the message tree. Without body and draft it is reserved for an answer, and no reader is shown it.

    A node is never changed, only replaced: a caller may keep a path as it was committed without copying it.
    """

    parent: NodeId | None
    id: MessageId
    role: str
    at: Millis
    body: bytes | None = None
    draft: bytes | None = None

    @property
    def shown(self) -> bytes | None:
        """The message that clients are shown: the draft if there is one, else the stored message."""
        return self.draft if self.draft is not None else self.body


class Tree:
    """All messages of an agent, and which of them are shown.

    `evolve` calls the methods that change the tree; nothing else does. The methods that read remember what they
    computed until a change makes it wrong; a caller cannot tell the difference.
    """

    __slots__ = ("_ids", "_last_node", "_leaf", "_nodes", "_path", "_shown", "revision")

    def __init__(
        self, nodes: dict[NodeId, Node] | None = None, leaf: NodeId | None = None, last_node: NodeId = NodeId(0)
    ) -> None:
        self._nodes = nodes if nodes is not None else {}
        self._leaf = leaf
        self._last_node = last_node
        self.revision = 0
        """Grows with every change of the tree, or of a message in it."""
        # Remembered by the methods that read; None when it has to be computed again.
        self._path: tuple[NodeId, ...] | None = None
        self._shown: tuple[tuple[NodeId, Node], ...] | None = None
        self._ids: set[MessageId] | None = None

    # -- reading -------------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> Mapping[NodeId, Node]:
        """Every node, in the order in which they were added."""
        return self._nodes

    @property
    def leaf(self) -> NodeId | None:
        """The last node of the active path."""
        return self._leaf

    @property
    def last_node(self) -> NodeId:
        """The highest number that a node ever had; numbers are not used again."""
        return self._last_node

    def stored(self, node: NodeId) -> bytes | None:
        """Return the stored message at a node; None if the node or its message does not exist."""
        place = self._nodes.get(node)
        return place.body if place is not None else None

    def ancestors(self, node: NodeId | None) -> Iterator[NodeId]:
        """Iterate from `node` up to its root."""
        while node is not None and node in self._nodes:
            yield node
            node = self._nodes[node].parent

    def active_path(self) -> Sequence[NodeId]:
        """Return the nodes from the root to the active leaf, reserved ones included."""
        if self._path is None:
            self._path = self._path_to(self._leaf)
        return self._path

    def shown_path(self, leaf: NodeId | None = None) -> Sequence[tuple[NodeId, Node]]:
        """Return the nodes with a message from the root to `leaf` (default: the active leaf)."""
        if leaf is None or leaf == self._leaf:
            if self._shown is None:
                self._shown = self._with_message(self.active_path())
            return self._shown
        path = self.active_path()
        if len(path) > 1 and leaf == path[-2]:  # what a running answer was asked with: all but the answer
            shown = self.shown_path()
            return shown[:-1] if shown and shown[-1][0] == path[-1] else shown
        return self._with_message(self._path_to(leaf))

    def known_ids(self) -> AbstractSet[MessageId]:
        """Return the ids of all messages, on every branch, those of answers to come included.

        The set is valid until the next change of the tree.
        """
        if self._ids is None:
            self._ids = {node.id for node in self._nodes.values()}
        return self._ids

    def node_of_message(self, message: MessageId) -> NodeId | None:
        """Return the node that has this message id: on the active path if possible, else the newest."""
        for node in self.ancestors(self._leaf):
            if self._nodes[node].id == message:
                return node
        found: NodeId | None = None
        for node, place in self._nodes.items():
            if place.id == message:
                found = node
        return found

    def versions(self, node: NodeId) -> list[NodeId]:
        """Return the siblings of `node`, itself included, that have a message: versions of an answer or a question."""
        place = self._nodes[node]
        return [
            other
            for other, sibling in self._nodes.items()
            if sibling.parent == place.parent and sibling.role == place.role and sibling.shown is not None
        ]

    def newest_leaf_below(self, node: NodeId) -> NodeId:
        """Return the leaf that is reached from `node` by always taking the newest child."""
        leaf = node
        while (child := max((n for n, place in self._nodes.items() if place.parent == leaf), default=None)) is not None:
            leaf = child
        return leaf

    # -- changing ------------------------------------------------------------------------------------------------

    def add(self, node: NodeId, place: Node) -> None:
        """Add a node. It is on the active path once `move_leaf` says so."""
        self._nodes[node] = place
        self._last_node = max(self._last_node, node)
        self.revision += 1
        if self._ids is not None:
            self._ids.add(place.id)

    def move_leaf(self, leaf: NodeId | None) -> None:
        """Make `leaf` the end of the active path."""
        added = self._path_from(self._leaf, leaf) if self._path is not None else None
        self._leaf = leaf
        self.revision += 1
        if self._path is None or added is None:
            self._path = self._shown = None
            return
        # The path only grew, as it does with each question: no need to walk a long conversation again.
        self._path += added
        if self._shown is not None:
            self._shown += self._with_message(added)

    def write(self, node: NodeId, body: bytes | None, *, draft: bytes | None = None) -> None:
        """Replace the message at a node, and its draft."""
        place = self._nodes[node]
        written = self._nodes[node] = Node(place.parent, place.id, place.role, place.at, body, draft)
        self.revision += 1
        if self._shown is None or node != self._leaf:
            self._shown = None
            return
        # The end of an answer changes the last message only: no need to collect the others again.
        others = self._shown[:-1] if self._shown and self._shown[-1][0] == node else self._shown
        self._shown = (*others, (node, written)) if written.shown is not None else others

    def reparent(self, node: NodeId, parent: NodeId | None) -> None:
        """Move a node, with all that is below it, below another parent."""
        place = self._nodes[node]
        self._nodes[node] = Node(parent, place.id, place.role, place.at, place.body, place.draft)
        self.revision += 1
        self._path = self._shown = None

    def remove(self, nodes: Iterable[NodeId]) -> None:
        """Remove nodes; their children become roots."""
        for node in nodes:
            self._nodes.pop(node, None)
        self.revision += 1
        self._path = self._shown = self._ids = None

    def clear(self) -> None:
        """Remove all nodes. Their numbers are not used again."""
        self._nodes.clear()
        self._leaf = None
        self.revision += 1
        self._path = self._shown = self._ids = None

    # -- walking -------------------------------------------------------------------------------------------------

    def _path_to(self, leaf: NodeId | None) -> tuple[NodeId, ...]:
        return tuple(self.ancestors(leaf))[::-1]

    def _path_from(self, ancestor: NodeId | None, node: NodeId | None) -> tuple[NodeId, ...] | None:
        """Return the nodes below `ancestor` down to `node`; None if `node` is not below it."""
        path: list[NodeId] = []
        for each in self.ancestors(node):
            if each == ancestor:
                return tuple(path[::-1])
            path.append(each)
        return tuple(path[::-1]) if ancestor is None else None

    def _with_message(self, path: Iterable[NodeId]) -> tuple[tuple[NodeId, Node], ...]:
        nodes = self._nodes
        # As `Node.shown`, without a call for each of thousands.
        return tuple([(n, place) for n in path if (place := nodes[n]).body is not None or place.draft is not None])
