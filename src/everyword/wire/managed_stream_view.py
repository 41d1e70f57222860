"""One connection's view of an agent that does not chat: its state, and the streams that its manager writes.

What is stored is what is sent: a chunk's frame is made from the committed event, so a slow client is an old cursor and
loses nothing. Frames of the conversation are for chats and stay unsaid.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ..events import (
    ChatCleared,
    Chunk,
    LeafMoved,
    MessageReplaced,
    MessagesPut,
    MessagesRemoved,
    Outcome,
    TurnAccepted,
    TurnEnded,
    TurnKind,
)
from ..ids import MessageId, RequestId, TurnId
from ..messages.managed_stream import ManagedChunkEvent, decode_chunk_event
from .chat_view import ChatView, CommittedFrames

__all__ = ["CHUNK", "CUT", "END", "ManagedStreamView"]

CHUNK = "rsm_stream_chunk"
CUT = "rsm_stream_cut"
END = "rsm_stream_end"

_encode = msgspec.json.encode
_Conversation = MessagesPut | MessageReplaced | MessagesRemoved | LeafMoved | ChatCleared


class ManagedStreamView:
    """Turns events into frames for one connection, in cursor order.

    `streams` are those that are open at the connection's first cursor; `others` tells of everything else.
    """

    def __init__(self, streams: dict[TurnId, tuple[RequestId, MessageId]], others: ChatView) -> None:
        self._open, self._others = dict(streams), others

    def happened_all(self, page: Iterable[CommittedFrames]) -> list[bytes]:
        """Return the frames that tell this connection of some events."""
        told: list[bytes] = []
        for committed in page:
            told += self._happened(committed)
        return told

    def _happened(self, committed: CommittedFrames) -> list[bytes]:
        event = committed.event
        if isinstance(event, Chunk) and event.turn in self._open:
            frame = committed.frames.get("rsm")
            if frame is None:
                frame = _piece_frame(self._open[event.turn][0], decode_chunk_event(bytes(event.body)))
                committed.frames["rsm"] = frame
            return [frame] if frame else []
        if isinstance(event, TurnAccepted) and event.kind is TurnKind.RSM:
            self._open[event.turn] = (event.request, event.message_id)
            return []
        if isinstance(event, TurnEnded) and event.turn in self._open:
            return [_end_frame(*self._open.pop(event.turn), event)]
        return [] if isinstance(event, _Conversation) else self._others.happened(committed)


def _piece_frame(stream: RequestId, piece: ManagedChunkEvent | None) -> bytes:
    if piece is None:
        return b""
    frame = {"type": CUT, "streamId": stream, "index": piece.index}
    if piece.content is not None:
        frame |= {"type": CHUNK, "content": piece.content}
    if piece.restarts:
        frame["restarts"] = piece.restarts
    return _encode(frame)


def _end_frame(stream: RequestId, message: MessageId, event: TurnEnded) -> bytes:
    frame = {"type": END, "streamId": stream, "messageId": message, "status": "completed"}
    if event.reason == "cleared":
        frame["status"] = "cleared"  # deleted on purpose, so not an error
    elif event.outcome is not Outcome.COMPLETED:
        frame |= {"status": "error", "error": event.error or event.outcome.value}
    return _encode(frame)
