"""Replays a stored turn: the server's half of the protocol connected to the client's half.

Both halves are the code that runs in production, so the frames are those that were, or would have been, on the wire.
The committed state at each point is folded from the log.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, cast

import msgspec

from ..client.protocol.chat import ChatProtocol
from ..core.conversation import conversation, is_followed
from ..core.evolve import evolve
from ..core.state import State
from ..errors import BadMessage, LogCorrupt, UsageError
from ..events import Chunk, Event, MessageEnded, TurnAccepted, TurnEnded, decode_event, turn_of
from ..ids import AgentId, Millis, NodeId, RequestId, Seq, TurnId
from ..messages.message import UIMessage
from ..runtime.directory import LoadedAgent
from ..runtime.replay_reader import by_number, read_replay
from ..runtime.tail import Committed
from ..server.chat_snapshot import take_snapshot
from ..wire.chat_view import ChatView, ViewMemory
from ..wire.parse import ResumeAck, ResumeRequest
from .log_reader import LogReader

__all__ = ["Frame", "Play", "Role", "read_play"]

T = TypeVar("T")

Role = Literal["live", "watching", "late", "reconnecting"]

WATCHER = "a watcher's socket"


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame with its time and direction; without a body, the connection is opened or lost."""

    at: Millis
    way: Literal["in", "out", "opened", "lost"]
    body: bytes = b""


@dataclass(slots=True)
class Play:
    """One turn, and the log up to its end. `first` and `last` are the indexes of the events that accept and end it."""

    agent: AgentId
    turn: TurnId
    request: RequestId
    store: LogReader
    events: list[Committed]
    first: int
    last: int
    chunks: int
    """Number of its stored chunks."""
    messages: list[dict[str, Any]] = field(default_factory=list)
    """The messages that the client shows at the end."""

    @property
    def stored(self) -> UIMessage | None:
        """The message that the turn stored, if any."""
        for committed in reversed(self.events[self.first :]):
            if isinstance(committed.event, MessageEnded) and committed.event.turn == self.turn:
                return UIMessage.decode(bytes(committed.event.message))
        return None

    async def frames(self, role: Role, at: int | None, back: int | None) -> AsyncIterator[Frame]:
        """Yield the frames between the server and a client with this role.

        `at` says after how many chunks a late client comes, or a reconnecting one loses its connection; `back` after
        how many that one returns. Afterwards `messages` has what the client shows.
        """
        client = ChatProtocol()
        accepted = self.events[self.first].event
        assert isinstance(accepted, TurnAccepted)
        begins = (self.last + 1 if at is None else self._after(at)) if role == "late" else self.first
        leaves = self._after(self.chunks // 2 if at is None else at) if role == "reconnecting" else self.last + 1
        socket = (accepted.origin or WATCHER) if role in ("live", "reconnecting") else WATCHER
        async for frame in self._visit(client, begins, leaves, socket, is_there=role != "late"):
            yield frame
        if role == "reconnecting":
            yield Frame(self._time(leaves), "lost")
            client.disconnected()
            returns = leaves if back is None else max(self._after(back), leaves)
            async for frame in self._visit(client, returns, self.last + 1, f"{socket} again", is_there=False):
                yield frame
        self.messages = client.messages

    async def _visit(
        self, client: ChatProtocol, begins: int, leaves: int, socket: str, *, is_there: bool
    ) -> AsyncIterator[Frame]:
        """Connect a client when the log has `begins` events, and send it the events until the log has `leaves`.

        One that `is_there` already has had its greeting: only what the turn brings is told.
        """
        moment = _Moment(self.agent, self.store, self.events[:begins])
        view = await moment.view(socket)
        now = self._time(begins)
        if is_there:
            client.messages = [msgspec.json.decode(body) for _, body, _ in conversation(moment.state)]
            client.connected()
            client.frames_to_send()
        else:
            yield Frame(now, "opened")
            client.connected()
            for body in view.connected():
                client.receive(body.decode())
                yield Frame(now, "in", body)
        async for frame in _converse(moment, view, client, now):
            yield frame
        for committed in self.events[begins:leaves]:
            moment.commit(committed)
            for body in view.happened(committed):
                client.receive(body.decode())
                yield Frame(committed.at, "in", body)
            async for frame in _converse(moment, view, client, committed.at):
                yield frame

    def _after(self, chunks: int) -> int:
        """Return the number of events in the log when the turn had this many chunks."""
        if chunks <= 0:
            return self.first + 1
        seen = 0
        for place in range(self.first, self.last + 1):
            event = self.events[place].event
            seen += isinstance(event, Chunk) and event.turn == self.turn
            if seen == chunks:
                return place + 1
        return self.last + 1

    def _time(self, place: int) -> Millis:
        return self.events[min(max(place - 1, 0), len(self.events) - 1)].at


async def _converse(moment: _Moment, view: ChatView, client: ChatProtocol, now: Millis) -> AsyncIterator[Frame]:
    """Exchange frames until neither the client nor the server has more to send."""
    while said := client.frames_to_send():
        for text in said:
            frame = msgspec.json.decode(text)
            match frame["type"]:
                case "cf_agent_stream_resume_request":
                    told = view.resume_requested(ResumeRequest(frame.get("probeId")))
                case "cf_agent_stream_resume_ack":
                    told = await moment.replay(view, RequestId(frame["id"]))
                case _:
                    continue
            yield Frame(now, "out", text.encode())
            for body in told:
                client.receive(body.decode())
                yield Frame(now, "in", body)


class _Moment:
    """A committed state, with the methods that a server reads it through; stands in for a running actor."""

    def __init__(self, agent: AgentId, store: LogReader, events: Sequence[Committed]) -> None:
        self.agent, self.store, self.state = agent, store, State()
        self.head = Seq(0)
        for committed in events:
            self.commit(committed)

    def commit(self, committed: Committed) -> None:
        try:
            evolve(self.state, committed.event, committed.at)
        except (AssertionError, KeyError, ValueError, BadMessage) as exc:
            raise LogCorrupt(
                f"unable to replay {self.agent!r}; event {committed.seq} does not fit ({exc}). Run `everyword doctor`"
            ) from exc
        self.head = committed.seq

    async def inspect(self, look: Callable[[State], T]) -> T:
        return look(self.state)

    @property
    def actor(self) -> _Moment:
        return self

    @property
    def tail(self) -> _Moment:
        return self

    def is_followed(self, node: NodeId) -> bool:
        path = self.state.tree.shown_path()
        return is_followed(self.state.tree.active_path(), path[-1][0] if path else None, node)

    async def view(self, socket: str) -> ChatView:
        return ChatView(
            ViewMemory.new(await take_snapshot(self._loaded)),
            socket=socket,
            owner=socket,
            transcript=lambda: conversation(self.state),
            is_present=lambda owner: False,
            is_shown=lambda node: node in self.state.tree.active_path(),
            is_followed=self.is_followed,
        )

    async def replay(self, view: ChatView, request: RequestId) -> list[bytes]:
        needed = view.acknowledged(ResumeAck(request))
        if needed is None:
            return []
        replay = await read_replay(self._loaded, needed.request)
        is_whole = not replay.is_continuation or (needed.is_awaited and replay.begins_empty)
        return view.replayed(replay if is_whole else await by_number(self._loaded, replay))

    @property
    def _loaded(self) -> LoadedAgent:
        # It has all members that are used here: `actor.inspect`, `actor.agent`, `actor.tail.head` and `store`.
        return cast("LoadedAgent", self)


async def read_play(store: LogReader, agent: AgentId, turn: TurnId, request: RequestId) -> Play:
    """Read the log up to the end of a turn.

    Raises:
        LogCorrupt: an event cannot be read.
        UsageError: the turn is not in the log.
    """
    events: list[Committed] = []
    first: int | None = None
    chunks = 0
    cursor, is_over = Seq(0), False
    while not is_over and (page := await store.read(agent, cursor, 1000)):
        for stored in page:
            event = _decoded(agent, stored.seq, stored.body)
            events.append(Committed(stored.seq, stored.at, event))
            if turn_of(event) == turn:
                first = len(events) - 1 if isinstance(event, TurnAccepted) else first
                chunks += isinstance(event, Chunk)
                is_over = isinstance(event, TurnEnded)
                if is_over:
                    break
        cursor = page[-1].seq
    if first is None:
        raise UsageError(f"unable to replay turn {turn} of {agent!r}; it is not in the log")
    return Play(agent, turn, request, store, events, first, len(events) - 1, chunks)


def _decoded(agent: AgentId, seq: Seq, body: bytes) -> Event:
    try:
        return decode_event(body)
    except msgspec.DecodeError as exc:
        raise LogCorrupt(f"unable to read event {seq} of {agent!r}; {exc}. Run `everyword doctor`") from exc
