"""Histories of an agent, drawn mostly legal: uniform random commands rarely reach deep states."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
from hypothesis import strategies as st

from holdfast.core.commands import (
    Answer,
    Begin,
    Cancel,
    Clear,
    Command,
    Continue,
    Emit,
    Emitted,
    Finish,
    MarkHookDone,
    MoveLeaf,
    OpenStream,
    Place,
    Policy,
    PutMessages,
    RemoveMessages,
    Submit,
)
from holdfast.core.decide import decide
from holdfast.core.evolve import evolve
from holdfast.core.project import project
from holdfast.core.state import Rules, State, Turn
from holdfast.core.transitions import Status
from holdfast.core.tree import shown_path
from holdfast.core.wanted import wanted
from holdfast.errors import Rejected
from holdfast.events import Event, Outcome
from holdfast.ids import Attempt, CallId, MessageId, Millis, NodeId, RequestId, TurnId
from holdfast.messages.calls import Approval, ToolError, ToolResult, open_calls
from holdfast.messages.message import UIMessage
from holdfast.rows import AgentRow, MessageRow, Row, RowsCleared, RowsRemoved, TurnRow

Draw = Any


@dataclass
class Rows:
    """A store in four dictionaries: what rows mean, said once more, to compare stores and rebuilds with."""

    agent: AgentRow | None = None
    turns: dict[TurnId, TurnRow] = field(default_factory=dict)
    messages: dict[NodeId, MessageRow] = field(default_factory=dict)

    def apply(self, rows: list[Row]) -> None:
        for row in rows:
            match row:
                case AgentRow():
                    self.agent = row
                case TurnRow():
                    self.turns[row.turn] = row
                case MessageRow():
                    self.messages[row.node] = row
                case RowsRemoved():
                    for node in row.nodes:
                        self.messages.pop(node, None)
                case RowsCleared():
                    self.messages.clear()


@dataclass
class History:
    """An agent's life so far: its state, its log, its rows."""

    rules: Rules = field(default_factory=Rules)
    state: State = field(default_factory=State)
    log: list[tuple[Event, Millis]] = field(default_factory=list)
    rows: Rows = field(default_factory=Rows)
    now: int = 1_000

    def play(self, command: Command) -> list[Event]:
        """Decide, evolve and project as the actor does; a refusal causes nothing."""
        try:
            return self.tell(command)
        except Rejected:
            return []

    def tell(self, command: Command) -> list[Event]:
        """As `play`, but raises what refuses the command."""
        at = Millis(self.now)
        events = decide(self.state, command, at, self.rules)
        for event in events:
            evolve(self.state, event, at)
            self.rows.apply(project(self.state, event))
            self.log.append((event, at))
        return events

    def fresh(self, prefix: str) -> str:
        return f"{prefix}{len(self.log)}-{self.state.last_node}-{self.state.last_turn}"


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
    """Everything a state says, in comparable form."""

    def turn(turn: Turn) -> dict[str, Any]:
        return {
            "accepted": msgspec.json.encode(turn.accepted),
            "status": turn.status,
            "attempt": turn.attempt,
            "chunks": (turn.chunks, turn.transients),
            "message": turn.fold.message().to_dict() if turn.fold is not None else None,
            "ending": (turn.outcome, turn.reason, turn.error, turn.detail, turn.finish_reason, turn.usage),
            "times": (turn.accepted_at, turn.ended_at, turn.hook_due),
        }

    nodes = {n: (p.parent, p.id, p.role, p.at, p.body, p.draft) for n, p in sorted(state.nodes.items())}
    return {
        "agent": (state.generation, state.leaf, state.last_turn, state.last_node),
        "nodes": nodes,
        "open": [turn(t) for t in state.open.values()],
        "ended": [turn(t) for _, t in sorted(state.ended.items())],
        "requests": dict(sorted(state.requests.items())),
    }


POLICIES = st.sampled_from(["queue", "queue", "latest", "merge", "drop", "debounce"])


@st.composite
def histories(draw: Draw, steps: int = 30) -> History:
    """Draw a history of up to `steps` commands."""
    rules = Rules(
        max_attempts=draw(st.sampled_from([2, 5])),
        max_persisted_messages=draw(st.sampled_from([None, None, 3])),
        has_response_hook=draw(st.booleans()),
    )
    history = History(rules)
    for _ in range(draw(st.integers(1, steps))):
        history.now += draw(st.sampled_from([0, 1, 60, 1000]))
        history.play(draw_command(draw, history))
    return history


def draw_command(draw: Draw, history: History) -> Command:
    """Draw what is likely to be asked next, and now and then what is not."""
    state = history.state
    work = wanted(state, Millis(history.now))
    current = state.current
    moves = ["submit", "odd"]
    if work.run is not None and current is None:
        moves += ["begin"] * 6
    if current is not None:
        moves += ["emit"] * 8 + ["finish"] * 2 + ["answer", "cancel", "restart"]
    if any(True for _ in shown_path(state)):
        moves += ["answer", "continue", "submit"]
    match draw(st.sampled_from(moves)):
        case "submit":
            return draw_submit(draw, history)
        case "begin":
            assert work.run is not None
            turn = state.open[work.run]
            if turn.accepted.deferred:
                return Place(turn.id, [user(history.fresh("d"))])
            return Begin(work.run)
        case "restart":
            assert current is not None
            return Begin(current.id, "crash")
        case "emit":
            assert current is not None
            return Emit(current.id, Attempt(current.attempt), emitted(*draw_chunks(draw, current)))
        case "finish":
            assert current is not None
            return draw_finish(draw, current.id, current.attempt)
        case "cancel":
            assert current is not None
            return Cancel(draw(st.sampled_from([current.request, None])))
        case "answer":
            return draw_answer(draw, history)
        case "continue":
            return Continue(RequestId(history.fresh("c")))
    return draw_odd(draw, history)


def draw_finish(draw: Draw, turn: TurnId, attempt: int) -> Finish:
    outcome = draw(st.sampled_from([Outcome.COMPLETED, Outcome.COMPLETED, Outcome.ERROR, Outcome.ABORTED]))
    error = "boom" if outcome is Outcome.ERROR else None
    reason = draw(st.sampled_from([None, "stop", "tool-calls"]))
    return Finish(turn, Attempt(attempt), outcome, error=error, finish_reason=reason)


def draw_submit(draw: Draw, history: History) -> Command:
    state = history.state
    path = [msgspec.json.decode(node.shown) for _, node in shown_path(state) if node.shown is not None]
    shape = draw(st.sampled_from(["append", "append", "append", "prefix", "edit", "same", "stale", "forged", "defer"]))
    messages: list[dict[str, Any]] | None
    match shape:
        case "append":
            messages = [*path, user(history.fresh("u"), draw(st.sampled_from(["a", "b"])))]
        case "prefix":
            messages = path[: draw(st.integers(0, len(path)))]
        case "edit" if path:
            cut = draw(st.integers(1, len(path)))
            messages = [*path[: cut - 1], {**path[cut - 1], "parts": [{"type": "text", "text": history.fresh("e")}]}]
        case "stale" if path:
            messages = [*path[draw(st.integers(0, len(path))) :], user(history.fresh("u"))]
        case "forged":
            messages = [*path, assistant(history.fresh("x")), user(history.fresh("u"))]
        case "defer":
            messages = None
        case _:
            messages = path
    known = sorted(state.requests)
    request = history.fresh("r")
    if known and draw(st.integers(0, 5)) == 0:
        request = draw(st.sampled_from(known))
    return Submit(
        RequestId(request),
        MessageId(history.fresh("a")),
        messages,
        trigger=draw(st.sampled_from(["submit-message", "submit-message", "regenerate-message"])),
        trusted=messages is None or draw(st.integers(0, 4)) == 0,
        policy=Policy(draw(POLICIES), 30),
        origin="s1",
    )


def draw_chunks(draw: Draw, turn: Turn) -> list[dict[str, Any]]:
    """Draw one to three chunks that the turn's message can take."""
    assert turn.fold is not None
    number, open_ids = turn.chunks, list(turn.fold.open_parts.values())
    calls = open_calls(turn.fold.message())
    options: list[list[dict[str, Any]]] = [
        [{"type": "text-start", "id": f"t{number}"}, {"type": "text-delta", "id": f"t{number}", "delta": "one "}],
        [{"type": "start-step"}],
        [{"type": "tool-input-available", "toolCallId": f"k{number}", "toolName": "look", "input": {"a": 1}}],
        [{"type": "data-note", "id": "n", "data": number}],
        [{"type": "data-flash", "data": number, "transient": True}],
        [{"type": "finish", "finishReason": "stop"}],
    ]
    texts = [name for name in open_ids if name.startswith("t")]
    for name in texts:
        options += [[{"type": "text-delta", "id": name, "delta": "more "}]] * 3
        options.append([{"type": "text-end", "id": name}])
    for part in calls:
        call = part["toolCallId"]
        options.append([{"type": "tool-output-available", "toolCallId": call, "output": number}])
        if part["state"] == "input-available":
            options.append([{"type": "tool-approval-request", "toolCallId": call, "approvalId": f"ask-{call}"}])
    return draw(st.sampled_from(options))


def draw_answer(draw: Draw, history: History) -> Command:
    state = history.state
    calls = ["unknown"]
    for turn in state.chat_turns():
        if turn.fold is not None:
            calls += [part["toolCallId"] for part in open_calls(turn.fold.message())] * 2
    for _, node in shown_path(state):
        if node.body is not None and node.role == "assistant":
            calls += [part["toolCallId"] for part in open_calls(UIMessage.decode(node.body))] * 2
    answer = draw(st.sampled_from([ToolResult({"ok": 1}), ToolError("no"), Approval(True), Approval(False, "why")]))
    return Answer(
        CallId(draw(st.sampled_from(calls))),
        answer,
        RequestId(history.fresh("c")),
        auto_continue=draw(st.booleans()),
        owner="pk",
    )


def draw_odd(draw: Draw, history: History) -> Command:
    """Draw what is late, doubled, stale or rare."""
    state = history.state
    turn = TurnId(draw(st.integers(0, state.last_turn + 1)))
    attempt = Attempt(draw(st.integers(0, 3)))
    node = NodeId(draw(st.integers(0, state.last_node + 1)))
    text = {"type": "text-start", "id": "odd"}
    return draw(
        st.sampled_from(
            [
                Begin(turn),
                Emit(turn, attempt, emitted(text)),
                draw_finish(draw, turn, attempt),
                Cancel(RequestId("nobody")),
                Cancel(None),
                Clear("s1"),
                MarkHookDone(turn),
                MoveLeaf(node),
                RemoveMessages([node]),
                OpenStream(RequestId(history.fresh("s")), MessageId("m")),
                PutMessages([user(history.fresh("p")), assistant(history.fresh("q"))]),
                PutMessages([user(history.fresh("p"))], trusted=False),
                Place(turn, [user(history.fresh("d"))]),
            ]
        )
    )


def is_waiting_for_a_person(state: State) -> bool:
    """Whether all that is open are bare streams and continuations that wait for another answer."""
    return all(turn.is_continuation and turn.status is Status.ACCEPTED for turn in state.chat_turns())
