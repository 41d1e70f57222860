"""A conversation as people read it: its messages, how their turns ended, and who approved which call.

It is a fold of the log, so it can be read without loading the agent, on any node, and as of any position of the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..errors import BadMessage
from ..events import Event, Outcome, TurnEnded
from ..ids import CallId, MessageId, Millis, NodeId
from ..messages.message import UIMessage
from ..rows import SETTLED, ApprovalRecord, ConversationSummary, decode_listed
from .evolve import evolve
from .state import State
from .transcript import Ending

__all__ = ["ConversationRecord", "RecordedMessage"]


@dataclass(frozen=True, slots=True)
class RecordedMessage:
    """One message of a branch. `message` is None if the answer has not begun, or ended without a word."""

    node: NodeId
    id: MessageId
    role: str
    at: Millis
    message: UIMessage | None
    is_unreadable: bool = False
    is_open: bool = False
    """Whether a turn is writing it, or will."""
    ending: Ending | None = None
    """How its last turn ended; None while a turn is open, and for messages without one."""
    approvals: dict[CallId, ApprovalRecord] = field(default_factory=dict)
    """The calls that a person was asked to approve."""


@dataclass(slots=True)
class ConversationRecord:
    """Apply the events of a log in order, from its beginning."""

    _state: State = field(default_factory=State)
    _endings: dict[NodeId, Ending] = field(default_factory=dict)
    _settled: dict[NodeId, dict[CallId, ApprovalRecord]] = field(default_factory=dict)

    def apply(self, event: Event, at: Millis) -> None:
        """Apply the next event."""
        evolve(self._state, event, at)
        for row in self._state.listed:
            if row.kind == SETTLED:
                settled = decode_listed(row.body, ApprovalRecord)
                self._settled.setdefault(settled.node, {})[settled.call] = settled
        if isinstance(event, TurnEnded) and event.outcome is not Outcome.SKIPPED:
            turn = self._state.find(event.turn)
            if turn is not None and not turn.accepted.kind.is_bare:
                self._endings[turn.node] = Ending(event.outcome.value, event.error, event.reason)

    @property
    def summary(self) -> ConversationSummary | None:
        """The conversation as lists show it; None before the first message."""
        return self._state.conversation

    def leaf_of(self, branch: int | str) -> NodeId | None:
        """Return the newest leaf below a message, given as its node or its id; None if there is no such message."""
        tree = self._state.tree
        node = NodeId(branch) if isinstance(branch, int) else tree.node_of_message(MessageId(branch))
        return tree.newest_leaf_below(node) if node is not None and node in tree.nodes else None

    def messages(self, leaf: NodeId | None = None) -> Iterator[RecordedMessage]:
        """Yield the messages of the branch that ends at `leaf`, by default the one that is shown, oldest first."""
        tree = self._state.tree
        for node in tuple(tree.ancestors(tree.leaf if leaf is None else leaf))[::-1]:
            found = self._recorded(node)
            if found is not None:
                yield found

    def _recorded(self, node: NodeId) -> RecordedMessage | None:
        place = self._state.tree.nodes[node]
        turn = next((each for each in self._state.message_turns() if each.node == node), None)
        message, is_unreadable = None, False
        if turn is not None and turn.fold is not None and not turn.fold.is_empty:
            message = turn.fold.message()
        elif place.shown is not None:
            try:
                message = UIMessage.decode(place.shown)
            except BadMessage:
                is_unreadable = True
        ending = self._endings.get(node) if turn is None else None
        if message is None and not is_unreadable and turn is None and ending is None:
            return None  # its question was dropped, or answered together with another
        waiting = {call: each for call, each in self._state.waiting.items() if each.node == node}
        return RecordedMessage(
            node,
            place.id,
            place.role,
            place.at,
            message,
            is_unreadable=is_unreadable,
            is_open=turn is not None,
            ending=ending,
            approvals={**self._settled.get(node, {}), **waiting},
        )
