"""The table of transitions: every row is used, and an event without a row is refused."""

from __future__ import annotations

from typing import get_args

import pytest
from msgspec import Raw

from everyword.core.commands import MarkHookDone, RecordCallStart
from everyword.core.evolve import evolve
from everyword.core.state import State
from everyword.core.transitions import TRANSITIONS, TurnStatus, next_status
from everyword.events import (
    AgentCreated,
    AgentDestroyed,
    ApprovalRequested,
    AttemptDelayed,
    AttemptInterrupted,
    AttemptStarted,
    CallAnswered,
    CallStarted,
    CancelRequested,
    ChatCleared,
    Chunk,
    ConversationChanged,
    ConversationRead,
    Event,
    FiberEnded,
    FiberPaused,
    FiberStarted,
    FiberStashed,
    HookDone,
    JobAdded,
    JobEnded,
    JobStarted,
    LeafMoved,
    MessageEnded,
    MessageReplaced,
    MessagesPut,
    MessagesRemoved,
    Outcome,
    Placed,
    RunEnded,
    RunStarted,
    RunTold,
    ShareCreated,
    ShareRevoked,
    StateSet,
    TurnAccepted,
    TurnEnded,
    TurnKind,
    TurnRetargeted,
    turn_of,
)
from everyword.ids import Attempt, CallId, Generation, MessageId, Millis, NodeId, RequestId, TurnId
from everyword.messages.tool_calls import OutputAnswer
from tests.core.histories import user
from tests.core.stage import Stage, call, open_text, stage, text

TURN, NODE, NULL, NOW = TurnId(1), NodeId(2), Raw(b"null"), Millis(0)
MESSAGE = Raw(b'{"id":"a-r1","role":"assistant","parts":[]}')

EVENTS: list[Event] = [
    TurnAccepted(TURN, RequestId("r1"), TurnKind.CHAT, Generation(0), NODE, None, MessageId("a-r1")),
    TurnRetargeted(TURN, NODE, MessageId("a-r1"), NOW),
    AttemptStarted(TURN, Attempt(1)),
    AttemptDelayed(TURN, Attempt(2), "crash"),
    AttemptInterrupted(TURN, Attempt(1)),
    Chunk(TURN, Attempt(1), 0, Raw(b'{"type":"start-step"}')),
    CallStarted(TURN, Attempt(1), CallId("k1"), "find"),
    CallAnswered(NODE, CallId("k1"), "result", NULL, turn=TURN),
    MessageEnded(TURN, NODE, MESSAGE),
    CancelRequested(TURN),
    TurnEnded(TURN, Outcome.COMPLETED),
    HookDone(TURN),
    MessagesPut([Placed(NodeId(9), None, MessageId("m"), "user", NULL)], turn=TURN),
]
"""One event of every kind that belongs to a turn."""

OF_NO_TURN = {MessageReplaced, MessagesRemoved, LeafMoved, ChatCleared, StateSet, JobAdded, JobStarted, JobEnded}
OF_NO_TURN |= {AgentDestroyed, FiberStarted, FiberStashed, FiberPaused, FiberEnded}
OF_NO_TURN |= {ApprovalRequested, ConversationChanged, ConversationRead}  # they change no status
OF_NO_TURN |= {ShareCreated, ShareRevoked}
OF_NO_TURN |= {AgentCreated, RunStarted, RunEnded, RunTold}
ROWS = [(status, kind) for status, row in TRANSITIONS.items() for kind in row]


def a_life() -> Stage:
    """A conversation in which everything happens that can happen to a turn."""
    told = stage(has_response_hook=True)
    told.ask("r1", user("u1"))
    told.begin(1)
    told.emit(1, call("k1"), call("k2"), call("k3"), call("k4"), *open_text("half"))
    told.tell(RecordCallStart(TURN, Attempt(1), CallId("k4"), "find"))
    told.answer("k1", OutputAnswer(1), "c1")  # turn 2 waits
    told.answer("k2", OutputAnswer(1), "c2")  # and is retargeted
    told.delay(1, "crash")
    told.begin(1, "crash")
    told.interrupt(1, attempt=2)
    told.begin(1)
    told.cancel("r1")
    told.answer("k3", OutputAnswer(1), auto_continue=False)
    told.emit(1, *text("late", "t2"), attempt=3)
    told.finish(1, attempt=3)
    told.tell(MarkHookDone(TURN))
    told.defer("r3")
    told.place(3, user("d1"))
    told.begin(3)
    told.emit(3, *text("ok"))
    told.finish(3)
    told.cancel("c1")
    return told


def walked(told: Stage) -> set[tuple[TurnStatus | None, type[Event]]]:
    """The rows of the table that a log used."""
    used: set[tuple[TurnStatus | None, type[Event]]] = set()
    statuses: dict[TurnId, TurnStatus] = {}
    for event, _ in told.log:
        turn = turn_of(event)
        if turn is None:
            continue
        before = statuses.get(turn)
        used.add((before, type(event)))
        statuses[turn] = next_status(before, event)
    return used


@pytest.mark.obligation("000-5.1")
def test_every_row_of_the_table_happens_and_nothing_happens_without_a_row() -> None:
    assert walked(a_life()) == set(ROWS)


def test_every_kind_of_event_is_either_in_the_table_or_of_no_turn() -> None:
    assert {kind for _, kind in ROWS} == set(get_args(Event)) - OF_NO_TURN
    assert {type(event) for event in EVENTS} == {kind for _, kind in ROWS}


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
@pytest.mark.parametrize("status", [None, *TurnStatus], ids=str)
def test_what_has_no_row_is_refused_and_what_has_one_leads_where_it_says(
    status: TurnStatus | None, event: Event
) -> None:
    row = TRANSITIONS[status]
    if type(event) in row:
        assert next_status(status, event) is row[type(event)]
    else:
        with pytest.raises(AssertionError, match="illegal"):
            next_status(status, event)


@pytest.mark.obligation("000-5.1")
def test_an_ended_turn_never_changes_its_status_again() -> None:
    assert set(TRANSITIONS[TurnStatus.ENDED].values()) == {TurnStatus.ENDED}
    assert set(TRANSITIONS[TurnStatus.ENDED]) == {HookDone}


def test_only_an_end_ends_a_turn_and_it_can_end_from_anywhere() -> None:
    enders = {
        kind
        for status, kind in ROWS
        if TRANSITIONS[status][kind] is TurnStatus.ENDED and status is not TurnStatus.ENDED
    }
    assert enders == {TurnEnded}
    assert all(
        TurnEnded in TRANSITIONS[status] for status in (TurnStatus.ACCEPTED, TurnStatus.RUNNING, TurnStatus.CANCELLING)
    )


def at(status: TurnStatus) -> Stage:
    """A turn in this status, with a call of a server tool."""
    told = stage()
    told.ask("r1", user("u1"))
    if status is not TurnStatus.ACCEPTED:
        told.begin(1)
        told.emit(1, call("k1"))
    if status is TurnStatus.CANCELLING:
        told.cancel("r1")
    if status is TurnStatus.ENDED:
        told.finish(1)
    return told


ILLEGAL = [
    (status, event)
    for status in TurnStatus
    for event in EVENTS
    # An answer that names an ended turn is an answer to the stored message; an acceptance is asserted on its own.
    if type(event) not in TRANSITIONS[status] and not isinstance(event, TurnAccepted | CallAnswered | MessagesPut)
]


@pytest.mark.parametrize(("status", "event"), ILLEGAL, ids=lambda value: getattr(value, "name", type(value).__name__))
def test_evolve_refuses_loudly_what_decide_can_never_have_made(status: TurnStatus, event: Event) -> None:
    told = at(status)
    with pytest.raises(AssertionError, match="illegal"):
        evolve(told.state, event, Millis(told.now))


OTHERS = [event for event in EVENTS if not isinstance(event, TurnAccepted | CallAnswered | MessagesPut)]


@pytest.mark.parametrize("event", OTHERS, ids=lambda event: type(event).__name__)
def test_evolve_refuses_events_of_a_turn_that_was_never_accepted(event: Event) -> None:
    with pytest.raises(AssertionError, match="unknown turn"):
        evolve(State(), event, NOW)


@pytest.mark.parametrize("status", list(TurnStatus), ids=str)
def test_evolve_refuses_to_accept_a_turn_twice(status: TurnStatus) -> None:
    told = at(status)
    with pytest.raises(AssertionError, match="accepted once"):
        evolve(told.state, EVENTS[0], Millis(told.now))
