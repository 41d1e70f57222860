"""What readers are sent: the stream of one turn, or the log itself. A reader is a cursor; nothing here queues."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import msgspec

from ..codec.compact import replay_from_fold
from ..codec.encode import encode_parts
from ..core.state import State, Turn
from ..errors import AgentGone, AgentStopped, LogError
from ..events import Chunk, Outcome, TurnEnded, decode_event, turn_of
from ..ids import AgentId, Millis, RequestId, Seq, TurnId
from ..log.base import LogStore
from ..messages.chunks import encode_chunk
from ..messages.message import UIMessage
from ..rows import TurnRow
from ..runtime.directory import Directory, Loaded
from ..runtime.subscription import Subscription
from ..runtime.tail import Committed
from ..wire.sse import KEEP_ALIVE, chunk_event, encode_sse, log_event, terminal_events
from .sharing import SLICE, Sharing, Slice

__all__ = ["OpenTurn", "ended_turn_frames", "find_open_turn", "follow_log", "follow_turn", "open_turn_frames", "sent"]

IDLE = 15.0
"""Seconds of silence after which a comment is sent, so that no proxy between takes the stream for dead."""

ALIGNED = 1024
"""Missed chunks are cut where their index is a multiple of this: whatever readers have, they share most of the rest."""

JsonObject = dict[str, Any]
Pieces = AsyncGenerator[bytes, None]


# -- reading by cursor ------------------------------------------------------------------------------------------


async def _pages(directory: Directory, agent: AgentId, cursor: Seq) -> AsyncGenerator[Sequence[Committed], None]:
    """Yield what is committed after the cursor, page by page; an empty page when nothing came for a while.

    Goes on when the agent is loaded anew after a failure of the store. Raises AgentStopped when the process stops.
    """
    while True:
        try:
            async with directory.attach(agent) as loaded, loaded.subscribe(cursor) as subscription:
                while True:
                    page = await _next(subscription)
                    cursor = subscription.cursor
                    yield page
        except AgentGone:
            raise  # the log that it was at is no more
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


async def sent(slices: list[Slice]) -> Pieces:
    """Yield slices, and let go of each before the next."""
    slices.reverse()
    while slices:
        yield b"".join(slices.pop().parts)


def _pieces(frames: Iterable[bytes]) -> Iterator[bytes]:
    """Join frames to pieces worth sending."""
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


async def follow_log(directory: Directory, sharing: Sharing, agent: AgentId, after: Seq | None) -> Pieces:
    """Yield the agent's events after the cursor, for ever; without a usable cursor, where it stands now comes first."""
    async with directory.attach(agent) as loaded:
        cursor = after if after is not None else Seq(0)
        if after is None or after > loaded.actor.tail.head:
            # A cursor from beyond the head is of another log under this name: the reader starts afresh.
            async with sharing.making:
                cursor, standing = await loaded.actor.inspect(lambda state: (loaded.actor.tail.head, _standing(state)))
                slices = sharing.streamed([encode_sse(standing, event_id=cursor, event="snapshot")])
                del standing
            async for piece in sent(slices):
                yield piece
    async with aclosing(_pages(directory, agent, cursor)) as pages:
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
    """Return what a reader of the whole log would know by now: the tree, the open turns, how recent ones ended."""
    standing = {
        "generation": state.generation,
        "leaf": state.leaf,
        "nodes": [
            {"node": node, "parent": place.parent, "message": msgspec.Raw(place.shown or b"null")}
            for node, place in state.nodes.items()
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


def _open_turn(turn: Turn) -> JsonObject:
    return {
        "turn": turn.id,
        "request": turn.request,
        "node": turn.node,
        "status": turn.status,
        "attempt": turn.attempt,
        "chunks": [msgspec.Raw(body) for body in _so_far(turn)],
    }


def _so_far(turn: Turn) -> list[bytes]:
    """Return an open turn in few chunks. Transient parts are not in the message, but they are still news (R-12).

    A continuation begins with its message's first step: clients cannot join in the middle of one.
    """
    if turn.fold is None or (turn.fold.is_empty and not turn.chunks):
        return []
    return [*map(encode_chunk, replay_from_fold(turn.fold)), *turn.transients]


# -- one turn ----------------------------------------------------------------------------------------------------


async def follow_turn(directory: Directory, agent: AgentId, turn: TurnId, cursor: Seq) -> Pieces:
    """Yield the turn's chunks after the cursor and its ending, and return. The cursor lies before its end."""
    async with aclosing(_pages(directory, agent, cursor)) as pages:
        async for page in pages:
            ours = [committed for committed in page if turn_of(committed.event) == turn]
            for piece in _pieces(_turn_frame(committed) for committed in ours):
                yield piece
            if any(isinstance(committed.event, TurnEnded) for committed in ours):
                return
            if not page:
                yield KEEP_ALIVE


def _turn_frame(committed: Committed) -> bytes:
    """Return what the event is in its turn's stream, built once for everybody who watches; most are nothing."""
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
    """An open turn as committed at `head`: how many chunks it has, and the message so far in few of them, to be sent.

    The last of them carries the id of what they cover (R-13).
    """

    turn: TurnId
    request: RequestId
    head: Seq
    chunks: int
    replay: list[Slice]


async def find_open_turn(loaded: Loaded, sharing: Sharing, request: RequestId | None) -> OpenTurn | None:
    """Return the turn of this request if it is open; without a request, the running turn, or the next to run."""

    def look(state: State) -> OpenTurn | None:
        running = state.current or next(state.chat_turns(), None)
        turn = state.by_request(request) if request is not None else running
        if turn is None or turn.id not in state.open:
            return None
        *few, newest = _so_far(turn) or [b""]
        told = [*map(encode_sse, few), *([encode_sse(newest, event_id=turn.chunks - 1)] if newest else [])]
        return OpenTurn(turn.id, turn.request, loaded.actor.tail.head, turn.chunks, sharing.streamed(told))

    return await loaded.actor.inspect(look)


async def open_turn_frames(
    directory: Directory, sharing: Sharing, agent: AgentId, opened: OpenTurn, after: int | None
) -> Pieces:
    """Yield an open turn: what the reader does not have yet, then what is committed from there on.

    Behind chunk `after` the very events that live readers got; without it, the whole message so far in few chunks.
    """
    missed = None
    if after is not None:
        missed = await _missed(directory.store, sharing, agent, opened.turn, after, opened.chunks)
    async for piece in sent(missed if missed is not None else opened.replay):
        yield piece
    async with aclosing(follow_turn(directory, agent, opened.turn, opened.head)) as pieces:
        async for piece in pieces:
            yield piece


async def ended_turn_frames(
    store: LogStore, sharing: Sharing, agent: AgentId, row: TurnRow, after: int | None
) -> Pieces:
    """Yield a turn that has ended: what the reader does not have yet, and how it ended."""
    missed = None
    if after is not None:  # transient parts are not for those who come after the end
        missed = await _missed(store, sharing, agent, row.turn, after, row.chunks, transient=False)
    if missed is None:
        async with sharing.making:
            message = await _stored_message(store, agent, row)
            missed = sharing.streamed(encode_sse(encode_chunk(chunk)) for chunk in message)
            del message
    async for piece in sent(missed):
        yield piece
    yield terminal_events(Outcome(row.status), chunks=row.chunks, error=row.error, reason=row.reason)


async def _missed(
    store: LogStore,
    sharing: Sharing,
    agent: AgentId,
    turn: TurnId,
    after: int,
    chunks: int,
    *,
    transient: bool = True,
) -> list[Slice] | None:
    """Return the events of the chunks behind `after`; None when they are not all there: pruned, or of another turn."""
    if after >= chunks:
        return None
    async with sharing.making:
        stored = [decode_event(row.body) for row in await store.read_turn(agent, turn)]
        wanted = [event for event in stored if isinstance(event, Chunk) and after < event.index < chunks]
        if len(wanted) != chunks - 1 - after:
            return None
        slices: list[Slice] = []
        for _, together in groupby(wanted, lambda chunk: chunk.index // ALIGNED):
            slices += sharing.streamed(chunk_event(chunk) for chunk in together if transient or not chunk.transient)
        return slices


async def _stored_message(store: LogStore, agent: AgentId, row: TurnRow) -> list[JsonObject]:
    """Return the chunks of the message that the turn left; none when it left none, or the message is gone."""
    body = next((message.body for message in (await store.conversation(agent))[1] if message.node == row.node), None)
    if body is None or row.kind.is_bare:
        return []
    chunks = encode_parts(UIMessage.decode(body), open_parts={}, is_replay=True)
    if row.status == Outcome.COMPLETED.value:
        finish: JsonObject = {"type": "finish"}
        chunks.append({**finish, "finishReason": row.finish_reason} if row.finish_reason is not None else finish)
    return chunks
