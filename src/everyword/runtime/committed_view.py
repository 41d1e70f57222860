"""What readers see of one agent between two commits: its conversation, its state, and how many turns it had.

The actor's own state may be ahead of the log when a reader asks, and nothing may be seen before it is committed (I-3).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.conversation import RunningAnswer, Shown, is_followed, running_answer, stored_messages, with_running
from ..core.state import State
from ..core.tree import Node
from ..ids import NodeId, TurnId

__all__ = ["CommittedView"]


class CommittedView:
    """The newest committed conversation and state. Updated after each commit, before the events are published."""

    def __init__(self) -> None:
        self.last_turn = TurnId(0)
        self.state_value: bytes | None = None
        """The agent's committed state, as JSON."""
        self.has_answer_to_follow = False
        """True while the answer that is being written is shown in the middle of the conversation: then every chunk
        changes what is shown."""
        self._shown: Sequence[tuple[NodeId, Node]] = ()
        self._path: Sequence[NodeId] = ()
        self._transcript: list[Shown] | None = []
        """The stored messages; None if they have to be collected again."""
        self._running: RunningAnswer | None = None
        self._revision = -1

    def update(self, state: State) -> None:
        """Take in a committed state."""
        self.last_turn, self.state_value = state.last_turn, state.value
        if state.tree.revision != self._revision:
            self._revision, self._transcript = state.tree.revision, None
            self._path, self._shown = state.tree.active_path(), state.tree.shown_path()
        self.update_answer(state)

    def update_answer(self, state: State) -> None:
        """Take in how far the answer is that is being written."""
        current = state.current
        self.has_answer_to_follow = (
            current is not None and not current.is_continuation and self.is_followed(current.node)
        )
        self._running = running_answer(state) if self.has_answer_to_follow else None

    @property
    def messages(self) -> list[Shown]:
        """The stored messages of the conversation."""
        if self._transcript is None:
            self._transcript = stored_messages(self._shown)
        return self._transcript

    @property
    def conversation(self) -> list[Shown]:
        """The conversation as clients are shown it, with the answer that is being written at its place."""
        return with_running(self.messages, self._path, self._running)

    def is_followed(self, node: NodeId) -> bool:
        """Tell whether a message stands behind a place of the branch that is shown."""
        return is_followed(self._path, self._shown[-1][0] if self._shown else None, node)

    def shows(self, node: NodeId) -> bool:
        """Tell whether a node lies on the branch that is shown, with a message or without."""
        return self._path[-1:] == (node,) or node in self._path
