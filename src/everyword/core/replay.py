"""The replay of a turn, for a client that missed some or all of it. Every transport encodes this one replay.

There are two kinds of replay. *In few chunks*: chunks that are made from the message so far. *By number*: the chunks of
the log after a cursor, each with its index, for readers that drop the chunks which they have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import msgspec

from ..codec.compact import replay_from_fold
from ..codec.encode import encode_parts
from ..events import Chunk, Event, Outcome, TurnAccepted, decode_event
from ..ids import CallId, MessageId, RequestId, Seq, TurnId
from ..messages.chunks import encode_chunk
from ..messages.message import Part, UIMessage
from ..messages.tool_calls import (
    ApprovalAnswer,
    answer_chunks,
    is_settled,
    is_tool_part,
    last_step,
    tool_name,
    tool_parts,
)
from ..rows import TurnRow
from .state import State
from .turn_state import TurnState

__all__ = [
    "BEFORE_ALL",
    "Chunks",
    "TurnReplay",
    "call_inputs",
    "few_chunks",
    "message_chunks",
    "numbered_chunks",
    "replay_row",
    "replay_turn",
]

BEFORE_ALL = -1
"""The cursor of a reader that has no chunk of a turn."""

Chunks = Sequence[tuple[int | None, bytes]]
"""Chunks with their indexes. A chunk that was made from several ones, or from a message, has no index."""


@dataclass(frozen=True, slots=True)
class TurnReplay:
    """A turn in the committed state at `head`: its chunks, and how it ended, if it did.

    `is_known` is False for a request that was never accepted, or that belongs to a cleared conversation.
    """

    head: Seq
    request: RequestId
    chunks: Chunks = ()
    turn: TurnId = TurnId(0)
    count: int = 0
    """How many chunks the turn has. The cursor after this replay is one less."""
    is_continuation: bool = False
    message: UIMessage | None = field(default=None, compare=False)
    """The message that a continuation extends, as far as it is written."""
    begins_empty: bool = False
    """True when clients that join the continuation start with an empty message, and so need the whole message."""
    denied: frozenset[CallId] = frozenset()
    """The calls of `message` that were denied right before the continuation, while it runs."""
    outcome: Outcome | None = None
    error: str | None = None
    reason: str | None = None
    message_ids: Sequence[MessageId] = ()
    is_known: bool = True


def replay_turn(state: State, turn: TurnState, head: Seq) -> TurnReplay:
    """Return the replay of a turn that the state has, in few chunks."""
    if turn.accepted.generation != state.generation or turn.accepted.dropped:
        return TurnReplay(head, turn.request, is_known=False)
    return TurnReplay(
        head,
        turn.request,
        turn=turn.id,
        chunks=few_chunks(turn) if turn.fold is not None else _ended_chunks(state, turn),
        count=turn.chunks,
        is_continuation=turn.is_continuation,
        message=_message_so_far(state, turn) if turn.is_continuation else None,
        begins_empty=turn.is_continuation and _begins_empty(state, turn),
        denied=_denied_calls(state, turn) if turn.is_continuation else frozenset(),
        outcome=turn.outcome,
        error=turn.error,
        reason=turn.reason,
        message_ids=turn.accepted.message_ids,
    )


def replay_row(state: State, row: TurnRow, head: Seq) -> TurnReplay:
    """Return the replay of an ended turn that the state has forgotten, made from its message."""
    accepted, outcome = decode_event(row.accepted), Outcome(row.status)
    return TurnReplay(
        head,
        row.request,
        turn=row.turn,
        chunks=message_chunks(state.tree.stored(row.node), outcome, row.finish_reason) if not row.kind.is_bare else (),
        count=row.chunks,
        outcome=outcome,
        error=row.error,
        reason=row.reason,
        message_ids=accepted.message_ids if isinstance(accepted, TurnAccepted) else (),
    )


def few_chunks(turn: TurnState) -> Chunks:
    """Return an open turn in few chunks; a continuation with the whole message that it extends.

    Transient parts are not in the message. They are added, because clients may not have seen them (R-12).
    """
    if turn.fold is None or (turn.fold.is_empty and not turn.chunks):
        return []
    return [(None, body) for body in [*map(encode_chunk, replay_from_fold(turn.fold)), *turn.transients]]


def message_chunks(body: bytes | None, outcome: Outcome | None, finish_reason: str | None) -> Chunks:
    """Return the chunks of an ended turn's message. As in the live stream, only a completed turn has a `finish`."""
    if body is None:
        return []
    chunks = encode_parts(UIMessage.decode(body), open_parts={}, is_replay=True)
    if outcome is Outcome.COMPLETED:
        reason = {} if finish_reason is None else {"finishReason": finish_reason}
        chunks.append({"type": "finish", **reason})
    return [(None, encode_chunk(chunk)) for chunk in chunks]


def _ended_chunks(state: State, turn: TurnState) -> Chunks:
    return message_chunks(state.tree.stored(turn.node), turn.outcome, turn.finish_reason)


def numbered_chunks(events: Iterable[Event], after: int, count: int) -> list[Chunk]:
    """Return a turn's chunks after the index `after` that are among the events. Others may have been pruned."""
    return [event for event in events if isinstance(event, Chunk) and after < event.index < count]


def call_inputs(message: UIMessage | None, chunks: Chunks, denied: Collection[CallId] = ()) -> Chunks:
    """Return the inputs of the message's calls whose outputs are among the chunks, or may still come.

    A page that joins a continuation may start with an empty message, and throws at the output of an unknown call. For a
    page that knows the call, the input changes nothing.

    Denials are repeated: a page continues with the copy of the message that it had when the call was denied. In that
    copy the call is answered, but not denied, until the continuation ends.
    """
    said = b"".join(body for _, body in chunks)
    told: list[tuple[int | None, bytes]] = []
    for part in tool_parts(message) if message is not None else ():
        quoted, call = msgspec.json.encode(part["toolCallId"]), part["toolCallId"]
        is_input_here = any(b'"tool-input-' in body and quoted in body for _, body in chunks)
        is_due = quoted in said or not is_settled(part) or part["state"] == "approval-responded" or call in denied
        if not is_input_here and is_due:
            chunk = {"type": "tool-input-available", "toolCallId": call, "toolName": tool_name(part)}
            dynamic = {"dynamic": True} if part["type"] == "dynamic-tool" else {}
            told.append((None, encode_chunk({**chunk, "input": part.get("input", {}), **dynamic})))
        if call in denied:
            told += [(None, encode_chunk(each)) for each in answer_chunks(call, ApprovalAnswer(approved=False))]
    return told


def _begins_empty(state: State, turn: TurnState) -> bool:
    """Return whether clients that join a running continuation start with an empty message.

    The AI SDK does, and chunks of a part of the message would become a second message on the page. But if a call of the
    message has not run, `ai` 7 starts with its copy of the message. The same goes for messages with approvals: a replay
    leaves out answered approvals (R-2), and the page would lose them.
    """
    body = state.tree.stored(turn.node) if turn.fold is not None and turn.chunks else None
    return body is not None and all(_has_output(part) for part in tool_parts(UIMessage.decode(body)))


def _has_output(part: Part) -> bool:
    return part.get("state") in ("output-available", "output-error") and part.get("approval") is None


def _denied_calls(state: State, turn: TurnState) -> frozenset[CallId]:
    body = state.tree.stored(turn.node)
    if turn.fold is None or body is None:
        return frozenset()
    parts = UIMessage.decode(body).parts
    before = parts[last_step(parts) :]  # the steps of the continuation are not stored yet
    return frozenset(
        CallId(part["toolCallId"]) for part in before if is_tool_part(part) and part["state"] == "output-denied"
    )


def _message_so_far(state: State, turn: TurnState) -> UIMessage | None:
    if turn.fold is not None:
        return turn.fold.message()
    body = state.tree.stored(turn.node)
    return UIMessage.decode(body) if body is not None else None
