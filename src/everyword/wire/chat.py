"""One connection's view of a chat: a pure machine over incoming frames and events, in cursor order (R-11, B2).

The connection is *live* (it gets what happens), *parked* (it waits to hear whether a turn that was accepted starts to
stream) or *offered* a turn (it was told that there is a stream, and gets nothing of it until it acknowledges). All it
knows it learned from a snapshot at its first cursor and from the events since: so it never says what a crash could
take back, and never something twice.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

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
    RunEnded,
    RunStarted,
    StateSet,
    TurnAccepted,
    TurnEnded,
    TurnKind,
    TurnRetargeted,
)
from ..ids import MessageId, NodeId, RequestId, Seq, TurnId
from . import frames
from .left_branches import LeftBranches
from .parse import ResumeAck, ResumeRequest

__all__ = ["IGNORED", "Caches", "ChatView", "KnownTurn", "NeedsReplay", "Snapshot"]

IGNORED = 4
"""So often a client may ask as if it had been shown nothing: a request may have lain somewhere for a while."""

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

JsonObject = dict[str, Any]
Transcript = Callable[[], Sequence[tuple[NodeId, bytes, bool]]]
"""Returns the newest committed conversation, with marks at what is being written: rendered when it is written (B4)."""


class Caches(Protocol):
    """A committed event with room for its encoded frames, shared by all watchers: `live` is a chunk's own."""

    seq: Seq
    event: Event
    live: bytes | None
    frames: dict[str, bytes]


@dataclass(slots=True)
class KnownTurn:
    """What a connection needs to know of a turn."""

    turn: TurnId
    request: RequestId
    node: NodeId
    is_continuation: bool
    origin: str | None = None
    owner: str | None = None
    message_ids: Sequence[MessageId] = ()
    answer: MessageId | None = None
    """The id of its message, for turns that this connection was told of from their beginning."""
    has_chunks: bool = False
    is_saved: bool = False
    """Its message has ended and may be shown."""
    is_hidden: bool = False
    """Its branch is not shown, and this connection is told nothing of it any more but its end."""
    is_told: bool = False
    """This connection was told its chunks from the first one on."""
    is_joined: bool = False
    """This connection acknowledged the turn's stream, and so reads it as its own."""
    is_placed: bool = False
    """A transcript had its message, so that the client knows where it belongs."""
    outcome: Outcome | None = None
    recovers_with: int | None = None
    """The later attempt that was started and has said nothing yet (R-17)."""


@dataclass(slots=True)
class Snapshot:
    """The committed state at a cursor, as far as connections care. `open` in order of acceptance."""

    head: Seq
    open: list[KnownTurn] = field(default_factory=list)
    last_ended: KnownTurn | None = None
    recovered: RequestId | None = None
    """The newest turn that took more than one attempt: who was away when it recovered may not know."""
    runs: Sequence[tuple[RunStarted, RunEnded | None]] = ()
    """Sub-agents that work, or have worked, as tools."""
    streams: dict[TurnId, tuple[RequestId, MessageId]] = field(default_factory=dict)
    """The open streams of a manager, and the messages that they become (R-20)."""


@dataclass(frozen=True, slots=True)
class NeedsReplay:
    """The acknowledged turn has to be read from the committed state; then call `replayed`."""

    request: RequestId


class _Mode(enum.Enum):
    LIVE = "live"
    PARKED = "parked"
    OFFERED = "offered"


class ChatView:
    """The chat half of one connection. Feed it frames and events in order; send what it returns.

    `socket` is our own serial of the connection, `owner` the client's `_pk`; `is_present` tells whether any
    connection of a given owner is there, `is_shown` whether a node lies on the branch that is shown: a turn of another
    goes on unseen (R-5). `is_followed` tells whether a message stands behind a node.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        socket: str,
        owner: str | None,
        transcript: Transcript,
        is_present: Callable[[str], bool],
        is_shown: Callable[[NodeId], bool] = lambda node: True,
        is_followed: Callable[[NodeId], bool] = lambda node: False,
    ) -> None:
        self._socket, self._owner = socket, owner
        self._transcript, self._is_present = transcript, is_present
        self._is_shown, self._is_followed = is_shown, is_followed
        self._left = LeftBranches(is_shown, self._is_mine)
        self._open = {known.turn: known for known in snapshot.open}
        self._last_ended, self._once_recovered = snapshot.last_ended, snapshot.recovered
        self._mode = _Mode.LIVE
        self._offered: TurnId | None = None
        self._is_doubted = bool(snapshot.open)
        """Whether the client may show something else than the transcript, for all that it was told."""
        self._has_been_shown = False
        """Whether a transcript was written that may still be on its way to the client."""
        self.transcripts = 0
        """How many transcripts were written."""
        self._proof: KnownTurn | None = None
        """A turn of this connection's own that began to speak after the last transcript: who knows its answer's id has
        read the transcript."""
        self._has_list = False
        """Whether the client was shown a conversation since it last asked, after an answer: it should send it along."""
        self._ignored = 0
        """How often it did not, one after the other."""
        self._asked: tuple[RequestId, Seq] | None = None
        """The question that is being asked, and the head of the log that its list was compared with."""
        self._changed_at = snapshot.head
        """Where the conversation last changed."""
        self._passed_over: TurnId | None = None
        """A turn whose chunks were replayed up to its end, which is still to come."""
        self._flowing: TurnId | None = None
        """The turn whose chunks are passed on as they come; None as soon as anything else happens."""
        self._frames: frames.ChunkFrames | None = None
        """What makes the frames of the turn that flows."""

    # -- incoming frames -------------------------------------------------------------------------------------

    def connected(self) -> list[bytes]:
        """Return what a new connection is told of the chat, before who it talks to (R-16)."""
        waiting = list(self._open.values())
        recovers = [frames.recovering(i.request, is_recovering=True) for i in waiting if i.recovers_with is not None]
        if not recovers and self._once_recovered is not None:
            recovers = [frames.recovering(self._once_recovered, is_recovering=False)]
        streaming = self._streaming()
        if streaming is not None:
            if self._is_owned_by_another(streaming):
                self._passed_over = streaming.turn
                return recovers
            self._offer(streaming)
            return [*self._placed(streaming, connect=True), frames.resuming(streaming.request), *recovers]
        transcript = [self._messages(connect=True)]
        if not waiting:
            return [*transcript, *recovers]
        self._mode = _Mode.PARKED
        return [frames.pending(waiting[-1].request), *transcript, *recovers]

    def asks(
        self, request: RequestId, messages: Sequence[JsonObject], *, head: Seq, is_stale: bool, is_new: bool
    ) -> None:
        """Take in what the list of a question tells of the client that sends it.

        If it `is_stale`, another conversation than the one stored at `head`, the client is told the transcript once
        nothing runs; so it is if the conversation changes before the question is accepted. But it is not if the list
        `is_new`, all of it, again and again, whatever the client is shown: such a client sends what is new and
        nothing else, and what it shows is not known from it.
        """
        self._ignored = self._ignored + self._has_list if is_new else 0
        self._has_list = False
        is_brief = self._ignored >= IGNORED
        self._asked = None if is_brief else (request, head)
        self._is_doubted = self._is_doubted or (is_stale and not is_brief)
        proof = self._proof
        if proof is None:
            return
        if is_brief:
            has_read = proof.outcome is not None  # it waited for the end of its turn
        else:
            has_read = any(each["id"] == proof.answer for each in reversed(messages))
        self._has_been_shown = self._has_been_shown and not has_read

    def has_arrived(self) -> None:
        """Note that the client has had the time to take in every transcript that was written."""
        self._has_been_shown = False

    def is_open(self, request: RequestId) -> bool:
        """Tell whether this connection knows of the request's turn, and that it has not ended."""
        return any(known.request == request for known in self._open.values())

    def resume_requested(self, frame: ResumeRequest) -> list[bytes]:
        """Answer a probe: the first row of B2's first table that fits."""
        self._flowing = None
        streaming = self._streaming()
        if streaming is not None and self._is_owned_by_another(streaming):
            return [frames.resume_none("continuation-owned", frame.probe)]
        if streaming is not None:
            self._offer(streaming)
            return [frames.resuming(streaming.request, frame.probe)]
        for waiting in self._open.values():
            if waiting.is_continuation and not self._is_owned_by_another(waiting):
                self._mode = _Mode.PARKED
                return [frames.pending(waiting.request, frame.probe)]
        last = self._last_ended
        if not self._open and last is not None and (last.outcome is Outcome.ERROR or self._is_forgotten(last)):
            return [frames.resuming(last.request, frame.probe)]
        accepted = [known for known in self._open.values() if not known.is_continuation]
        if accepted:
            self._mode = _Mode.PARKED
            return [frames.pending(accepted[-1].request, frame.probe)]
        return [frames.resume_none("idle", frame.probe)]

    def acknowledged(self, frame: ResumeAck) -> NeedsReplay | None:
        """Return what has to be read, or None when the acknowledgement is of another turn than the running one."""
        streaming = self._streaming()
        if streaming is not None and streaming.request != frame.id:
            return None
        return NeedsReplay(frame.id)

    def replayed(self, replay: TurnReplay) -> list[bytes]:
        """Return the frames of a replay (B2's second table).

        The caller then hands over the events up to `replay.head` with `passed`, if the turn is still open there;
        if it ended, events go on as usual, and the end comes live.
        """
        self._flowing = None
        if not replay.is_known:
            return [frames.response(replay.request, "", done=True, replay=True)]
        frame = frames.ChunkFrames(replay.request, is_continuation=replay.is_continuation)
        here = next((known for known in self._open.values() if known.request == replay.request), None)
        # Who heard a continuation from its beginning drops by number what comes again, but not what has no number.
        is_numbered = replay.is_continuation and here is not None and here.is_told
        sent = [frame.replayed(body, index) for index, body in replay.chunks if index is not None or not is_numbered]
        complete = frames.replay_complete(replay.request, is_continuation=replay.is_continuation)
        if here is not None:
            self._go_live()
            here.is_joined, here.is_hidden = True, False
            if replay.outcome is not None:
                self._passed_over = here.turn  # its transcript and its end are on their way
            return [*self._placed(here), *sent, complete]
        if replay.outcome is None:
            return []  # accepted after this connection's cursor: it is told live
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
        # A client puts what is replayed last on its screen: it must be told where it belongs.
        self._is_doubted = self._is_doubted or bool(self._open)
        return [*sent, terminal] if self._streaming() is not None else [*sent, terminal, self._messages()]

    def passed(self, committed: Caches, request: RequestId) -> list[bytes]:
        """Take in an event that the replay of `request` already covers; other turns' business is still told."""
        event = committed.event
        if isinstance(event, Chunk):
            known = self._open.get(event.turn)
            if known is None:
                return []
            if known.request != request:
                return self.happened(committed)
            known.has_chunks = True
            return self._recovered(known) if known.recovers_with == event.attempt else []
        return self._event(event, committed.seq)

    # -- events ---------------------------------------------------------------------------------------------------

    def happened_all(self, page: Iterable[Caches]) -> list[bytes]:
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

    def _frame(self, event: Chunk, committed: Caches) -> bytes:
        """Make the frame of a chunk of the turn that flows, for all who watch it."""
        assert self._frames is not None
        frame = committed.live = self._frames.live(event.body, event.index)
        return frame

    def happened(self, committed: Caches) -> list[bytes]:
        """Return the frames that tell this connection of an event."""
        event = committed.event
        if isinstance(event, Chunk):  # nearly all of them
            return self._chunk(event, committed)
        return self._event(event, committed.seq)

    def _chunk(self, event: Chunk, committed: Caches) -> list[bytes]:
        known = self._open.get(event.turn)
        if known is None:
            return []
        recovered = self._recovered(known) if known.recovers_with == event.attempt else []
        is_first, known.has_chunks = not known.has_chunks, True
        if self._left.hides(known):
            self._is_doubted = True
            return recovered
        if self._mode is _Mode.PARKED and is_first and not self._is_owned_by_another(known):
            self._offer(known)
            return [*recovered, frames.resuming(known.request)]
        if is_first and known.is_continuation and self._is_mine(known.origin):
            # Who answered may wait for this without having asked. Nothing is held back from one who does not, and who
            # acknowledges drops by number what it has.
            recovered = [*recovered, frames.resuming(known.request)]
        if self._mode is _Mode.OFFERED and self._offered == event.turn:
            return recovered
        if self._passed_over == event.turn:
            return recovered
        known.is_told = known.is_told or is_first
        if self._flowing != event.turn:
            self._flowing = event.turn
            self._frames = frames.ChunkFrames(known.request, is_continuation=known.is_continuation)
            if is_first and self._is_mine(known.origin) and not known.is_continuation:
                self._proof = known  # not later: its id would have come before the transcript
        frame = committed.live or self._frame(event, committed)
        placed = self._placed(known)
        if not placed and not known.is_placed and self._is_followed(known.node):
            self._flowing = None  # nothing of it can be shown yet: look again at its next chunk
        return [*recovered, frame, *placed] if recovered or placed else [frame]

    def _event(self, event: Event, seq: Seq) -> list[bytes]:
        self._flowing = None
        changed_at = self._changed_at
        if type(event) in _CHANGES:
            self._changed_at = seq
        match event:
            case TurnAccepted():
                if self._asked is not None and self._asked[0] == event.request:
                    self._is_doubted = self._is_doubted or self._asked[1] < changed_at
                    self._asked = None
                return self._accepted(event)
            case TurnRetargeted():
                known = self._open.get(event.turn)
                if known is not None:
                    known.node, known.owner, known.origin = event.node, event.owner, event.origin
                return []
            case AttemptStarted():
                # What was shown of it counts no more, if it begins anew.
                self._is_doubted = self._is_doubted or (event.fresh and event.turn in self._open)
                return self._recovers(event) if event.attempt > 1 else []
            case AttemptDelayed():
                return self._recovers(event)
            case CallAnswered():
                told = self._updated(event.node)
                self._is_doubted = self._is_doubted or not told  # no chunk says that something was approved
                return told
            case MessageEnded():
                return self._message_ended(event)
            case TurnEnded():
                return self._ended(event)
            case MessagesPut() | MessageReplaced():
                # An answer that streams meanwhile is put behind it by the client, wherever it belongs.
                self._is_doubted = self._is_doubted or bool(self._open)
                return [self._messages()] if not self._is_mine(event.origin) or self._has_been_shown else []
            case LeafMoved():
                self._is_doubted = self._is_doubted or bool(self._open)
                return [*self._left.forget(self._open.values()), self._messages()]
            case MessagesRemoved():
                return [self._messages()] if event.cause != "cap" else []
            case ChatCleared():
                return self._cleared(event)
            case StateSet():
                return [] if self._is_mine(event.origin) else [frames.state(bytes(event.state))]
            case _:
                return []

    def _accepted(self, event: TurnAccepted) -> list[bytes]:
        if event.kind.is_bare:
            return []
        self._open[event.turn] = KnownTurn(
            event.turn,
            event.request,
            event.node,
            event.kind is TurnKind.CONTINUATION,
            origin=event.origin,
            owner=event.owner,
            message_ids=event.message_ids,
            answer=event.message_id,
        )
        self._is_doubted = self._is_doubted or len(self._open) > 1
        if not (event.messages or event.kind is TurnKind.CHAT) or event.dropped:
            return []
        if not self._is_mine(event.origin):
            # A client that follows an answer of the branch that is left now is shown the new branch after its end.
            return [] if any(map(self._left.follows, self._open.values())) else [self._messages()]
        if forgotten := self._left.forget(self._open.values()):
            return [*forgotten, self._messages()]
        if not self._has_been_shown:
            return []
        # A transcript that was on its way when this connection asked has wiped the question from its screen.
        return [self._messages()]

    def _message_ended(self, event: MessageEnded) -> list[bytes]:
        known = self._open.get(event.turn)
        if known is None:
            return []
        known.is_saved = True
        if not self._is_shown(known.node):
            return []
        if known.is_joined or (self._mode is _Mode.OFFERED and self._offered == event.turn):
            return []  # told with the end
        if self._is_mine(known.origin) and not known.is_continuation and not event.sanitized:
            return []  # who asked has it from the chunks
        return [self._messages()]

    def _ended(self, event: TurnEnded) -> list[bytes]:
        known = self._open.pop(event.turn, None)
        if known is None:
            return []
        known.outcome = event.outcome
        if self._passed_over == event.turn:
            self._passed_over = None
        shown = self.transcripts
        told = [*self._told_of_end(event, known), *self._recovered(known)]
        is_quiet = all(other.is_continuation and not other.has_chunks for other in self._open.values())
        if self._is_doubted and (known.has_chunks or is_quiet) and event.reason != "cleared":
            # Turns that overlap, end early or lie on a left branch leave the client's list in an order of its own. Now
            # nothing streams: a client that streams keeps what it has, and puts it behind everything else.
            self._is_doubted = bool(self._open)
            if self.transcripts == shown or event.outcome is Outcome.SKIPPED:
                told.append(self._messages())
        # A superseded turn has a successor, accepted in the same breath: who is parked waits for that one.
        # One that was cleared is released by `chat.cleared`, in the same breath.
        if self._mode is _Mode.PARKED and not self._open and event.reason not in ("superseded", "cleared"):
            self._mode = _Mode.LIVE
            if event.outcome is Outcome.ERROR and not known.has_chunks:
                told.append(frames.resuming(known.request))  # a bare error frame is dropped by the client
            else:
                told.append(frames.resume_none())
        if event.outcome is not Outcome.SKIPPED:
            self._last_ended = known
        return told

    def _told_of_end(self, event: TurnEnded, known: KnownTurn) -> list[bytes]:
        terminal = frames.terminal(
            known.request,
            event.outcome,
            error=event.error,
            message_ids=known.message_ids,
            is_continuation=known.is_continuation,
        )
        if event.outcome is Outcome.SKIPPED:
            if not self._is_mine(known.origin):
                return []
            if known.is_continuation:  # who answered may wait for it, and the running turn took the answer itself
                return [] if self._mode is _Mode.PARKED else [frames.resume_none()]
            return [self._messages(), terminal] if event.reason == "dropped" else [terminal]
        if self._mode is _Mode.OFFERED and self._offered == event.turn:
            self._go_live()  # it never acknowledged: it still gets the transcript and the end
            return [self._messages(), terminal] if known.is_saved else [terminal]
        if event.reason == "cleared" and not known.is_joined and not self._is_mine(known.origin):
            # A client that only watches puts its half of the answer back when the turn is done, even if it was this
            # client that cleared; after an error frame it forgets it.
            return [frames.response(known.request, "", done=False, error=True), terminal]
        if self._left.follows(known):
            return [terminal, self._messages()]  # after the end: before it, a client keeps the answer that it reads
        if known.is_joined and known.is_saved:
            if known.is_continuation:
                # Before the end: a client is ready with the end, and its calls must read as they are stored by then.
                return [self._messages(), terminal]
            # After the end: before it, a client that resumed puts the answer back to where it first stood.
            return [terminal, self._messages()]
        if event.outcome is Outcome.ABORTED and known.is_saved:
            # A client that stopped has dropped what was on its way: this is how far the answer went.
            return [*self._updated(known.node), terminal]
        return [terminal]

    def _cleared(self, event: ChatCleared) -> list[bytes]:
        released = [frames.resume_none()] if self._mode is _Mode.PARKED else []
        self._go_live()
        self._open.clear()
        self._last_ended = None
        self._ignored, self._has_list = 0, False
        self._is_doubted = True
        self._has_been_shown = True
        # What was on its way may have brought the old conversation back to who cleared it.
        return [*released, self._messages()] if self._is_mine(event.origin) else [*released, frames.CLEAR]

    # -- small words -----------------------------------------------------------------------------------------------

    def _streaming(self) -> KnownTurn | None:
        return next((each for each in self._open.values() if each.has_chunks and self._is_shown(each.node)), None)

    def _recovers(self, event: AttemptStarted | AttemptDelayed) -> list[bytes]:
        """Note the attempt whose first word ends a recovery; tell of one that is news."""
        known = self._open.get(event.turn)
        if known is None:
            return []
        was_recovering, known.recovers_with = known.recovers_with is not None, event.attempt
        return [] if was_recovering else [frames.recovering(known.request, is_recovering=True)]

    @staticmethod
    def _recovered(known: KnownTurn) -> list[bytes]:
        if known.recovers_with is None:
            return []
        known.recovers_with = None
        return [frames.recovering(known.request, is_recovering=False)]

    def _is_owned_by_another(self, known: KnownTurn) -> bool:
        if not known.is_continuation or known.owner is None or known.owner == self._owner:
            return False
        return self._is_present(known.owner)

    def _is_mine(self, origin: str | None) -> bool:
        return origin is not None and origin == self._socket

    def _offer(self, known: KnownTurn) -> None:
        self._mode, self._offered = _Mode.OFFERED, known.turn

    def _is_forgotten(self, known: KnownTurn) -> bool:
        """True for a turn that spoke and left nothing: a client that missed its end still shows what it said."""
        return known.outcome is Outcome.ABORTED and known.has_chunks and not self._updated(known.node)

    def _go_live(self) -> None:
        self._mode, self._offered = _Mode.LIVE, None

    def _placed(self, known: KnownTurn, *, connect: bool = False) -> list[bytes]:
        """Show where the answer of a turn belongs, if something stands behind it: a client puts what streams last."""
        if known.is_placed or known.is_continuation or not self._is_followed(known.node):
            return []
        if not any(node == known.node for node, _, _ in self._transcript()):
            return []  # it has said nothing that can be shown
        return [self._messages(connect=connect)]

    def _messages(self, *, connect: bool = False) -> bytes:
        """Render the transcript, without a last answer that this connection has not seen the end of (B4)."""
        unfinished = {i.node: i for i in self._open.values() if not i.is_saved and not i.is_continuation}
        transcript = self._transcript()
        if unfinished and transcript and not transcript[-1][2] and transcript[-1][0] in unfinished:
            transcript = transcript[:-1]
        bodies = [body for _, body, _ in transcript]
        for node, _, _ in transcript if unfinished else ():
            if node in unfinished:
                unfinished[node].is_placed = True
        self._has_been_shown, self._proof = True, None
        self._has_list = self._has_list or (bool(bodies) and not self._open)
        self.transcripts += 1
        return frames.messages(bodies, connect=connect)

    def _updated(self, node: NodeId) -> list[bytes]:
        body = next((body for other, body, _ in self._transcript() if other == node), None)
        return [frames.message_updated(body)] if body is not None else []
