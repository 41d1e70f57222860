"""Random histories of an agent. Most commands are legal, because uniform random ones rarely reach deep states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec
from hypothesis import strategies as st

from everyword.core.commands import (
    AnswerToolCall,
    BeginAttempt,
    CancelTurns,
    ClearConversation,
    Command,
    ContinueTurn,
    CreateShare,
    DelayAttempt,
    EmitChunks,
    Emitted,
    FinishTurn,
    InterruptAttempt,
    MarkHookDone,
    MoveLeaf,
    OpenStream,
    PlaceMessages,
    Policy,
    PolicyName,
    PutMessages,
    RecordCallStart,
    RemoveMessages,
    ReplaceState,
    RevokeShare,
    Submit,
)
from everyword.core.decide import decide
from everyword.core.evolve import evolve
from everyword.core.project import project
from everyword.core.state import Rules, State
from everyword.core.transitions import TurnStatus
from everyword.core.turn_state import TurnState
from everyword.core.wanted import wanted
from everyword.errors import Rejected
from everyword.events import Event, Identity, Outcome, TurnKind, to_raw
from everyword.ids import Attempt, CallId, MessageId, Millis, NodeId, RequestId, ShareId, TurnId
from everyword.messages.message import UIMessage
from everyword.messages.tool_calls import (
    ApprovalAnswer,
    ErrorAnswer,
    OutputAnswer,
    open_calls,
    own_approval_id,
    tool_parts,
)
from everyword.rows import LISTED, AgentRow, KeptRow, MessageRow, Row, RowsCleared, RowsRemoved, TurnRow

T = TypeVar("T")
ANN, BOB = Identity("ann", "Ann", to_raw({"role": "agent"})), Identity("bob")
JsonObject = dict[str, Any]


@dataclass
class Rows:
    """A store in a few dictionaries: a second implementation of rows, to compare stores and rebuilt rows with."""

    agent: AgentRow | None = None
    turns: dict[TurnId, TurnRow] = field(default_factory=dict)
    messages: dict[NodeId, MessageRow] = field(default_factory=dict)
    kept: dict[tuple[str, str], KeptRow] = field(default_factory=dict)
    listed: dict[tuple[str, str], KeptRow] = field(default_factory=dict)

    def apply(self, rows: list[Row]) -> None:
        for row in rows:
            match row:
                case AgentRow():
                    self.agent = row
                case TurnRow():
                    self.turns[row.turn] = row
                case MessageRow():
                    self.messages[row.node] = row
                case KeptRow():
                    rows_of_kind = self.listed if row.kind in LISTED else self.kept
                    rows_of_kind.pop((row.kind, row.key), None)
                    if row.body is not None:
                        rows_of_kind[row.kind, row.key] = row
                case RowsRemoved():
                    for node in row.nodes:
                        self.messages.pop(node, None)
                case RowsCleared():
                    self.messages.clear()


@dataclass
class History:
    """The history of an agent: its commands, its state, its log and its rows."""

    rules: Rules = field(default_factory=Rules)
    told: list[tuple[int, Command]] = field(default_factory=list)
    """(time, command), shown by failing tests."""
    state: State = field(default_factory=State, repr=False)
    log: list[tuple[Event, Millis]] = field(default_factory=list, repr=False)
    rows: Rows = field(default_factory=Rows, repr=False)
    now: int = 1_000

    def play(self, command: Command) -> list[Event]:
        """Decide, evolve and project as the actor does. Return no events if the command is refused."""
        try:
            return self.tell(command)
        except Rejected:
            return []

    def tell(self, command: Command) -> list[Event]:
        """Do the same as `play`, but raise the refusal of the command."""
        at = Millis(self.now)
        self.told.append((self.now, command))
        events = decide(self.state, command, at, self.rules)
        for event in events:
            evolve(self.state, event, at)
            self.rows.apply(project(self.state, event))
            self.log.append((event, at))
        return events

    def fresh(self, prefix: str) -> str:
        return f"{prefix}{len(self.log)}-{self.state.tree.last_node}-{self.state.last_turn}"


def user(message_id: str, text: str = "hi") -> dict[str, Any]:
    return {"id": message_id, "role": "user", "parts": [{"type": "text", "text": text}]}


def assistant(message_id: str, text: str = "forged") -> dict[str, Any]:
    return {"id": message_id, "role": "assistant", "parts": [{"type": "text", "text": text}]}


def emitted(*chunks: dict[str, Any]) -> list[Emitted]:
    return [Emitted(msgspec.json.encode(chunk), bool(chunk.get("transient"))) for chunk in chunks]


def refold(log: list[tuple[Event, Millis]]) -> State:
    state = State()
    for event, at in log:
        evolve(state, event, at)
    return state


def fingerprint(state: State) -> dict[str, Any]:
    """Return the contents of a state in a form that can be compared."""

    def turn(turn: TurnState) -> dict[str, Any]:
        return {
            "accepted": msgspec.json.encode(turn.accepted),
            "status": turn.status,
            "attempt": turn.attempt,
            "chunks": (turn.chunks, turn.transients),
            "message": turn.fold.message().to_dict() if turn.fold is not None else None,
            "ending": (turn.outcome, turn.reason, turn.error, turn.detail, turn.finish_reason, turn.usage),
            "times": (turn.accepted_at, turn.ended_at, turn.hook_due, turn.progressed_at),
            "tries": (turn.recovers_with, dict(turn.started_calls), sorted(turn.held_calls)),
        }

    nodes = {n: (p.parent, p.id, p.role, p.at, p.body, p.draft) for n, p in sorted(state.tree.nodes.items())}
    return {
        "agent": (state.generation, state.tree.leaf, state.last_turn, state.tree.last_node),
        "nodes": nodes,
        "open": [turn(t) for t in state.open.values()],
        "ended": [turn(t) for _, t in sorted(state.ended.items())],
        "requests": dict(sorted(state.requests.items())),
        "value": state.value,
        "conversation": msgspec.json.encode(state.conversation),
        "waiting": {call: msgspec.json.encode(record) for call, record in sorted(state.waiting.items())},
        "jobs": {
            job: (each.added, each.due, each.run, each.attempts, each.is_started) for job, each in state.jobs.items()
        },
    }


class Choices:
    """Choices that are read from bytes, one by one. After the last byte, the first option is chosen.

    One draw of bytes per history costs Hypothesis a fraction of what a draw per decision would, so histories are long;
    and it still shrinks them, by turning bytes into zeros: the first option, or the end.
    """

    def __init__(self, source: bytes) -> None:
        self._source = iter(source)

    def goes_on(self) -> bool:
        return next(self._source, 0) != 0

    def number(self, below: int) -> int:
        return next(self._source, 0) % below

    def of(self, options: Sequence[T]) -> T:
        return options[self.number(len(options))]

    def rarely(self) -> bool:
        return self.number(5) == 4


def histories(steps: int = 40) -> st.SearchStrategy[History]:
    """Draw histories of about `steps` commands."""
    return st.binary(min_size=5 * steps, max_size=9 * steps).map(walk)


def walk(source: bytes) -> History:
    """Return the history that these bytes choose."""
    choices = Choices(source)
    rules = Rules(
        max_attempts=choices.of([5, 2, 1]),
        max_persisted_messages=choices.of([None, None, None, 3, 1]),
        has_response_hook=choices.of([False, True]),
        trusts_client_messages=choices.of([False, True]),
        server_tools=frozenset({"pay"}),
    )
    history = History(rules)
    while choices.goes_on():
        history.now += choices.of([0, 1, 60, 1000])
        history.play(next_command(choices, history))
    return history


def next_command(choices: Choices, history: History) -> Command:
    """Choose a likely command, and now and then an unlikely one."""
    state, current = history.state, history.state.current
    work = wanted(state, Millis(history.now))
    moves = ["submit", "odd"]
    if work.run is not None and current is None:
        moves += ["begin"] * 8
    late = state.open[work.calls] if work.calls is not None else None
    if late is not None:
        moves += ["late"] * 6
    if current is not None:
        moves += ["emit"] * 10 + ["finish"] * 3 + ["answer"] * 3 + ["cancel", "restart", "delay", "submit"]
        moves += ["interrupt", "overtake"]
    elif state.tree.shown_path():
        moves += ["answer"] * 3 + ["continue", "submit", "put", "show"]
    match choices.of(moves):
        case "submit":
            return submit(choices, history)
        case "begin":
            assert work.run is not None
            turn = state.open[work.run]
            return (
                PlaceMessages(turn.id, deferred_messages(choices, history))
                if turn.accepted.deferred
                else begin(history, turn)
            )
        case "late":
            assert late is not None
            return run_late(choices, history, late)
        case "restart":
            assert current is not None
            return BeginAttempt(current.id, "crash")
        case "delay":
            assert current is not None
            return DelayAttempt(current.id, Attempt(current.attempt), choices.of(["crash", "retry", "stall"]))
        case "interrupt":
            assert current is not None
            return InterruptAttempt(current.id, Attempt(current.attempt))
        case "overtake":
            return begin(history, state.open[choices.of(list(state.open))])
        case "emit":
            assert current is not None
            if calls := approved_calls(current):
                return start_or_settle(choices, current, choices.of(calls))
            return EmitChunks(current.id, Attempt(current.attempt), emitted(*chunks_for(choices, current)))
        case "finish":
            assert current is not None
            return finish(choices, current.id, current.attempt)
        case "cancel":
            assert current is not None
            return CancelTurns(choices.of([current.request, None]))
        case "answer":
            return answer(choices, history)
        case "continue":
            return ContinueTurn(RequestId(history.fresh("c")))
        case "put":
            return PutMessages(put_messages(choices, history), trusted=choices.of([True, False]))
        case "show":
            return MoveLeaf(choices.of(list(state.tree.nodes)))
    return odd(choices, history)


def begin(history: History, turn: TurnState) -> BeginAttempt:
    return BeginAttempt(turn.id, calls=RequestId(history.fresh("l")))


def approved_calls(turn: TurnState) -> list[CallId]:
    """Return the calls of the server tool in a turn's message that may run."""
    parts = tool_parts(turn.fold.message()) if turn.fold is not None else ()
    return [CallId(part["toolCallId"]) for part in parts if part.get("state") == "approval-responded"]


def start_or_settle(choices: Choices, turn: TurnState, call: CallId) -> Command:
    """Run a call as its tool would: its start, then its output; now and then the process crashes in between."""
    attempt = Attempt(turn.attempt)
    if choices.rarely():
        return BeginAttempt(turn.id, "crash")
    if turn.started_calls.get(call) != attempt and not choices.rarely():
        return RecordCallStart(turn.id, attempt, call, "pay")
    output = {"type": "tool-output-available", "toolCallId": call, "output": "paid"}
    return EmitChunks(turn.id, attempt, emitted(output))


def run_late(choices: Choices, history: History, turn: TurnState) -> Command:
    """Choose what happens to approved calls that run beside the chat."""
    if turn.attempt == 0:
        return begin(history, turn)
    if calls := approved_calls(turn):
        return start_or_settle(choices, turn, calls[0])
    return choices.of([finish(choices, turn.id, turn.attempt), CancelTurns(turn.request)])


def shown(history: History) -> list[JsonObject]:
    return [msgspec.json.decode(node.shown) for _, node in history.state.tree.shown_path() if node.shown is not None]


def changed(message: JsonObject, history: History) -> JsonObject:
    return {**message, "parts": [{"type": "text", "text": history.fresh("e")}]}


def deferred_messages(choices: Choices, history: History) -> list[JsonObject]:
    new, known = user(history.fresh("d")), shown(history)
    return choices.of([[new], [new], known, [*known, new, assistant(history.fresh("b"))], []])


def put_messages(choices: Choices, history: History) -> list[JsonObject]:
    old = changed(choices.of(shown(history)), history)
    new = [user(history.fresh("p")), assistant(history.fresh("q"))]
    return choices.of([new, [old], [*new, old]])


def finish(choices: Choices, turn: TurnId, attempt: int) -> FinishTurn:
    outcome = choices.of([Outcome.COMPLETED, Outcome.COMPLETED, Outcome.ERROR, Outcome.ABORTED])
    error = "boom" if outcome is Outcome.ERROR else None
    reason, usage = choices.of([None, "stop", "tool-calls"]), to_raw({"tokens": turn} if turn % 2 else None)
    forget = choices.of(["crash", None, None])
    return FinishTurn(turn, Attempt(attempt), outcome, error=error, finish_reason=reason, usage=usage, forget=forget)


SHAPES = ["append", "append", "append", "several", "prefix", "edit", "same", "stale", "forged", "branch", "defer"]
POLICIES: list[PolicyName] = ["queue", "queue", "latest", "merge", "merge", "drop", "debounce"]


def submit(choices: Choices, history: History) -> Command:
    state, known = history.state, list(history.state.requests)
    messages = submitted(choices, history)
    request = choices.of(known) if known and choices.rarely() else history.fresh("r")
    return Submit(
        RequestId(request),
        MessageId(history.fresh("a")),
        messages,
        trigger=choices.of(["submit-message", "submit-message", "regenerate-message"]),
        trusted=messages is None or choices.rarely(),
        policy=Policy(choices.of(POLICIES), 30),
        origin=f"s{state.generation}",
        body=to_raw({"n": len(history.log)} if len(history.log) % 3 else None),
        client_tools=to_raw([{"name": "look"}] if len(history.log) % 2 else None),
        principal=choices.of([ANN, ANN, BOB, None]),
    )


def submitted(choices: Choices, history: History) -> list[JsonObject] | None:
    """Choose the list that a client or the agent's code submits; None for a deferred list."""
    path, new = shown(history), user(history.fresh("u"), choices.of(["a", "b"]))
    match choices.of(SHAPES):
        case "append":
            return [*path, new]
        case "several":
            return [*path, user(history.fresh("v")), new]
        case "prefix":
            return path[: choices.number(len(path) + 1)]
        case "edit" if path:
            cut = choices.number(len(path))
            return [*path[:cut], changed(path[cut], history)]
        case "stale" if path:
            return [*path[choices.number(len(path)) :], new]
        case "forged":
            return [*path, assistant(history.fresh("x")), *choices.of([[new], []])]
        case "branch" if history.state.tree.nodes:
            return [user(choices.of(list(history.state.tree.nodes.values())).id)]
        case "defer":
            return None
    return path


def chunks_for(choices: Choices, turn: TurnState) -> list[JsonObject]:
    """Choose one to three chunks that the turn's message can take, and now and then one that it cannot."""
    assert turn.fold is not None
    number, message = turn.chunks, turn.fold.message()
    options: list[list[JsonObject]] = [
        [{"type": "text-start", "id": f"t{number}"}, {"type": "text-delta", "id": f"t{number}", "delta": "one "}],
        [{"type": "reasoning-start", "id": f"g{number}"}],
        [{"type": "start-step"}],
        [{"type": "tool-input-available", "toolCallId": f"k{number}", "toolName": "look", "input": {"a": 1}}],
        [{"type": "tool-input-available", "toolCallId": "same", "toolName": "look", "input": {"a": 1}}],
        [{"type": "data-note", "id": "n", "data": number}],
        [{"type": "data-flash", "data": number, "transient": True}],
        [{"type": "finish", "finishReason": "stop", "messageMetadata": {"n": number}}],
        [{"type": "text-delta", "id": "nobody", "delta": "lost"}],
    ]
    pay = f"p{turn.id}-{number}"
    asked = {"type": "tool-approval-request", "toolCallId": pay, "approvalId": own_approval_id(pay)}
    options += [[{"type": "tool-input-available", "toolCallId": pay, "toolName": "pay", "input": {}}, asked]] * 2
    for place, name in turn.fold.open_parts.items():
        kind = message.parts[place]["type"]
        options += [[{"type": f"{kind}-delta", "id": name, "delta": "more "}]] * 3
        options.append([{"type": f"{kind}-end", "id": name}])
    for part in open_calls(message):
        call = part["toolCallId"]
        options.append([{"type": "tool-output-available", "toolCallId": call, "output": number}])
        if part["state"] == "input-available":
            options += [[{"type": "tool-approval-request", "toolCallId": call, "approvalId": f"ask-{call}"}]] * 2
    return choices.of(options)


def answer(choices: Choices, history: History) -> Command:
    state = history.state
    calls = ["unknown"]
    for turn in state.message_turns():
        if turn.fold is not None:
            calls += [part["toolCallId"] for part in open_calls(turn.fold.message())] * 4
    for node in state.tree.nodes.values():
        if node.body is not None and node.role == "assistant":
            calls += [part["toolCallId"] for part in open_calls(UIMessage.decode(node.body))] * 2
    return AnswerToolCall(
        CallId(choices.of(calls)),
        choices.of([OutputAnswer({"ok": 1}), ErrorAnswer("no"), ApprovalAnswer(True), ApprovalAnswer(False, "why")]),
        RequestId(history.fresh("c")),
        auto_continue=choices.of([True, True, False]),
        owner="pk",
        principal=choices.of([ANN, BOB, None]),
    )


def share(choices: Choices, history: History) -> Command:
    known = list(history.state.shares)
    if known and choices.of([True, False]):
        return RevokeShare(choices.of(known), choices.of([ANN, None]))
    name, expires_at = history.fresh("l"), choices.of([None, Millis(5)])
    return CreateShare(ShareId(name), f"digest of {name}", choices.of([True, False]), expires_at, principal=ANN)


def odd(choices: Choices, history: History) -> Command:
    """Choose a command that is late, repeated, stale or rare."""
    state = history.state
    turn = TurnId(choices.number(state.last_turn + 2))
    attempt = Attempt(choices.number(4))
    node = NodeId(choices.number(state.tree.last_node + 2))
    streams = [each for each in state.open.values() if each.accepted.kind.is_bare]
    options: list[Command] = [
        BeginAttempt(turn),
        DelayAttempt(turn, attempt, "crash"),
        InterruptAttempt(turn, attempt),
        EmitChunks(turn, attempt, emitted({"type": "text-start", "id": "odd"})),
        finish(choices, turn, attempt),
        CancelTurns(RequestId("nobody")),
        CancelTurns(None),
        ClearConversation("s1"),
        MarkHookDone(turn),
        MoveLeaf(node),
        RemoveMessages([node]),
        OpenStream(RequestId(history.fresh("s")), MessageId("m"), choices.of([TurnKind.RSM, TurnKind.STREAM])),
        PutMessages([user(history.fresh("p")), assistant(history.fresh("q"))]),
        PutMessages([user(history.fresh("p"))], trusted=False),
        PlaceMessages(turn, [user(history.fresh("d"))]),
        ReplaceState(to_raw({"since": history.fresh("v")})),
        share(choices, history),
    ]
    for stream in streams:
        words = emitted({"type": "words", "n": stream.chunks})
        options += [BeginAttempt(stream.id), EmitChunks(stream.id, Attempt(stream.attempt), words)]
        options += [finish(choices, stream.id, stream.attempt), CancelTurns(stream.request)]
    return choices.of(options)


def is_waiting_for_a_person(state: State) -> bool:
    """Return whether only bare streams, and continuations that wait for another answer, are open."""
    return all(turn.is_continuation and turn.status is TurnStatus.ACCEPTED for turn in state.message_turns())
