"""Answers to tool calls inside a posted list of messages: plain HTTP has no other way to send them.

They are processed like those of a socket: the first one wins, and the turn continues by itself (R-1, R-3). The client
continues its own copy of the message, so the response is what that copy lacks, and then only the continuation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from msgspec import Raw

from ..codec.encode import encode_parts
from ..core.commands import AnswerToolCall
from ..core.continuations import continuation_is_due, may_continue
from ..core.replay import BEFORE_ALL
from ..core.state import State
from ..core.transitions import TurnStatus
from ..core.tree import Node
from ..core.turn_state import TurnState
from ..events import Event, Identity, Outcome
from ..ids import AgentId, CallId, MessageId, RequestId
from ..messages.chunks import encode_chunk
from ..messages.message import Chunk, Part, UIMessage, is_part
from ..messages.tool_calls import (
    ApprovalAnswer,
    CallAnswer,
    ErrorAnswer,
    OutputAnswer,
    answer_chunks,
    approval_of_page,
    find_call,
    is_open,
    is_tool_part,
    open_calls,
    tool_parts,
)
from ..runtime.directory import Directory, LoadedAgent
from ..wire.sse import DONE, encode_sse, terminal_events
from .asked_approvals import Asked
from .event_streams import OpenTurn, Pieces, open_turn_frames, sent
from .permissions import Reject
from .shared_slices import SharedSlices

__all__ = ["Answering", "Standing", "find_standing", "find_subject", "standing_frames", "take_answers"]

_FINISHED: Final = encode_sse(b'{"type":"finish"}') + DONE

JsonObject = dict[str, Any]
Given = tuple[CallId, CallAnswer, MessageId]
"""An answer in the list, and the message that has its call there."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of the message that a client continues: what the client lacks, and the turn that writes it now."""

    missing: Sequence[Chunk]
    """Chunks that complete the client's copy to the stored message; none if it is complete."""
    running: OpenTurn | None
    """The turn that continues the message, or will; its chunks follow the stored message."""
    ended: bytes | None
    """The end of the stream, if no turn writes the message now."""
    request: RequestId
    """The request id of the streamed turn."""


async def find_subject(
    loaded: LoadedAgent, messages: Sequence[JsonObject], named: MessageId | None
) -> JsonObject | None:
    """Return the answer in the list that the client goes on with; None when it asks something.

    It is the last message, or the one that the request names: the AI SDK names the message of a call that was approved
    after others followed, and sends the whole list.
    """
    last = messages[-1]
    if last["role"] == "user" and not await loaded.actor.inspect(lambda state: last["id"] in state.tree.known_ids()):
        return None
    answers = (each for each in messages if each["role"] == "assistant" and each["id"] == named)
    subject = next(answers, last)
    return subject if subject["role"] == "assistant" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answering:
    """Who answers calls inside a posted list, and what comes of it."""

    request: RequestId = field(kw_only=False)
    goes_on: bool
    """Whether the client goes on with an answer of ours: that is to go on, unless a continuation waits already."""
    by: str
    principal: Identity | None
    client_tools: Raw


async def take_answers(
    loaded: LoadedAgent,
    messages: Sequence[JsonObject],
    who: Answering,
    check: Callable[[CallId, CallAnswer, MessageId], Awaitable[Reject | Asked]],
) -> bool | Reject:
    """Settle the calls that are open here and answered in the list; return whether there were any.

    `check` is asked first, for each of them, whether the client may.
    """
    given = list(_given(messages))
    if not given:
        return False
    taken: list[Event] = []
    still_open = await loaded.actor.inspect(lambda state: _still_open(state, messages, given))
    asked: list[Asked] = []
    for call, answer, message in still_open:
        checked = await check(call, answer, message)
        if isinstance(checked, Reject):
            return checked
        asked.append(checked)
    for (call, answer, _), request in zip(still_open, asked, strict=True):
        command = AnswerToolCall(
            call,
            answer,
            who.request,
            auto_continue=who.goes_on,
            by=who.by,
            client_tools=who.client_tools,
            principal=who.principal,
            asked=request,
        )
        taken += await loaded.actor.ask(command)
    return bool(taken)


async def find_standing(
    loaded: LoadedAgent, subject: JsonObject, request: RequestId, *, is_last: bool, has_answers: bool
) -> Standing | None:
    """Return what to tell a client that goes on with this message; None when it has to be asked for, as a turn.

    A client that answered a call of a message which may not go on any more asks for nothing else (R-3), nor does one
    that names a message which is not the last of its list.
    """
    copy = UIMessage.from_dict(subject)

    def look(state: State) -> Standing | None:
        node = state.tree.node_of_message(MessageId(copy.id))
        running = _newest(turn for turn in state.message_turns() if turn.node == node and turn.extends)
        body = state.tree.nodes[node].body if node is not None else None
        stored = UIMessage.decode(body) if body is not None else copy
        is_behind = _is_prefix(copy.parts, stored.parts) and len(copy.parts) < len(stored.parts)
        missing = _missing(copy, stored, is_behind=is_behind)
        if running is not None and running.status is TurnStatus.ACCEPTED and _waits_for_others(state, running):
            return Standing(missing, None, _FINISHED, running.request)
        if running is not None:
            opened = OpenTurn(running.id, running.request, loaded.actor.tail.head, running.chunks, [])
            return Standing(missing, opened, None, running.request)
        if not is_last or (has_answers and node is not None and not may_continue(state, node)):
            return Standing(missing, None, _FINISHED, request)
        ended = _newest(t for t in state.ended.values() if t.node == node and t.outcome is not Outcome.SKIPPED)
        if not is_behind or ended is None:
            return None
        return Standing(missing, None, _ending(ended), ended.request)

    return await loaded.actor.inspect(look)


def _waits_for_others(state: State, turn: TurnState) -> bool:
    """Tell whether other calls of the message wait for an answer before the turn may begin."""
    return turn.is_continuation and not continuation_is_due(state, turn)


def _newest(turns: Iterable[TurnState]) -> TurnState | None:
    return max(turns, key=lambda turn: turn.id, default=None)


def _ending(turn: TurnState) -> bytes:
    assert turn.outcome is not None
    if turn.outcome is Outcome.COMPLETED:
        return _FINISHED
    return terminal_events(turn.outcome, chunks=turn.chunks, error=turn.error, reason=turn.reason)


async def standing_frames(directory: Directory, shared: SharedSlices, agent: AgentId, standing: Standing) -> Pieces:
    """Yield what the client lacks, then the continuation from its first chunk, or how it all ended."""
    async for piece in sent(shared.slice_stream(encode_sse(encode_chunk(chunk)) for chunk in standing.missing)):
        yield piece
    if standing.running is None:
        yield standing.ended or DONE
        return
    async with aclosing(open_turn_frames(directory, shared, agent, standing.running, BEFORE_ALL)) as pieces:
        async for piece in pieces:
            yield piece


# -- what a list answers --------------------------------------------------------------------------------------------


def _given(messages: Sequence[JsonObject]) -> Iterable[Given]:
    for message in messages:
        if message["role"] == "assistant":
            for part in filter(is_tool_part, filter(is_part, message["parts"])):
                answer = _answer_in(part)
                if answer is not None:
                    yield CallId(part["toolCallId"]), answer, MessageId(message["id"])


def _answer_in(part: Part) -> CallAnswer | None:
    approval = part.get("approval")
    match part.get("state"):
        case "output-available" if not part.get("preliminary"):
            return OutputAnswer(part.get("output"))
        case "output-error":
            return ErrorAnswer(_text(part.get("errorText")) or "The tool failed.")
        case "approval-responded" if isinstance(approval, dict) and isinstance(approval.get("approved"), bool):
            return approval_of_page(approval["approved"], approval.get("reason"))
        case _:
            return None


def _text(said: object) -> str | None:
    return said if isinstance(said, str) and said else None


def _still_open(state: State, messages: Sequence[JsonObject], given: list[Given]) -> list[Given]:
    """Return those answers whose calls wait for one here; the rest of a long history costs a look at its bytes."""
    named = {message["id"] for message in messages if message["role"] == "assistant"}
    waiting = {
        part["toolCallId"] for place in state.tree.nodes.values() if place.id in named for part in _open_in(place)
    }
    for turn in state.message_turns():
        if turn.fold is not None:
            waiting |= {part["toolCallId"] for part in open_calls(turn.fold.message())}
    return [each for each in given if each[0] in waiting]


def _open_in(place: Node) -> list[Part]:
    if place.role != "assistant" or place.body is None:
        return []
    if not any(state in place.body for state in (b'"input-available"', b'"approval-requested"')):
        return []
    return [part for part in tool_parts(UIMessage.decode(place.body)) if is_open(part)]


# -- what a copy lacks ----------------------------------------------------------------------------------------------


def _missing(copy: UIMessage, stored: UIMessage, *, is_behind: bool) -> list[Chunk]:
    chunks = [chunk for part in tool_parts(copy) for chunk in _corrected(part, stored)]
    if is_behind:
        rest = msgspec.structs.replace(stored, parts=stored.parts[len(copy.parts) :])
        chunks += encode_parts(rest, open_parts={}, is_replay=True)[1:]
    return [{"type": "start", "messageId": stored.id}, *chunks] if chunks else []


def _corrected(part: Part, stored: UIMessage) -> list[Chunk]:
    """Return the chunks that correct a call in the client's copy: it was denied, or another client answered first."""
    call = str(part.get("toolCallId", ""))
    found = find_call(stored, call)
    if found is None or all(found.get(name) == part.get(name) for name in ("state", "output", "errorText")):
        return []
    match found.get("state"):
        case "output-available":
            return answer_chunks(call, OutputAnswer(found.get("output")))
        case "output-error":
            return answer_chunks(call, ErrorAnswer(str(found.get("errorText", ""))))
        case "output-denied":
            return answer_chunks(call, ApprovalAnswer(approved=False))
        case _:
            return []


def _is_prefix(parts: Sequence[Part], of: Sequence[Part]) -> bool:
    def same(one: Part, other: Part) -> bool:
        return one["type"] == other["type"] and one.get("toolCallId") == other.get("toolCallId")

    return len(parts) <= len(of) and all(map(same, parts, of))
