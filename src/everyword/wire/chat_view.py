"""One connection's view of a chat: a pure state machine over incoming frames and events, in cursor order (R-11, B2).

The connection is *live* (it gets every frame), *parked* (it waits for an accepted turn to start streaming) or *offered*
a turn (it was sent an offer of the stream, and gets no frame of it until it acknowledges). The view knows only a
snapshot at its first cursor and the events since. So it sends nothing that a crash could take back, and nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from ..core.replay import TurnReplay
from ..events import (
    AttemptDelayed,
    AttemptStarted,
    CallAnswered,
    ChatCleared,
    Chunk,
    Event,
    LeafMoved,
    MessageEnded,
    MessageReplaced,
    MessagesPut,
    MessagesRemoved,
    Outcome,
    Placed,
    StateSet,
    TurnAccepted,
    TurnEnded,
    TurnKind,
    TurnRetargeted,
)
from ..ids import NodeId, RequestId, Seq, TurnId
from . import frames
from .client_list import ClientList
from .connection_turns import ChatSnapshot, ConnectionTurn, ConnectionTurns
from .inactive_branches import InactiveBranches
from .parse import ResumeAck, ResumeRequest
from .resume_handshake import NeedsReplay, ResumeHandshake, ResumeMode
from .transcript_frames import Transcript, TranscriptFrames
from .turn_end import TurnEnd, recovered_frames

__all__ = ["ChatView", "CommittedFrames", "ViewMemory"]

_CHANGES: Final = frozenset(
    {
        CallAnswered,
        ChatCleared,
        LeafMoved,
        MessageEnded,
        MessageReplaced,
        MessagesPut,
        MessagesRemoved,
        TurnAccepted,
    }
)
"""Events after which a conversation is another one."""


class CommittedFrames(Protocol):
    """A committed event with room for its encoded frames, shared by all watchers: `live` is a chunk's own."""

    seq: Seq
    event: Event
    live: bytes | None
    frames: dict[str, bytes]


@dataclass(slots=True)
class ViewMemory:
    """What a connection remembers of the chat, to be taken up by another process: JSON by `encode` and `decode`."""

    turns: list[ConnectionTurn]
    last_ended: ConnectionTurn | None
    recovered: RequestId | None
    mode: ResumeMode
    offered: TurnId | None
    is_awaiting: bool
    has_probed: bool
    client_list: ClientList

    @classmethod
    def new(cls, snapshot: ChatSnapshot) -> ViewMemory:
        """Return what a new connection knows."""
        known = ClientList(snapshot.head, is_doubted=bool(snapshot.open))
        return cls(
            list(snapshot.open), snapshot.last_ended, snapshot.recovered, ResumeMode.LIVE, None, False, False, known
        )

    def encode(self) -> bytes:
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> ViewMemory:
        return msgspec.json.decode(data, type=cls)


class ChatView:
    """The chat half of one connection. Feed it frames and events in order; send what it returns.

    `socket` is our own serial of the connection, `owner` the client's `_pk`; `is_present` tells whether any
    connection of a given owner is there, `is_shown` whether a node lies on the branch that is shown: a turn of another
    goes on unseen (R-5). `is_followed` tells whether a message stands behind a node.
    """

    def __init__(
        self,
        memory: ViewMemory,
        *,
        socket: str,
        owner: str | None,
        transcript: Transcript,
        is_present: Callable[[str], bool],
        is_shown: Callable[[NodeId], bool] = lambda node: True,
        is_followed: Callable[[NodeId], bool] = lambda node: False,
    ) -> None:
        self._is_shown, self.client_list = is_shown, memory.client_list
        self._turns = ConnectionTurns(
            memory.turns, socket=socket, owner=owner, is_present=is_present, is_shown=is_shown
        )
        self._handshake = ResumeHandshake(
            self._turns,
            mode=memory.mode,
            offered=memory.offered,
            is_awaiting=memory.is_awaiting,
            has_probed=memory.has_probed,
        )
        self._branches = InactiveBranches(is_shown, socket)
        self._transcript = TranscriptFrames(transcript, self._turns, self.client_list, is_followed)
        self._turn_end = TurnEnd(
            self._turns, self._handshake, self._branches, self.client_list, self._transcript, memory.last_ended
        )
        self._once_recovered = memory.recovered
        self._flowing: TurnId | None = None
        """The turn whose chunks are passed on without a decision; None as soon as another event comes."""
        self._frames: frames.ChunkFrames | None = None
        """Makes the frames of the turn in `_flowing`."""

    @property
    def memory(self) -> ViewMemory:
        """What this connection remembers."""
        return ViewMemory(
            list(self._turns),
            self._turn_end.last_ended,
            self._once_recovered,
            self._handshake.mode,
            self._handshake.offered,
            self._handshake.is_awaiting,
            self._handshake.has_probed,
            self.client_list,
        )

    # -- incoming frames -------------------------------------------------------------------------------------

    def connected(self) -> list[bytes]:
        """Return the chat frames for a new connection; they come before the identity of the agent (R-16)."""
        waiting = list(self._turns)
        recovers = [frames.recovering(i.request, is_recovering=True) for i in waiting if i.recovers_with is not None]
        if not recovers and self._once_recovered is not None:
            recovers = [frames.recovering(self._once_recovered, is_recovering=False)]
        streaming = self._turns.streaming
        if streaming is not None:
            if self._turns.is_owned_by_another(streaming):
                streaming.is_passed_over = True
                return recovers
            self._handshake.offer(streaming)
            return [*self._transcript.placed(streaming, connect=True), frames.resuming(streaming.request), *recovers]
        transcript = [self._transcript.whole(connect=True)]
        if not waiting:
            return [*transcript, *recovers]
        self._handshake.park()
        return [frames.pending(waiting[-1].request), *transcript, *recovers]

    def is_open(self, request: RequestId) -> bool:
        """Tell whether the request's turn is open, as far as this connection knows."""
        return self._turns.of_request(request) is not None

    def resume_requested(self, frame: ResumeRequest) -> list[bytes]:
        """Answer a probe."""
        self._flowing = None
        return self._handshake.probed(frame, self._turn_end.last_ended, self._is_forgotten)

    def acknowledged(self, frame: ResumeAck) -> NeedsReplay | None:
        """Return the turn that has to be read; None if another turn than the acknowledged one is running."""
        return self._handshake.acknowledged(frame)

    def replayed(self, replay: TurnReplay) -> list[bytes]:
        """Return the frames of a replay (B2's second table).

        The caller then hands over the events up to `replay.head` with `passed`, if the turn is still open there;
        if it ended, events continue as usual, and the end comes live.
        """
        self._flowing = None
        here = self._turns.of_request(replay.request)
        if not replay.is_known:
            if here is not None:
                here.is_passed_over = True  # cleared after this connection's cursor: no live frame may follow its end
            return [frames.response(replay.request, "", done=True, replay=True)]
        frame = frames.ChunkFrames(replay.request, is_continuation=replay.is_continuation)
        # A client that got a continuation from its beginning drops repeated chunks by their number, if they have one.
        is_numbered = here is not None and here.is_told and any(index is not None for index, _ in replay.chunks)
        sent = [frame.replayed(body, index) for index, body in replay.chunks if index is not None or not is_numbered]
        complete = frames.replay_complete(replay.request, is_continuation=replay.is_continuation)
        if here is not None:
            self._handshake.go_live()
            here.is_joined, here.is_hidden = True, False
            here.is_passed_over = replay.outcome is not None  # then its transcript and its end follow
            return [*self._transcript.placed(here), *sent, complete]
        if replay.outcome is None:
            return []  # accepted after this connection's cursor: its frames come live
        terminal = frames.terminal(
            replay.request,
            replay.outcome,
            error=replay.error,
            message_ids=replay.message_ids,
            is_continuation=replay.is_continuation,
            replay=True,
        )
        if replay.outcome is Outcome.ERROR:
            sent.append(complete)
        # A client shows a replayed message as the last one: the transcript tells its place.
        self.client_list.doubt(if_=len(self._turns) > 0)
        return [*sent, terminal] if self._turns.streaming is not None else [*sent, terminal, self._transcript.whole()]

    def passed(self, committed: CommittedFrames, request: RequestId) -> list[bytes]:
        """Process an event that the replay of `request` already covers; return the frames of other turns."""
        event = committed.event
        if isinstance(event, Chunk):
            known = self._turns.get(event.turn)
            if known is None:
                return []
            if known.request != request:
                return self.happened(committed)
            known.has_chunks = True
            return recovered_frames(known) if known.recovers_with == event.attempt else []
        return self._event(event, committed.seq)

    # -- events ---------------------------------------------------------------------------------------------------

    def happened_all(self, page: Iterable[CommittedFrames]) -> list[bytes]:
        """Return the frames that tell this connection of some events, as `happened` does of one."""
        told: list[bytes] = []
        for committed in page:
            event = committed.event
            # In full flow there is nothing to decide: with many watchers, these lines are where the time goes.
            if type(event) is Chunk and event.turn == self._flowing:
                told.append(committed.live or self._frame(event, committed))
            else:
                told += self.happened(committed)
        return told

    def is_flowing(self, page: Iterable[CommittedFrames]) -> bool:
        """Tell whether these are chunks of the turn in full flow: their frames change nothing that is remembered."""
        return all(type(each.event) is Chunk and each.event.turn == self._flowing for each in page)

    def _frame(self, event: Chunk, committed: CommittedFrames) -> bytes:
        """Make the frame of a chunk of the turn that flows, for all who watch it."""
        assert self._frames is not None
        frame = committed.live = self._frames.live(event.body, event.index)
        return frame

    def happened(self, committed: CommittedFrames) -> list[bytes]:
        """Return the frames that tell this connection of an event."""
        event = committed.event
        if isinstance(event, Chunk):  # nearly all of them
            return self._chunk(event, committed)
        return self._event(event, committed.seq)

    def _chunk(self, event: Chunk, committed: CommittedFrames) -> list[bytes]:
        known = self._turns.get(event.turn)
        if known is None:
            return []
        recovered = recovered_frames(known) if known.recovers_with == event.attempt else []
        is_first, known.has_chunks = not known.has_chunks, True
        if known.is_passed_over or self._handshake.is_offered(event.turn):
            return recovered
        if is_first and self._handshake.is_live and self._turns.is_mine(known.origin):
            known.is_told = True  # also on a branch that was left: the client waits for it
        if self._branches.hides(known, is_first=is_first):
            self.client_list.doubt()
            return recovered
        if is_first:
            recovered = [*recovered, *self._handshake.begins(known)]
            if self._handshake.is_offered(event.turn):
                return recovered
        known.is_told = known.is_told or is_first
        if self._flowing != event.turn:
            self._flowing = event.turn
            self._frames = frames.ChunkFrames(known.request, is_continuation=known.is_continuation)
            if is_first and self._turns.is_mine(known.origin) and not known.is_continuation:
                self.client_list.begins(known)
        frame = committed.live or self._frame(event, committed)
        placed = self._transcript.placed(known)
        if not placed and not known.is_placed and self._transcript.is_followed(known.node):
            self._flowing = None  # nothing of it can be shown yet: look again at its next chunk
        return [*recovered, frame, *placed] if recovered or placed else [frame]

    def _event(self, event: Event, seq: Seq) -> list[bytes]:
        self._flowing = None
        client_list, changed_at = self.client_list, self.client_list.changed_at
        if type(event) in _CHANGES:
            client_list.changed_at = seq
        match event:
            case TurnAccepted():
                client_list.accepted(event.request, changed_at)
                return self._accepted(event)
            case TurnRetargeted():
                known = self._turns.get(event.turn)
                if known is not None:
                    known.node, known.owner, known.origin = event.node, event.owner, event.origin
                return []
            case AttemptStarted():
                # If the attempt starts from the beginning, what was shown before does not count.
                client_list.doubt(if_=event.fresh and self._turns.get(event.turn) is not None)
                return self._recovers(event) if event.attempt > 1 else []
            case AttemptDelayed():
                return self._recovers(event)
            case CallAnswered():
                told = self._transcript.updated(event.node)
                client_list.doubt(if_=not told)  # no chunk says that something was approved
                return told
            case MessageEnded():
                return self._message_ended(event)
            case TurnEnded():
                return self._turn_end.frames(event)
            case MessagesPut() | MessageReplaced():
                # An answer that streams meanwhile is put behind it by the client, wherever it belongs.
                client_list.doubt(if_=len(self._turns) > 0)
                if not self._turns.is_mine(event.origin) or client_list.has_been_shown:
                    return [self._transcript.whole()]
                return _as_stored(event.messages if isinstance(event, MessagesPut) else [event])
            case LeafMoved():
                client_list.doubt(if_=len(self._turns) > 0)
                return [*self._branches.forget(self._turns), self._transcript.whole()]
            case MessagesRemoved():
                return [self._transcript.whole()] if event.cause != "cap" else []
            case ChatCleared():
                return self._cleared(event)
            case StateSet():
                return [] if self._turns.is_mine(event.origin) else [frames.state(bytes(event.state))]
            case _:
                return []

    def _accepted(self, event: TurnAccepted) -> list[bytes]:
        if not event.kind.is_chat:
            return []
        self._turns.add(ConnectionTurn.accepted(event))
        self.client_list.doubt(if_=len(self._turns) > 1)
        if not (event.messages or event.kind is TurnKind.CHAT) or event.dropped:
            return []
        if not self._turns.is_mine(event.origin):
            # A client that follows an answer of the branch that is left now is shown the new branch after its end.
            return [] if any(map(self._branches.follows, self._turns)) else [self._transcript.whole()]
        if forgotten := self._branches.forget(self._turns):
            return [*forgotten, self._transcript.whole()]
        if not self.client_list.has_been_shown:
            return _as_stored(event.messages)
        # A transcript that was on its way when this connection asked has wiped the question from its screen.
        return [self._transcript.whole()]

    def _message_ended(self, event: MessageEnded) -> list[bytes]:
        known = self._turns.get(event.turn)
        if known is None:
            return self._transcript.updated(event.node)  # late calls: nothing streams, the message keeps its place
        known.is_saved = True
        if not self._is_shown(known.node):
            return []
        if known.is_joined or self._handshake.is_offered(event.turn):
            return []  # told with the end
        if self._turns.is_mine(known.origin) and not known.is_continuation and not event.sanitized:
            return []  # who asked has it from the chunks
        return [self._transcript.whole()]

    def _cleared(self, event: ChatCleared) -> list[bytes]:
        released = self._handshake.cleared()
        self._turns.clear()
        self._turn_end.last_ended = None
        self.client_list.cleared()
        # What was on its way may have brought the old conversation back to who cleared it.
        return [*released, self._transcript.whole()] if self._turns.is_mine(event.origin) else [*released, frames.CLEAR]

    # -- small words -----------------------------------------------------------------------------------------------

    def _recovers(self, event: AttemptStarted | AttemptDelayed) -> list[bytes]:
        """Note the attempt whose first chunk ends a recovery; return a frame if the recovery is new."""
        known = self._turns.get(event.turn)
        if known is None:
            return []
        was_recovering, known.recovers_with = known.recovers_with is not None, event.attempt
        return [] if was_recovering else [frames.recovering(known.request, is_recovering=True)]

    def _is_forgotten(self, known: ConnectionTurn) -> bool:
        """True for a turn that had chunks and left no message: a client that missed its end still shows them."""
        return known.outcome is Outcome.ABORTED and known.has_chunks and not self._transcript.updated(known.node)


def _as_stored(messages: Iterable[Placed | MessageReplaced]) -> list[bytes]:
    """Return the updates of a client's own messages: the client lacks only the server's fields (R-37)."""
    return [frames.message_updated(bytes(each.message)) for each in messages]
