"""The conversation that clients are shown: the stored messages, and the running answer at its place among them.

The running answer is included when another message follows it, such as a question that waits for its turn. At the end
of the conversation it is left out: clients append the message that they stream to their list, and `ai` before 6.0.250
doubles the parts of a message that is in the list when its stream begins.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ids import NodeId
from ..messages.message import UIMessage
from .state import State
from .tree import Node

__all__ = [
    "RunningAnswer",
    "Shown",
    "conversation",
    "has_gap",
    "is_followed",
    "running_answer",
    "stored_messages",
    "with_reserved",
    "with_running",
]

Shown = tuple[NodeId, bytes, bool]
"""A message that is shown: its node, its JSON, and whether its turn still writes it."""

RunningAnswer = tuple[NodeId, UIMessage]
"""The node of the running answer, and the message so far."""


def conversation(state: State) -> list[Shown]:
    """Return the conversation that clients are shown, oldest message first."""
    return with_running(stored_messages(state.tree.shown_path()), state.tree.active_path(), running_answer(state))


def with_reserved(state: State, shown: list[Shown]) -> list[Shown]:
    """Return the messages with an empty one for each answer that has not begun and has a message behind it.

    Pages that cannot insert a message between two others need a place for it.
    """
    path, there = state.tree.active_path(), {node: (node, body, is_written) for node, body, is_written in shown}
    last = shown[-1][0] if shown else None
    for turn in state.chat_turns():
        if turn.node not in there and is_followed(path, last, turn.node):
            there[turn.node] = turn.node, UIMessage(state.tree.nodes[turn.node].id, "assistant", []).encode(), True
    return [there[node] for node in path if node in there]


def stored_messages(path: Sequence[tuple[NodeId, Node]]) -> list[Shown]:
    """Return the stored messages of a path; of an answer that waits for an approval, its draft."""
    # As `Node.shown`, without a call for each of thousands.
    return [(node, body, place.draft is not None) for node, place in path if (body := place.draft or place.body)]


def running_answer(state: State) -> RunningAnswer | None:
    """Return the running answer if a message follows it on the active path.

    Not the message of a continuation: it is stored, and its stream begins with the stored message.
    """
    turn = state.current
    if turn is None or turn.is_continuation or turn.fold is None or turn.fold.is_empty:
        return None
    path, shown = state.tree.active_path(), state.tree.shown_path()
    last = shown[-1][0] if shown else None
    return (turn.node, turn.fold.message()) if is_followed(path, last, turn.node) else None


def is_followed(path: Sequence[NodeId], last: NodeId | None, node: NodeId) -> bool:
    """Return whether `last`, the last node of the path with a message, comes after `node`."""
    for place in reversed(path):
        if place == node:
            return False
        if place == last:
            return node in path
    return False


def has_gap(state: State) -> bool:
    """Return whether a node without a message has one behind it: its answer is running, or ended without a message."""
    path, shown = state.tree.active_path(), state.tree.shown_path()
    return bool(shown) and path.index(shown[-1][0]) + 1 != len(shown)


def with_running(shown: list[Shown], path: Sequence[NodeId], running: RunningAnswer | None) -> list[Shown]:
    """Return the messages with the running answer at its place."""
    if running is None:
        return shown
    node, message = running
    behind = set(path[path.index(node) + 1 :])
    before = [each for each in shown if each[0] not in behind and each[0] != node]
    return [*before, (node, message.encode(), True), *(each for each in shown if each[0] in behind)]
