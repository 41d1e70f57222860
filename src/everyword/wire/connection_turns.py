"""The turns that one connection knows: the open ones, and the one that ended last."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from ..events import Outcome, RunEnded, RunStarted, TurnAccepted, TurnKind
from ..ids import MessageId, NodeId, RequestId, Seq, TurnId

__all__ = ["ChatSnapshot", "ConnectionTurn", "ConnectionTurns"]


@dataclass(slots=True)
class ConnectionTurn:
    """One turn, with what this connection was sent of it."""

    turn: TurnId
    request: RequestId
    node: NodeId
    is_continuation: bool
    origin: str | None = None
    owner: str | None = None
    message_ids: Sequence[MessageId] = ()
    answer: MessageId | None = None
    """The id of its message, for turns that this connection saw from their beginning."""
    has_chunks: bool = False
    is_saved: bool = False
    """Its message has ended and may be shown."""
    is_hidden: bool = False
    """Its branch is not shown, and this connection gets only its end."""
    is_told: bool = False
    """This connection was sent its chunks from the first one on."""
    is_joined: bool = False
    """This connection acknowledged the turn's stream, so it reads the stream as its own."""
    is_awaited: bool = False
    """This connection acknowledged the turn's stream after it had probed for one."""
    is_passed_over: bool = False
    """This connection gets no more chunks of it: they were replayed up to its end, or another client owns it."""
    is_placed: bool = False
    """A transcript had its message, so the client knows its place in the list."""
    outcome: Outcome | None = None
    recovers_with: int | None = None
    """The later attempt that was started and has no chunk yet (R-17)."""

    @classmethod
    def accepted(cls, event: TurnAccepted) -> ConnectionTurn:
        """Return a turn that was just accepted."""
        return cls(
            event.turn,
            event.request,
            event.node,
            event.kind is TurnKind.CONTINUATION,
            origin=event.origin,
            owner=event.owner,
            message_ids=event.message_ids,
            answer=event.message_id,
        )


@dataclass(slots=True)
class ChatSnapshot:
    """The part of the committed state at a cursor that connections need. `open` is in order of acceptance."""

    head: Seq
    open: list[ConnectionTurn] = field(default_factory=list)
    last_ended: ConnectionTurn | None = None
    recovered: RequestId | None = None
    """The newest turn that took more than one attempt: a client that was away when it recovered may not know."""
    runs: Sequence[tuple[RunStarted, RunEnded | None]] = ()
    """Sub-agents that run, or ran, as tools."""
    streams: dict[TurnId, tuple[RequestId, MessageId]] = field(default_factory=dict)
    """The open streams of a manager, and the messages that they become (R-20)."""


class ConnectionTurns:
    """The open turns, in order of acceptance, as one connection sees them. `socket` and `owner` identify its client."""

    def __init__(
        self,
        turns: Sequence[ConnectionTurn],
        *,
        socket: str,
        owner: str | None,
        is_present: Callable[[str], bool],
        is_shown: Callable[[NodeId], bool],
    ) -> None:
        self._open = {known.turn: known for known in turns}
        self._socket, self._owner = socket, owner
        self._is_present, self._is_shown = is_present, is_shown

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[ConnectionTurn]:
        return iter(self._open.values())

    def get(self, turn: TurnId) -> ConnectionTurn | None:
        return self._open.get(turn)

    def of_request(self, request: RequestId) -> ConnectionTurn | None:
        return next((known for known in self if known.request == request), None)

    def add(self, known: ConnectionTurn) -> None:
        self._open[known.turn] = known

    def pop(self, turn: TurnId) -> ConnectionTurn | None:
        return self._open.pop(turn, None)

    def clear(self) -> None:
        self._open.clear()

    @property
    def streaming(self) -> ConnectionTurn | None:
        """The turn of the shown branch that has chunks."""
        return next((known for known in self if known.has_chunks and self._is_shown(known.node)), None)

    @property
    def are_quiet(self) -> bool:
        """True when only continuations without chunks are open; such a continuation may wait for ever."""
        return all(known.is_continuation and not known.has_chunks for known in self)

    def is_mine(self, origin: str | None) -> bool:
        """Tell whether an origin is this connection."""
        return origin is not None and origin == self._socket

    def is_owned_by_another(self, known: ConnectionTurn) -> bool:
        """Tell whether a continuation belongs to another client that is still connected (R-15)."""
        if not known.is_continuation or known.owner is None or known.owner == self._owner:
            return False
        return self._is_present(known.owner)
