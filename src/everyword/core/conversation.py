"""The conversation as clients are shown it: the stored messages, and among them the answer that is being written.

That answer is shown at its place as soon as something stands behind it, such as a question that waits for its turn. At
the end of the conversation it is left to its stream: clients put what streams at the end of their list by themselves,
and `ai` before 6.0.250 doubles the parts of a message that is in the list already when its stream begins.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ids import NodeId
from ..messages.message import UIMessage
from .state import State
from .tree import Node

__all__ = ["RunningAnswer", "Shown", "conversation", "has_gap", "is_followed", "running_answer", "stored_messages"]
__all__ += ["with_reserved", "with_running"]

Shown = tuple[NodeId, bytes, bool]
"""A message that is shown: its place, its JSON, and whether its turn still writes it."""

RunningAnswer = tuple[NodeId, UIMessage]
"""The place of the answer that is being written, and the message so far."""


def conversation(state: State) -> list[Shown]:
    """Return the conversation as clients are shown it, oldest first."""
    return with_running(stored_messages(state.tree.shown_path()), state.tree.active_path(), running_answer(state))


def with_reserved(state: State, shown: list[Shown]) -> list[Shown]:
    """Return the messages with an empty one for each answer that has not begun and has something behind it.

    A page that cannot be told to put a message between two others has a place for it then.
    """
    path, there = state.tree.active_path(), {node: (node, body, is_written) for node, body, is_written in shown}
    last = shown[-1][0] if shown else None
    for turn in state.chat_turns():
        if turn.node not in there and is_followed(path, last, turn.node):
            there[turn.node] = turn.node, UIMessage(state.tree.nodes[turn.node].id, "assistant", []).encode(), True
    return [there[node] for node in path if node in there]


def stored_messages(path: Sequence[tuple[NodeId, Node]]) -> list[Shown]:
    """Return the stored messages of a path; of one that waits for somebody's approval, the draft."""
    # As `Node.shown`, without a call for each of thousands.
    return [(node, body, place.draft is not None) for node, place in path if (body := place.draft or place.body)]


def running_answer(state: State) -> RunningAnswer | None:
    """Return the answer that is being written, if something stands behind it on the branch that is shown.

    A continuation extends a message that is stored, and its stream begins with that message as it is stored.
    """
    turn = state.current
    if turn is None or turn.is_continuation or turn.fold is None or turn.fold.is_empty:
        return None
    path, shown = state.tree.active_path(), state.tree.shown_path()
    last = shown[-1][0] if shown else None
    return (turn.node, turn.fold.message()) if is_followed(path, last, turn.node) else None


def is_followed(path: Sequence[NodeId], last: NodeId | None, node: NodeId) -> bool:
    """Tell whether `last`, the last place of the path with a message, stands behind `node`."""
    for place in reversed(path):
        if place == node:
            return False
        if place == last:
            return node in path
    return False


def has_gap(state: State) -> bool:
    """Tell whether a message stands behind a place that has none: its answer is being written, or left nothing."""
    path, shown = state.tree.active_path(), state.tree.shown_path()
    return bool(shown) and path.index(shown[-1][0]) + 1 != len(shown)


def with_running(shown: list[Shown], path: Sequence[NodeId], running: RunningAnswer | None) -> list[Shown]:
    """Return the messages with the answer that is being written at its place."""
    if running is None:
        return shown
    node, message = running
    behind = set(path[path.index(node) + 1 :])
    before = [each for each in shown if each[0] not in behind and each[0] != node]
    return [*before, (node, message.encode(), True), *(each for each in shown if each[0] in behind)]
