"""Event streams of one turn, or of the log. A reader is only a cursor into the log; nothing is queued for it here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import aclosing
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import msgspec

from ..core.continuations import continuation_is_due
from ..core.replay import Chunks, few_chunks, message_chunks
from ..core.state import State
from ..core.turn_state import TurnState
from ..errors import AgentGone, AgentStopped, LogError, OwnedElsewhere
from ..events import Chunk, Outcome, TurnEnded, turn_of
from ..ids import AgentId, Millis, RequestId, Seq, TurnId
from ..log.base import LogStore
from ..rows import TurnRow
from ..runtime.directory import Directory, LoadedAgent
from ..runtime.replay_reader import read_numbered
from ..runtime.subscription import Subscription
from ..runtime.tail import Committed
from ..wire.sse import KEEP_ALIVE, chunk_event, encode_sse, log_event, terminal_events
from .shared_slices import SLICE, SharedSlice, SharedSlices

__all__ = ["OpenTurn", "ended_turn_frames", "event_pages", "find_open_turn", "follow_log", "follow_turn"]
__all__ += ["open_turn_frames", "sent"]

IDLE = 15.0
"""Seconds without an event after which a comment is sent, so that a proxy does not close the stream as idle."""

ALIGNED = 1024
"""Missed chunks are sliced at multiples of this index, so that readers with different cursors share most slices."""

JsonObject = dict[str, Any]
Pieces = AsyncGenerator[bytes, None]


# -- reading by cursor ------------------------------------------------------------------------------------------


async def event_pages(directory: Directory, agent: AgentId, cursor: Seq) -> AsyncGenerator[Sequence[Committed], None]:
    """Yield the events after the cursor, page by page, and an empty page after IDLE seconds without one.

    Continues when the agent is loaded again after a failure of the store. Raises AgentStopped when the process stops,
    or when another node owns the agent.
    """
    while True:
        try:
            async with directory.attach(agent) as loaded, loaded.subscribe(cursor) as subscription:
                while True:
                    page = await _next(subscription)
                    cursor = subscription.cursor
                    yield page
        except (AgentGone, OwnedElsewhere):
            raise  # the agent was destroyed, and its log with it; or another node has it: the reader comes back
        except (AgentStopped, LogError):
            if directory.is_stopping:
                raise AgentStopped(f"unable to read {agent!r} any further; the server stops. Come back soon.") from None
            await directory.clock.sleep_until(Millis(directory.clock.now() + directory.settings.retry_after))


async def _next(subscription: Subscription) -> Sequence[Committed]:
    try:
        async with asyncio.timeout(IDLE):
            return await subscription.next()
    except TimeoutError:
        return []


async def sent(slices: list[SharedSlice]) -> Pieces:
    """Yield the slices; each is released before the next one is read."""
    slices.reverse()
    while slices:
        yield b"".join(slices.pop().parts)


def _pieces(frames: Iterable[bytes]) -> Iterator[bytes]:
    """Join frames to pieces of about SLICE bytes."""
    gathered: list[bytes] = []
    size = 0
    for frame in frames:
        gathered.append(frame)
        size += len(frame)
        if size >= SLICE:
            yield b"".join(gathered)
            gathered, size = [], 0
    if gathered:
        yield b"".join(gathered)


# -- the log itself ---------------------------------------------------------------------------------------------


async def follow_log(directory: Directory, shared: SharedSlices, agent: AgentId, after: Seq | None) -> Pieces:
    """Yield the agent's events after the cursor, for ever. Without a valid cursor, begin with a snapshot."""
    async with directory.attach(agent) as loaded:
        cursor = after if after is not None else Seq(0)
        if after is None or after > loaded.actor.tail.head:
            # A cursor after the head belongs to an earlier log of this name: the reader starts again.
            async with shared.build_slots:
                cursor, standing = await loaded.actor.inspect(lambda state: (loaded.actor.tail.head, _standing(state)))
                slices = shared.slice_stream([encode_sse(standing, event_id=cursor, event="snapshot")])
                del standing
            async for piece in sent(slices):
                yield piece
    async with aclosing(event_pages(directory, agent, cursor)) as pages:
        async for page in pages:
            for piece in _pieces(_log_frame(committed) for committed in page):
                yield piece
            if not page:
                yield KEEP_ALIVE


def _log_frame(committed: Committed) -> bytes:
    frame = committed.frames.get("sse-log")
    if frame is None:
        frame = committed.frames["sse-log"] = log_event(committed.seq, committed.event)
    return frame


def _standing(state: State) -> bytes:
    """Return the snapshot: the message tree, the open turns, and the recent turns that did not complete."""
    standing = {
        "generation": state.generation,
        "leaf": state.tree.leaf,
        "nodes": [
            {"node": node, "parent": place.parent, "message": msgspec.Raw(place.shown or b"null")}
            for node, place in state.tree.nodes.items()
        ],
        "turns": [_open_turn(turn) for turn in state.chat_turns()],
        "endings": [
            {"turn": turn.id, "node": turn.node, "outcome": turn.outcome, "error": turn.error, "reason": turn.reason}
            for turn in state.ended.values()
            if turn.accepted.generation == state.generation
            and turn.accepted.kind.is_chat
            and turn.outcome is not Outcome.COMPLETED
        ],
    }
    return msgspec.json.encode(standing)


def _open_turn(turn: TurnState) -> JsonObject:
    return {
        "turn": turn.id,
        "request": turn.request,
        "node": turn.node,
        "status": turn.status,
        "attempt": turn.attempt,
        "chunks": [msgspec.Raw(body) for _, body in few_chunks(turn)],
    }


# -- one turn ----------------------------------------------------------------------------------------------------


async def follow_turn(
    directory: Directory, agent: AgentId, turn: TurnId, cursor: Seq, waiting: AbstractSet[TurnId] = frozenset()
) -> Pieces:
    """Yield the turn's chunks after the cursor, then the chunks of the `waiting` turns, then the end of the last turn.

    The cursor is before the turn's end. Turns run one after the other, so their chunks do not mix. Only the end of the
    last turn is sent, because the AI SDK stops reading at an error or an abort.
    """
    left = {turn, *waiting}
    async with aclosing(event_pages(directory, agent, cursor)) as pages:
        async for page in pages:
            ours = [committed for committed in page if turn_of(committed.event) in left]
            ends = [committed for committed in ours if isinstance(committed.event, TurnEnded)]
            for piece in _pieces(_turn_frame(committed) for committed in ours if committed not in ends):
                yield piece
            left -= {turn_of(end.event) for end in ends}
            if not left:
                yield _turn_frame(ends[-1])
                return
            if not page:
                yield KEEP_ALIVE


def _turn_frame(committed: Committed) -> bytes:
    """Return the event as a frame of its turn's stream, built once for all readers; most kinds of events have none."""
    frame = committed.frames.get("sse")
    if frame is None:
        match committed.event:
            case Chunk() as chunk:
                frame = chunk_event(chunk)
            case TurnEnded() as ended:
                frame = terminal_events(ended.outcome, chunks=ended.chunks, error=ended.error, reason=ended.reason)
            case _:
                frame = b""
        committed.frames["sse"] = frame
    return frame


@dataclass(frozen=True, slots=True)
class OpenTurn:
    """An open turn as committed at `head`: the number of its chunks, and a replay of the message so far in few chunks.

    The last chunk of the replay has the id of the newest chunk that the replay covers (R-13).
    """

    turn: TurnId
    request: RequestId
    head: Seq
    chunks: int
    replay: list[SharedSlice]
    waiting: AbstractSet[TurnId] = frozenset()
    """The turns whose questions wait for this turn to end."""


async def find_open_turn(loaded: LoadedAgent, shared: SharedSlices, request: RequestId | None) -> OpenTurn | None:
    """Return the turn of this request if it is open; without a request, the running turn, or the next to run.

    Without a request, turns of branches that are not shown are skipped (R-5).
    """

    def look(state: State) -> OpenTurn | None:
        turn = state.by_request(request) if request is not None else next(iter(_shown_turns(state)), None)
        if turn is None or turn.id not in state.open:
            return None
        return _opened(loaded, shared, state, turn)

    return await loaded.actor.inspect(look)


def _shown_turns(state: State) -> list[TurnState]:
    """Return the open turns of the shown branch, in the order in which they run.

    A continuation runs before the questions after it, unless it waits for another answer; then they run first.
    """
    path = set(state.tree.active_path())
    return sorted(
        (turn for turn in state.chat_turns() if turn.node in path),
        key=lambda turn: (turn is not state.current, not (turn.is_continuation and continuation_is_due(state, turn))),
    )


def _opened(loaded: LoadedAgent, shared: SharedSlices, state: State, turn: TurnState) -> OpenTurn:
    chunks = few_chunks(turn)
    if turn.is_continuation and turn.fold is None:
        # The continuation has no chunks yet. A page folds them into an empty message, so it needs the message so far.
        chunks = message_chunks(state.tree.nodes[turn.node].body, None, None)
    few, covered = [body for _, body in chunks], turn.chunks - 1 if turn.chunks else None
    told = [*map(encode_sse, few[:-1]), *(encode_sse(newest, event_id=covered) for newest in few[-1:])]
    questions = frozenset(other.id for other in _shown_turns(state) if not other.is_continuation and other is not turn)
    head = loaded.actor.tail.head
    return OpenTurn(turn.id, turn.request, head, turn.chunks, shared.slice_stream(told), questions)


async def open_turn_frames(
    directory: Directory,
    shared: SharedSlices,
    agent: AgentId,
    opened: OpenTurn,
    after: int | None,
    *,
    goes_on: bool = False,
) -> Pieces:
    """Yield an open turn: the part that the reader does not have yet, then each chunk when it is committed.

    After chunk `after`, a reader gets the same events as live readers; without `after`, the message so far in few
    chunks. With `goes_on`, the turns whose questions wait follow: the AI SDK resumes only once, when a page is opened,
    and begins another message at each `start` with another id.
    """
    missed = None
    if after is not None:
        missed = await _missed(directory.store, shared, agent, opened.turn, after, opened.chunks)
    async for piece in sent(missed if missed is not None else opened.replay):
        yield piece
    waiting = opened.waiting if goes_on else frozenset[TurnId]()
    async with aclosing(follow_turn(directory, agent, opened.turn, opened.head, waiting)) as pieces:
        async for piece in pieces:
            yield piece


async def ended_turn_frames(
    store: LogStore, shared: SharedSlices, agent: AgentId, row: TurnRow, after: int | None
) -> Pieces:
    """Yield a turn that has ended: the part that the reader does not have yet, then its end."""
    missed = None
    if after is not None:  # readers that come after the end get no transient parts
        missed = await _missed(store, shared, agent, row.turn, after, row.chunks, transient=False)
    if missed is None:
        async with shared.build_slots:
            message = await _stored_message(store, agent, row)
            missed = shared.slice_stream(encode_sse(body) for _, body in message)
            del message
    async for piece in sent(missed):
        yield piece
    yield terminal_events(Outcome(row.status), chunks=row.chunks, error=row.error, reason=row.reason)


async def _missed(
    store: LogStore,
    shared: SharedSlices,
    agent: AgentId,
    turn: TurnId,
    after: int,
    chunks: int,
    *,
    transient: bool = True,
) -> list[SharedSlice] | None:
    """Return the events of the chunks after `after`; None if some are missing: pruned, or of another turn."""
    if after >= chunks:
        return None
    async with shared.build_slots:
        wanted = await read_numbered(store, agent, turn, after, chunks)
        if len(wanted) != chunks - 1 - after:
            return None
        slices: list[SharedSlice] = []
        for _, together in groupby(wanted, lambda chunk: chunk.index // ALIGNED):
            slices += shared.slice_stream(chunk_event(chunk) for chunk in together if transient or not chunk.transient)
        return slices


async def _stored_message(store: LogStore, agent: AgentId, row: TurnRow) -> Chunks:
    """Return the stored message of the turn as chunks; no chunks if there is none, or it was deleted."""
    if row.kind.is_bare:
        return []
    body = next((message.body for message in (await store.conversation(agent))[1] if message.node == row.node), None)
    return message_chunks(body, Outcome(row.status), row.finish_reason)
