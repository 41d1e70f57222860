"""What connections are told of committed turns: snapshots and replays, read between two commits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec

from ..codec.compact import replay_from_fold
from ..codec.encode import encode_message
from ..core.state import State, Turn
from ..events import Chunk, Outcome, TurnKind, decode_event
from ..ids import Generation, NodeId, RequestId, Seq, TurnId
from ..messages.calls import is_settled, tool_name, tool_parts
from ..messages.chunks import encode_chunk
from ..messages.message import Part, UIMessage
from ..rows import TurnRow
from ..runtime.directory import Loaded
from ..wire.chat import KnownTurn, NeedsReplay, Replay, Snapshot

__all__ = ["read_replay", "take_snapshot"]

Chunks = Sequence[tuple[int | None, bytes]]


async def take_snapshot(loaded: Loaded) -> Snapshot:
    """Return what a new connection needs to know, and the cursor from which it goes on."""
    return await loaded.actor.inspect(lambda state: _snapshot(state, loaded.actor.tail.head))


def _snapshot(state: State, head: Seq) -> Snapshot:
    last = state.last_ended
    recovered = [turn for turn in (*state.ended.values(), *state.open.values()) if turn.attempt > 1]
    return Snapshot(
        head,
        [_known(turn) for turn in state.chat_turns()],
        _known(last) if last is not None else None,
        recovered=recovered[-1].request if recovered else None,
        runs=[(run.started, run.ended) for run in state.runs.values()],
        streams={
            turn.id: (turn.request, turn.accepted.message_id)
            for turn in state.open.values()
            if turn.accepted.kind is TurnKind.RSM
        },
    )


def _known(turn: Turn) -> KnownTurn:
    """Return what a new connection needs to know of a turn. Its origin is another socket.

    An earlier process may have given the same serial to that socket, and the new one would count as the asker.
    """
    accepted = turn.accepted
    return KnownTurn(
        turn.id,
        turn.request,
        turn.node,
        turn.is_continuation,
        owner=accepted.owner,
        message_ids=accepted.message_ids,
        has_chunks=turn.chunks > 0,
        outcome=turn.outcome,
        recovers_with=turn.recovers_with,
    )


async def read_replay(loaded: Loaded, needed: NeedsReplay) -> Replay:
    """Return a turn as it is committed: in few chunks, or a continuation chunk by chunk (R-13)."""
    request = needed.request
    found = await loaded.actor.inspect(_look(loaded, needed))
    if isinstance(found, Replay):
        is_complete = not found.chunks or bool(found.chunks[-1][1])
        return found if is_complete else await _chunk_by_chunk(loaded, found)
    row = await loaded.store.find_turn(loaded.actor.agent, request)
    if row is None or row.generation != found:
        return Replay(loaded.actor.tail.head, request, is_known=False)
    if row.is_open:
        return await read_replay(loaded, needed)  # accepted while the store was asked: now the state knows it
    return await loaded.actor.inspect(lambda state: _of_row(state, row, loaded.actor.tail.head))


def _look(loaded: Loaded, needed: NeedsReplay) -> Callable[[State], Replay | Generation]:
    """Return a question whose answer is the replay, or the generation when the state does not remember the turn."""

    request = needed.request

    def look(state: State) -> Replay | Generation:
        head, turn = loaded.actor.tail.head, state.by_request(request)
        if turn is None:
            return state.generation
        if turn.accepted.generation != state.generation or turn.accepted.dropped:
            return Replay(head, request, is_known=False)
        return Replay(
            head,
            request,
            chunks=_chunks(state, turn, needed),
            is_continuation=turn.is_continuation,
            outcome=turn.outcome,
            error=turn.error,
            message_ids=turn.accepted.message_ids,
        )

    return look


def _chunks(state: State, turn: Turn, needed: NeedsReplay) -> Chunks:
    if turn.is_continuation and not (needed.is_awaited and _begins_empty(state, turn)):
        return [(turn.chunks - 1, b"")] if turn.chunks else []  # read one by one, from the store, up to here
    if turn.fold is not None:
        chunks = [encode_chunk(chunk) for chunk in replay_from_fold(turn.fold)] if turn.chunks else []
        return [(None, body) for body in [*chunks, *turn.transients]]
    return _of_message(state, turn.node, turn.outcome)


def _begins_empty(state: State, turn: Turn) -> bool:
    """True for a running continuation that clients fold into an empty message when they take it up.

    The AI SDK does, and a part of the message alone would stand in a second message on the page. But if a call of the
    message waits to be run, `ai` 7 begins with its copy of the message. Calls with an approval are left to the other
    way as well: a replay leaves out approvals that were given (R-2), and the page would lose them.
    """
    body = state.nodes[turn.node].body if turn.fold is not None else None
    calls = tool_parts(UIMessage.decode(body)) if body is not None else iter(())
    return body is not None and all(_has_output(part) for part in calls)


def _has_output(part: Part) -> bool:
    return part.get("state") in ("output-available", "output-error") and part.get("approval") is None


def _of_message(state: State, node: NodeId, outcome: Outcome | None) -> Chunks:
    """Return the chunks of an ended turn's message. Live, only a turn that completed has said `finish`."""
    place = state.nodes.get(node)
    if place is None or place.body is None:
        return []
    is_finished = outcome is Outcome.COMPLETED
    chunks = encode_message(UIMessage.decode(place.body), is_replay=True, is_finished=is_finished)
    return [(None, encode_chunk(chunk)) for chunk in chunks]


def _of_row(state: State, row: TurnRow, head: Seq) -> Replay:
    accepted = decode_event(row.accepted)
    message_ids = getattr(accepted, "message_ids", ())
    return Replay(
        head,
        row.request,
        chunks=_of_message(state, row.node, Outcome(row.status)),
        outcome=Outcome(row.status),
        error=row.error,
        message_ids=message_ids,
    )


async def _chunk_by_chunk(loaded: Loaded, found: Replay) -> Replay:
    """Fill in a continuation's chunks with their indexes: the client drops by them what it has already."""
    if not found.chunks:
        return found
    last = found.chunks[-1][0]
    turn, message = await loaded.actor.inspect(lambda state: _continued(state, found.request))
    chunks: list[tuple[int | None, bytes]] = []
    for stored in await loaded.store.read_turn(loaded.actor.agent, turn):
        try:
            event = decode_event(stored.body)
        except msgspec.DecodeError:
            continue
        if isinstance(event, Chunk) and last is not None and event.index <= last:
            chunks.append((event.index, bytes(event.body)))
    return replace(found, chunks=[*_announced(message, chunks), *chunks])


def _continued(state: State, request: RequestId) -> tuple[TurnId, UIMessage | None]:
    """Return a continuation's turn, and the message that it extends as it stands."""
    turn = state.requests[request]
    known = state.find(turn)
    if known is not None and known.fold is not None:
        return turn, known.fold.message()
    body = state.nodes[known.node].body if known is not None and known.node in state.nodes else None
    return turn, UIMessage.decode(body) if body is not None else None


def _announced(message: UIMessage | None, chunks: Chunks) -> Chunks:
    """Return the inputs of the message's calls whose outputs are among the chunks, or may still come.

    A page that joins a continuation may begin with an empty message, and throws at the output of a call that it does
    not know. One that knows the call is told nothing new.
    """
    said = b"".join(body for _, body in chunks)
    announced: list[tuple[int | None, bytes]] = []
    for part in tool_parts(message) if message is not None else ():
        quoted = msgspec.json.encode(part["toolCallId"])
        is_input_here = any(b'"tool-input-' in body and quoted in body for _, body in chunks)
        if not is_input_here and (quoted in said or not is_settled(part) or part["state"] == "approval-responded"):
            chunk = {"type": "tool-input-available", "toolCallId": part["toolCallId"], "toolName": tool_name(part)}
            dynamic = {"dynamic": True} if part["type"] == "dynamic-tool" else {}
            announced.append((None, encode_chunk({**chunk, "input": part.get("input", {}), **dynamic})))
    return announced
