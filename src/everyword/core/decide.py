"""Which events a command causes. `decide` returns events or refuses the command; it changes nothing.

A command that is late, repeated or from an older attempt causes no event, or raises `Rejected`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from ..errors import AgentGone, Rejected, StaleAttempt, UnknownTurn
from ..events import (
    AgentCreated,
    AgentDestroyed,
    AttemptDelayed,
    AttemptInterrupted,
    AttemptStarted,
    CancelRequested,
    ChatCleared,
    Chunk,
    Event,
    HookDone,
    LeafMoved,
    MessageEnded,
    MessagesRemoved,
    Outcome,
    StateSet,
    TurnAccepted,
    TurnEnded,
    TurnKind,
    to_raw,
)
from ..ids import Attempt, Generation, Millis, NodeId
from ..messages.server_fields import fields_of, with_fields
from ..messages.tool_calls import find_call
from .accept import accept_continuation, accept_stream, accept_submit, place_deferred, put_messages
from .attempt_limits import cause_of, why_given_up
from .commands import (
    AddJob,
    AnswerToolCall,
    BeginAttempt,
    CancelJobs,
    CancelTurns,
    ChangeConversation,
    ClearConversation,
    Command,
    ContinueTurn,
    CreateAgent,
    CreateShare,
    DeclareJobs,
    DelayAttempt,
    DestroyAgent,
    EmitChunks,
    Emitted,
    EndFiber,
    EndJob,
    EndRun,
    FinishTurn,
    InterruptAttempt,
    MarkHookDone,
    MarkRead,
    MarkRunTold,
    MoveLeaf,
    OpenStream,
    PauseFiber,
    PlaceMessages,
    PutMessages,
    RecordCallStart,
    RecoverFiber,
    RemoveMessages,
    ReplaceState,
    RequestApproval,
    RevokeShare,
    StartFiber,
    StartJob,
    StartRun,
    StashFiber,
    Submit,
)
from .continuations import end_approved_calls, events_before_first_attempt
from .conversations import decide_conversation
from .evolve import APPROVAL_REQUEST
from .fibers import decide_fiber
from .follow_ups import follow_ups
from .jobs import decide_job
from .runs import end_run, mark_run_told, start_run
from .server_tool_calls import interrupted_calls, start_call, with_errors
from .shares import decide_share
from .stamps import is_start, stamped_start
from .state import Rules, State
from .tool_call_answers import answer_call
from .transitions import TurnStatus
from .turn_state import TurnState
from .usage import usage_of_turn
from .waiting_approvals import announce_approvals, request_approval
from .wanted import wanted

__all__ = ["decide"]

_TOOL_OUTPUT = b'"tool-output-'
_FINAL = frozenset({"output-available", "output-error", "output-denied"})


def decide(state: State, command: Command, now: Millis, rules: Rules) -> list[Event]:
    """Return the events that `command` causes at `now`. The caller commits them and applies them with `evolve`.

    Raises:
        Rejected: the rules refuse the command; nothing happened.
    """
    if state.is_destroyed:
        raise AgentGone("unable to take a command; the agent was destroyed. Its name is that of a new one.")
    events = _decide(state, command, now, rules)
    return events if rules.follow_ups is None else [*events, *follow_ups(state, events, now, rules.follow_ups)]


def _decide(state: State, command: Command, now: Millis, rules: Rules) -> list[Event]:
    match command:
        case EmitChunks():
            return _emit(state, command, now, rules)
        case Submit():
            return accept_submit(state, command, now, rules)
        case RecordCallStart():
            return start_call(_running_turn(state, command), command)
        case BeginAttempt():
            return _begin(state, command, now, rules)
        case DelayAttempt():
            return _delay(state, command)
        case InterruptAttempt():
            return _interrupt(state, command)
        case FinishTurn():
            return _finish_turn(state, command, now, rules)
        case CancelTurns():
            return _cancel(state, command, rules)
        case AnswerToolCall():
            return answer_call(state, command, now, rules)
        case ContinueTurn():
            return accept_continuation(state, command, rules)
        case OpenStream():
            return _open_stream(state, command, now, rules)
        case PlaceMessages():
            return place_deferred(state, command, now, rules)
        case ClearConversation():
            return _clear(state, command, rules)
        case PutMessages():
            return put_messages(state, command, now, rules)
        case RemoveMessages():
            known = [node for node in command.nodes if node in state.tree.nodes and not _is_in_open_turn(state, node)]
            return [MessagesRemoved(known, cause=command.cause)] if known else []
        case MoveLeaf():
            return _move_leaf(state, command)
        case RequestApproval():
            return request_approval(_running_turn(state, command), command)
        case ChangeConversation() | MarkRead() | CreateShare() | RevokeShare():
            return _change_conversation(state, command, now)
        case MarkHookDone():
            return [HookDone(command.turn)] if command.turn in state.hooks_due else []
        case ReplaceState():
            return [StateSet(command.state, command.origin)]
        case CreateAgent():
            return [AgentCreated()]
        case AddJob() | DeclareJobs() | StartJob() | EndJob() | CancelJobs():
            return decide_job(state, command)
        case StartRun():
            return start_run(state, command, rules)
        case EndRun():
            return end_run(state, command, rules)
        case MarkRunTold():
            return mark_run_told(state, command)
        case StartFiber() | RecoverFiber() | PauseFiber() | StashFiber() | EndFiber():
            return decide_fiber(state, command)
        case DestroyAgent():
            return _destroy(state, command, now)
        case _:
            assert_never(command)


def _change_conversation(
    state: State, command: ChangeConversation | MarkRead | CreateShare | RevokeShare, now: Millis
) -> list[Event]:
    if isinstance(command, CreateShare | RevokeShare):
        return decide_share(state, command, now)
    return decide_conversation(state, command)


def _destroy(state: State, command: DestroyAgent, now: Millis) -> list[Event]:
    if command.only_outdated and not wanted(state, now).is_outdated:
        raise Rejected("unable to delete the conversation; it was used again")
    return [AgentDestroyed()]


def _open_stream(state: State, command: OpenStream, now: Millis, rules: Rules) -> list[Event]:
    """Return the events of a stream, its question and its job. Each changes another part of the state."""
    accepted = accept_stream(state, command)
    if not accepted:
        return []
    put = PutMessages([command.question], principal=command.principal) if command.question is not None else None
    questions = put_messages(state, put, now, rules) if put is not None else []
    return [*questions, *accepted, *(decide_job(state, command.job) if command.job is not None else [])]


def _finish_turn(state: State, command: FinishTurn, now: Millis, rules: Rules) -> list[Event]:
    """Return the end of a turn; of a managed stream, with its last chunks and its message (R-20)."""
    turn = _running_turn(state, command)
    if turn.accepted.kind is not TurnKind.RSM:
        return _finish(state, turn, command, rules)
    emitted = EmitChunks(command.turn, command.attempt, list(command.chunks))
    last = _emit(state, emitted, now, rules) if command.chunks else []
    left = PutMessages([command.message], cause="streamed") if command.message is not None else None
    put = put_messages(state, left, now, rules) if left is not None else []
    *before, ended = _finish(state, turn, command, rules)
    assert isinstance(ended, TurnEnded)
    return [*last, *put, *before, replace(ended, chunks=ended.chunks + len(last))]


def _running_turn(state: State, command: EmitChunks | RecordCallStart | RequestApproval | FinishTurn) -> TurnState:
    """Return the turn that a runner writes.

    Raises:
        StaleAttempt: the turn has ended, or another attempt runs (I-7).
    """
    turn = state.open.get(command.turn)
    if turn is None or turn.attempt != command.attempt:
        raise StaleAttempt(f"unable to write to turn {command.turn}; attempt {command.attempt} is not the running one")
    return turn


def _emit(state: State, command: EmitChunks, now: Millis, rules: Rules) -> list[Event]:
    turn = _running_turn(state, command)
    if turn.status is TurnStatus.ACCEPTED:
        raise StaleAttempt(f"unable to write to turn {turn.id}; it has not begun")
    chunks, speaker, attempt = command.chunks, command.turn, command.attempt
    for chunk in chunks:
        if _TOOL_OUTPUT in chunk.body:
            chunks = [chunk for chunk in chunks if not _is_answered_already(turn, chunk)]
            break
    if turn.fold is not None and turn.fold.is_empty:  # this is the first chunk of the message
        chunks = [Emitted(stamped_start(chunk.body, now)) if is_start(chunk.body) else chunk for chunk in chunks]
    events: list[Event] = [
        Chunk(speaker, attempt, index, Raw(chunk.body), chunk.transient)
        for index, chunk in enumerate(chunks, turn.chunks)
    ]
    if rules.has_list_events and any(APPROVAL_REQUEST in chunk.body for chunk in chunks):
        return announce_approvals(state, turn, events)
    return events


def _is_answered_already(turn: TurnState, chunk: Emitted) -> bool:
    """Return whether a chunk is the output of a call that has one already: the first answer wins (R-1)."""
    if turn.fold is None or _TOOL_OUTPUT not in chunk.body:
        return False
    said = msgspec.json.decode(chunk.body)
    part = find_call(turn.fold.message(), said.get("toolCallId", ""))
    if part is None or not str(said["type"]).startswith("tool-output-"):
        return False
    return part.get("state") in _FINAL and not part.get("preliminary")


def _begin(state: State, command: BeginAttempt, now: Millis, rules: Rules) -> list[Event]:
    turn = state.open.get(command.turn)
    if turn is None:
        raise UnknownTurn(f"unable to begin turn {command.turn}; it is not open")
    if turn.status is TurnStatus.CANCELLING:
        raise StaleAttempt(f"unable to begin turn {command.turn}; it is being cancelled")
    if (other := _blocking_turn(state, turn)) is not None:
        raise Rejected(f"unable to begin turn {command.turn}; turn {other.id} comes first")
    if turn.accepted.deferred:
        raise Rejected(f"unable to begin turn {command.turn}; its messages are not known yet")
    left = events_before_first_attempt(state, turn, command.calls, rules) if turn.attempt == 0 else []
    if left and (isinstance(left[-1], TurnAccepted) or turn.is_continuation):
        return left
    if (spent := why_given_up(turn, command.heard_at, now, rules)) is not None:
        end = FinishTurn(
            turn.id,
            Attempt(turn.attempt),
            Outcome.ERROR,
            reason="attempts-exhausted",
            error=rules.exhausted_text,
            detail=spent,
        )
        return _finish(state, turn, end, rules)
    attempt = Attempt(turn.attempt + 1)
    cause = cause_of(turn, command.cause)
    if command.fresh and not turn.extends:
        return [*left, AttemptStarted(turn.id, attempt, cause, fresh=True)]
    # The parts that the last attempt left open are closed first.
    return [*left, *_closing(turn, Attempt(turn.attempt)), AttemptStarted(turn.id, attempt, cause)]


def _delay(state: State, command: DelayAttempt) -> list[Event]:
    turn = state.open.get(command.turn)
    if turn is None or turn.status is not TurnStatus.RUNNING or turn.attempt != command.attempt:
        return []  # the turn has ended, is being cancelled, or has another attempt: there is nothing to wait for
    attempt = Attempt(turn.attempt + 1)
    return [] if turn.recovers_with == attempt else [AttemptDelayed(turn.id, attempt, command.cause)]


def _interrupt(state: State, command: InterruptAttempt) -> list[Event]:
    turn = state.open.get(command.turn)
    if turn is None or turn.status is not TurnStatus.RUNNING or turn.attempt != command.attempt:
        return []  # the turn has ended, is being cancelled, or has another attempt
    return [] if turn.attempt_counter.is_interrupted else [AttemptInterrupted(turn.id, command.attempt)]


def _blocking_turn(state: State, turn: TurnState) -> TurnState | None:
    """Return an open turn that has to end before this one may begin, or None.

    One chat turn runs at a time. Late calls run beside it, but no other turn begins before they have ended, because the
    model has to read their outputs. And one turn at a time writes a message.
    """
    if turn.accepted.kind.is_bare:
        return None
    writer = state.writer(turn.node)
    if writer is not None and writer is not turn:
        return writer
    if turn.accepted.kind is TurnKind.CALLS:
        return next((each for each in state.late_calls() if each is not turn and each.attempt > 0), None)
    if (current := state.current) is not None:
        return current if current is not turn else None
    return next(state.late_calls(), None)


def _closing(turn: TurnState, attempt: Attempt, also: Sequence[dict[str, Any]] = ()) -> list[Event]:
    if turn.fold is None:
        return []
    return [
        Chunk(turn.id, attempt, index, to_raw(chunk))
        for index, chunk in enumerate([*turn.fold.closing_chunks(), *also], turn.chunks)
    ]


def _finish(state: State, turn: TurnState, command: FinishTurn, rules: Rules) -> list[Event]:
    """Return the end of a turn in one batch (I-8): the ends of open parts (R-23), the message, the cap, the outcome."""
    aborted = turn.status is TurnStatus.CANCELLING
    if command.forget is not None and turn.status is TurnStatus.RUNNING and turn.accepted.kind is TurnKind.CHAT:
        return _finish_without_answer(state, turn, command, rules)
    interrupted = interrupted_calls(state, turn, Outcome.ABORTED if aborted else command.outcome, rules)
    closing = _closing(turn, Attempt(turn.attempt), interrupted)
    events: list[Event] = list(closing)
    saved = turn.fold is not None and not turn.fold.is_empty
    if turn.fold is not None and saved:
        folded = message = with_errors(turn.fold.closed_message(), interrupted).to_dict()
        try:
            message = with_fields(rules.sanitize(folded), fields_of(folded))
        except Exception as exc:  # noqa: BLE001 - the agent's own code failed: store the message as clients saw it
            text, detail = rules.unsanitized_text, f"{type(exc).__name__}: {exc}"
            command = replace(command, outcome=Outcome.ERROR, error=text, detail=detail, reason="not-sanitized")
        events.append(MessageEnded(turn.id, turn.node, to_raw(message), sanitized=message != folded))
    excess = _nodes_beyond_cap(state, turn, rules, saved=saved)
    if excess:
        events.append(MessagesRemoved(excess, cause="cap"))
    ended = TurnEnded(
        turn.id,
        Outcome.ABORTED if aborted else command.outcome,
        reason=command.reason or ("cancelled" if aborted else None),
        error=None if aborted else command.error,
        detail=command.detail,
        finish_reason=command.finish_reason or (turn.fold.finish_reason if turn.fold is not None else None),
        usage=usage_of_turn(state, turn, command.usage),
        chunks=turn.chunks + len(closing),
        hook_due=_hook_due(turn, rules),
    )
    return [*events, ended]


def _finish_without_answer(state: State, turn: TurnState, command: FinishTurn, rules: Rules) -> list[Event]:
    """Return the end of a turn whose answer is discarded: a fresh attempt that ends before its first chunk.

    Readers only need to know that a fresh attempt discards the answer so far.
    """
    assert command.forget is not None
    begun = AttemptStarted(turn.id, Attempt(turn.attempt + 1), cause_of(turn, command.forget), fresh=True)
    excess = _nodes_beyond_cap(state, turn, rules, saved=False)
    ended = TurnEnded(
        turn.id,
        command.outcome,
        reason=command.reason,
        error=command.error,
        usage=usage_of_turn(state, turn, command.usage),
        chunks=turn.chunks,
        hook_due=_hook_due(turn, rules),
    )
    return [begun, *([MessagesRemoved(excess, cause="cap")] if excess else []), ended]


def _hook_due(turn: TurnState, rules: Rules) -> bool:
    return rules.has_response_hook and turn.accepted.kind.is_chat


def _nodes_beyond_cap(state: State, turn: TurnState, rules: Rules, *, saved: bool) -> list[NodeId]:
    """Return the nodes that `max_persisted_messages` removes when this turn ends. `saved`: the turn has a message.

    These are the oldest nodes of the active path, with the branches below them. Messages that an open turn answers, and
    all messages after them, stay until that turn ends, even beyond the cap.
    """
    cap = rules.max_persisted_messages
    if cap is None or not turn.accepted.kind.is_chat:
        return []
    path = state.tree.active_path()
    counted = [n for n in path if state.tree.nodes[n].shown is not None or (saved and n == turn.node)]
    if len(counted) <= max(cap, 1):
        return []
    needed = {turn.node}
    for other in state.message_turns():
        if other is not turn:
            needed |= {other.node, *(placed.node for placed in other.accepted.messages)}
    cut = path.index(counted[-max(cap, 1)])
    cut = min([cut, *(path.index(node) for node in needed if node in path)])
    kept = set(path[cut:])
    kept |= {node for node in state.tree.nodes if not kept.isdisjoint(state.tree.ancestors(node))}
    for node in needed:
        kept.update(state.tree.ancestors(node if node not in kept else None))
    return [node for node in state.tree.nodes if node not in kept]


def _cancel(state: State, command: CancelTurns, rules: Rules) -> list[Event]:
    if command.request is None:
        turns = list(state.message_turns())
    else:
        found = state.by_request(command.request)
        turns = [found] if found is not None and found.id in state.open else []
    events = end_approved_calls(
        state, [turn for turn in turns if turn.status is TurnStatus.ACCEPTED], command.by, rules
    )
    for turn in turns:
        if turn.status is TurnStatus.ACCEPTED:
            hook = _hook_due(turn, rules)
            events.append(TurnEnded(turn.id, Outcome.ABORTED, reason="cancelled", hook_due=hook))
        elif turn.status is TurnStatus.RUNNING:
            events.append(CancelRequested(turn.id, by=command.by))
    return events


def _clear(state: State, command: ClearConversation, rules: Rules) -> list[Event]:
    """Return one batch (R-9): the running turn aborted without a message, waiting ones skipped, a new generation."""
    events: list[Event] = []
    for turn in state.open.values():
        if turn.status is TurnStatus.ACCEPTED:
            events.append(TurnEnded(turn.id, Outcome.SKIPPED, reason="cleared"))
        else:
            hook = _hook_due(turn, rules)
            chunks = turn.chunks
            events.append(TurnEnded(turn.id, Outcome.ABORTED, reason="cleared", chunks=chunks, hook_due=hook))
    jobs = [job for job, each in state.jobs.items() if each.added.callback == command.cancels]
    cancelled = decide_job(state, CancelJobs(jobs)) if jobs else []
    return [*cancelled, *events, ChatCleared(Generation(state.generation + 1), origin=command.origin)]


def _is_in_open_turn(state: State, node: NodeId) -> bool:
    """Return whether an open turn writes this node, or answers the message there."""
    asked = (placed.node for turn in state.chat_turns() for placed in turn.accepted.messages)
    return node in asked or any(turn.node == node for turn in state.message_turns())


def _move_leaf(state: State, command: MoveLeaf) -> list[Event]:
    if command.node not in state.tree.nodes:
        raise Rejected(f"unable to show node {command.node}; it is not in the tree")
    leaf = state.tree.newest_leaf_below(command.node)
    return [LeafMoved(leaf, origin=command.origin)] if leaf != state.tree.leaf else []
