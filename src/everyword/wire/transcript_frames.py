"""Frames that show one connection the stored conversation: a whole transcript, or one message of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ids import NodeId
from . import frames
from .client_list import ClientList
from .connection_turns import ConnectionTurn, ConnectionTurns

__all__ = ["Transcript", "TranscriptFrames"]

Transcript = Callable[[], Sequence[tuple[NodeId, bytes, bool]]]
"""Returns the newest committed conversation: node, body, and True while its turn still writes it (B4)."""


class TranscriptFrames:
    """Renders the conversation when a frame is written, and notes in `ClientList` what the client was shown.

    `is_followed` tells whether a message comes after a node.
    """

    def __init__(
        self,
        transcript: Transcript,
        turns: ConnectionTurns,
        client_list: ClientList,
        is_followed: Callable[[NodeId], bool],
    ) -> None:
        self._transcript, self._turns, self._client_list = transcript, turns, client_list
        self.is_followed = is_followed

    def whole(self, *, connect: bool = False) -> bytes:
        """Return the transcript, without a last answer whose end this connection has not seen (B4)."""
        unfinished = {i.node: i for i in self._turns if not i.is_saved and not i.is_continuation}
        transcript = self._transcript()
        if unfinished and transcript and not transcript[-1][2] and transcript[-1][0] in unfinished:
            transcript = transcript[:-1]
        bodies = [body for _, body, _ in transcript]
        for node, _, _ in transcript if unfinished else ():
            if node in unfinished:
                unfinished[node].is_placed = True
        self._client_list.shown(is_whole=bool(bodies) and not len(self._turns))
        return frames.messages(bodies, connect=connect)

    def updated(self, node: NodeId) -> list[bytes]:
        """Return the frame of one message as it is stored; nothing if it is not in the conversation."""
        body = next((body for other, body, _ in self._transcript() if other == node), None)
        return [frames.message_updated(body)] if body is not None else []

    def placed(self, known: ConnectionTurn, *, connect: bool = False) -> list[bytes]:
        """Return a transcript if a message comes after the answer of a turn: a client puts a streamed answer last."""
        if known.is_placed or known.is_continuation or not self.is_followed(known.node):
            return []
        if not any(node == known.node for node, _, _ in self._transcript()):
            return []  # the answer has nothing that can be shown yet
        return [self.whole(connect=connect)]
