"""A conversation for readers: its messages, how their turns ended, and who approved which call.

It is a fold of the log, so it can be read without loading the agent, on any node, and as of any position of the log.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from ..errors import BadMessage
from ..events import Event, Outcome, TurnEnded
from ..ids import CallId, MessageId, Millis, NodeId, ShareId
from ..messages.message import UIMessage
from ..rows import SETTLED, ApprovalRecord, ConversationSummary, decode_listed
from .evolve import evolve
from .state import State
from .transcript import Ending
from .turn_state import TurnState

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

    def has_share(self, share: ShareId) -> bool:
        """Return whether a shared link was created and not revoked. It may have expired."""
        return share in self._state.shares

    def leaf_of(self, branch: int | str) -> NodeId | None:
        """Return the newest leaf below a message, given as its node or its id; None if there is no such message."""
        tree = self._state.tree
        node = NodeId(branch) if isinstance(branch, int) else tree.node_of_message(MessageId(branch))
        return tree.newest_leaf_below(node) if node is not None and node in tree.nodes else None

    def messages(self, leaf: NodeId | None = None) -> Iterator[RecordedMessage]:
        """Yield the messages of the branch that ends at `leaf`, by default the one that is shown, oldest first."""
        for node in self._path(leaf):
            found = self._recorded(node, self._writer(node))
            if found is not None:
                yield found

    def ended_messages(self) -> Iterator[RecordedMessage]:
        """Yield the messages of the branch that is shown, without what open turns have written."""
        for node in self._path(None):
            turn = self._writer(node)
            if turn is None or turn.accepted.kind.extends:
                found = self._recorded(node, None)
                if found is not None:
                    yield found

    def versions(self) -> Iterator[tuple[NodeId, Hashable]]:
        """Yield the nodes of the branch that is shown; a message changes only if the value beside its node does."""
        for node in self._path(None):
            turn, place = self._writer(node), self._state.tree.nodes[node]
            written = (turn.id, turn.attempt, turn.chunks, turn.fold is None) if turn is not None else None
            waiting = tuple(each.call for each in self._state.waiting.values() if each.node == node)
            yield node, (place.body, place.draft, written, self._endings.get(node), waiting)

    def message(self, node: NodeId) -> RecordedMessage | None:
        """Return the message at a node; None if there is none to show."""
        return self._recorded(node, self._writer(node))

    def _path(self, leaf: NodeId | None) -> tuple[NodeId, ...]:
        tree = self._state.tree
        return tuple(tree.ancestors(tree.leaf if leaf is None else leaf))[::-1]

    def _writer(self, node: NodeId) -> TurnState | None:
        return next((each for each in self._state.message_turns() if each.node == node), None)

    def _recorded(self, node: NodeId, turn: TurnState | None) -> RecordedMessage | None:
        place = self._state.tree.nodes[node]
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
        waiting = {each.call: each for each in self._state.waiting.values() if each.node == node}
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
