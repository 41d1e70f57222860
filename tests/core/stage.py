"""A conversation step by step: a short method for each command, and the results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from everyword.core.commands import (
    AnswerToolCall,
    BeginAttempt,
    CancelTurns,
    ClearConversation,
    ContinueTurn,
    DelayAttempt,
    EmitChunks,
    FinishTurn,
    InterruptAttempt,
    MoveLeaf,
    OpenStream,
    PlaceMessages,
    Policy,
    PutMessages,
    RemoveMessages,
    Submit,
)
from everyword.core.restore import restore
from everyword.core.state import Rules, State
from everyword.core.wanted import Wanted, wanted
from everyword.events import (
    AttemptCause,
    Chunk,
    Event,
    MessageEnded,
    Outcome,
    TurnAccepted,
    TurnEnded,
    kind_of,
    turn_of,
)
from everyword.ids import Attempt, CallId, MessageId, Millis, NodeId, RequestId, TurnId
from everyword.log.base import REPLAYED
from everyword.messages.server_fields import fields_of, without_fields
from everyword.messages.tool_calls import CallAnswer
from tests.core.histories import History, emitted, user

E = TypeVar("E")
JsonObject = dict[str, Any]


@dataclass
class Stage(History):
    """An agent that takes commands. Every method returns the events that it caused, or raises the refusal.

    A turn asked for with request `r` answers under the message id `a-r`. Turns and nodes count from 1: of a first
    question and its answer, the question is node 1 and the answer node 2.
    """

    # -- asking --------------------------------------------------------------------------------------------

    def ask(self, request: str, *messages: JsonObject, policy: str = "queue", **options: Any) -> list[Event]:
        return self.tell(
            Submit(
                RequestId(request),
                MessageId(f"a-{request}"),
                list(messages),
                policy=Policy(policy),  # type: ignore[arg-type]
                **options,
            )
        )

    def defer(self, request: str) -> list[Event]:
        return self.tell(Submit(RequestId(request), MessageId(f"a-{request}"), None, trusted=True))

    def place(self, turn: int, *messages: JsonObject) -> list[Event]:
        return self.tell(PlaceMessages(TurnId(turn), list(messages)))

    def go_on(self, request: str, **options: Any) -> list[Event]:
        return self.tell(ContinueTurn(RequestId(request), **options))

    def open_stream(self, request: str) -> list[Event]:
        return self.tell(OpenStream(RequestId(request), MessageId(f"a-{request}")))

    def answer(self, call: str, answer: CallAnswer, continuation: str = "c", **options: Any) -> list[Event]:
        return self.tell(AnswerToolCall(CallId(call), answer, RequestId(continuation), **options))

    def cancel(self, request: str | None = None, by: str | None = None) -> list[Event]:
        return self.tell(CancelTurns(RequestId(request) if request is not None else None, by))

    def clear(self, origin: str | None = None) -> list[Event]:
        return self.tell(ClearConversation(origin))

    def put(self, *messages: JsonObject, **options: Any) -> list[Event]:
        return self.tell(PutMessages(list(messages), **options))

    def remove(self, *nodes: int) -> list[Event]:
        return self.tell(RemoveMessages([NodeId(node) for node in nodes]))

    def show(self, node: int) -> list[Event]:
        return self.tell(MoveLeaf(NodeId(node)))

    # -- running -------------------------------------------------------------------------------------------

    def begin(self, turn: int, cause: AttemptCause = "first", *, fresh: bool = False) -> list[Event]:
        return self.tell(BeginAttempt(TurnId(turn), cause, fresh, calls=RequestId(f"calls-{turn}")))

    def delay(self, turn: int, cause: AttemptCause = "retry", *, attempt: int = 1) -> list[Event]:
        return self.tell(DelayAttempt(TurnId(turn), Attempt(attempt), cause))

    def interrupt(self, turn: int, *, attempt: int = 1) -> list[Event]:
        return self.tell(InterruptAttempt(TurnId(turn), Attempt(attempt)))

    def emit(self, turn: int, *chunks: JsonObject, attempt: int = 1) -> list[Event]:
        return self.tell(EmitChunks(TurnId(turn), Attempt(attempt), emitted(*chunks)))

    def finish(
        self, turn: int, outcome: Outcome = Outcome.COMPLETED, *, attempt: int = 1, **options: Any
    ) -> list[Event]:
        return self.tell(FinishTurn(TurnId(turn), Attempt(attempt), outcome, **options))

    def run(self, turn: int, *chunks: JsonObject, finish_reason: str = "stop") -> list[Event]:
        """Begin, emit and complete a turn; returns the events of its end."""
        self.begin(turn)
        self.emit(turn, *chunks)
        return self.finish(turn, finish_reason=finish_reason)

    def talk(self, request: str, question: str, reply: str = "fine") -> None:
        """Ask one question and answer it."""
        (accepted,) = pick(TurnAccepted, self.ask(request, user(question)))
        self.run(accepted.turn, *text(reply))

    def wait(self, milliseconds: int) -> None:
        self.now += milliseconds

    # -- looking -------------------------------------------------------------------------------------------

    @property
    def path(self) -> list[str]:
        """The ids of the messages that are shown."""
        return [node.id for _, node in self.state.tree.shown_path()]

    def message(self, node: int) -> JsonObject:
        """The message that is stored at a node, without the server's fields."""
        return without_fields(self.stored(node))

    def stored(self, node: int) -> JsonObject:
        """The message that is stored at a node."""
        body = self.state.tree.nodes[NodeId(node)].body
        assert body is not None, f"node {node} has no message"
        return decoded(body)

    def fields(self, node: int) -> JsonObject | None:
        """The server's fields of the message that is stored at a node."""
        return fields_of(self.stored(node))

    def draft(self, node: int) -> JsonObject | None:
        draft = self.rows.messages[NodeId(node)].draft
        return decoded(draft) if draft is not None else None

    def said(self) -> list[str]:
        """The texts of the messages that are shown."""
        return [text_of(decoded(node.shown or b"")) for _, node in self.state.tree.shown_path()]

    def wanted(self) -> Wanted:
        return wanted(self.state, Millis(self.now))

    def restored(self) -> tuple[State, list[str]]:
        """Return the state and the problems when the agent is loaded from its rows and the events of open turns."""
        opened = self.state.open
        streamed = [(at, e) for e, at in self.log if kind_of(e) in REPLAYED and turn_of(e) in opened]
        turns = sorted(self.rows.turns.values(), key=lambda row: row.turn)
        messages = sorted(self.rows.messages.values(), key=lambda row: row.node)
        state, problems = restore(self.rows.agent, turns, messages, streamed, list(self.rows.kept.values()))
        return state, list(problems)


def stage(**rules: Any) -> Stage:
    """An empty agent under these rules."""
    return Stage(Rules(**rules))


def pick(kind: type[E], events: list[Event]) -> list[E]:
    """The events of one kind, in order."""
    return [event for event in events if isinstance(event, kind)]


def the(kind: type[E], events: list[Event]) -> E:
    """The one event of a kind."""
    (event,) = pick(kind, events)
    return event


def kinds(events: list[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def chunks_of(events: list[Event]) -> list[JsonObject]:
    return [decoded(bytes(event.body)) for event in pick(Chunk, events)]


def ended_message(events: list[Event]) -> JsonObject:
    return decoded(bytes(the(MessageEnded, events).message))


def endings(events: list[Event]) -> list[tuple[int, str, str | None]]:
    """(turn, outcome, reason) of every turn that ended."""
    return [(event.turn, event.outcome.value, event.reason) for event in pick(TurnEnded, events)]


def decoded(body: bytes) -> JsonObject:
    value: JsonObject = msgspec.json.decode(body)
    return value


def text_of(message: JsonObject) -> str:
    return "".join(part["text"] for part in message["parts"] if part["type"] == "text")


# -- chunks ------------------------------------------------------------------------------------------------


def text(words: str, name: str = "t") -> list[JsonObject]:
    """A whole text part."""
    return [*open_text(words, name), {"type": "text-end", "id": name}]


def open_text(words: str, name: str = "t") -> list[JsonObject]:
    """A text part that is not ended."""
    return [{"type": "text-start", "id": name}, {"type": "text-delta", "id": name, "delta": words}]


def call(name: str) -> JsonObject:
    """A tool call that waits for its result."""
    return {"type": "tool-input-available", "toolCallId": name, "toolName": "look", "input": {}}


def approval(name: str) -> JsonObject:
    """An approval request for a call."""
    return {"type": "tool-approval-request", "toolCallId": name, "approvalId": f"ask-{name}"}


def states(message: JsonObject) -> dict[str, str]:
    """The state of every call of a message."""
    return {part["toolCallId"]: part["state"] for part in message["parts"] if "toolCallId" in part}
