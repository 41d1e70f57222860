"""The views of one agent must agree after every command: what is shown, wanted, stored and observed."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from hypothesis import given, settings

from everyword.core.commands import (
    BeginAttempt,
    ClearConversation,
    Command,
    FinishTurn,
    MoveLeaf,
    PlaceMessages,
    RemoveMessages,
    Submit,
)
from everyword.core.decide import decide
from everyword.core.project import all_rows
from everyword.core.state import State
from everyword.core.transcript import Transcript
from everyword.core.tree import Tree
from everyword.core.wanted import wanted
from everyword.events import AttemptStarted, Event, MessagesRemoved, Outcome, TurnAccepted
from everyword.ids import Attempt, Millis, NodeId, RequestId
from tests.core.histories import History, Rows, histories

MANY = settings(max_examples=150, deadline=None)


def again(history: History) -> Iterator[tuple[Command, list[Event], History]]:
    """Repeat a history; yield after every command."""
    twin = History(history.rules)
    for now, command in history.told:
        twin.now = now
        yield command, twin.play(command), twin


def shown_nodes(state: State) -> list[NodeId]:
    return [node for node, _ in state.tree.shown_path()]


@MANY
@given(histories())
def test_what_is_wanted_can_be_done(history: History) -> None:
    """Otherwise the runtime would try for ever."""
    for _, _, twin in again(history):
        state, now = twin.state, Millis(twin.now)
        work = wanted(state, now)
        for turn in work.stop:
            attempt = Attempt(state.open[turn].attempt)
            assert decide(state, FinishTurn(turn, attempt, Outcome.ABORTED), now, twin.rules)
        for wanted_turn in (work.run, work.calls):
            if wanted_turn is not None:
                deferred = state.open[wanted_turn].accepted.deferred
                begin = BeginAttempt(wanted_turn, "crash", calls=RequestId(twin.fresh("l")))
                assert decide(state, PlaceMessages(wanted_turn, []) if deferred else begin, now, twin.rules)


@MANY
@given(histories())
def test_what_is_remembered_of_the_branch_is_what_a_walk_finds(history: History) -> None:
    for _, _, twin in again(history):
        state = twin.state
        unwalked = State(tree=Tree(dict(state.tree.nodes), state.tree.leaf))
        assert list(state.tree.active_path()) == list(unwalked.tree.active_path())
        assert list(state.tree.shown_path()) == list(unwalked.tree.shown_path())
        assert state.tree.known_ids() == {node.id for node in state.tree.nodes.values()}


@MANY
@given(histories())
def test_no_message_id_is_shown_twice(history: History) -> None:
    for _, _, twin in again(history):
        ids = [node.id for _, node in twin.state.tree.shown_path()]
        assert len(ids) == len(set(ids))


@MANY
@given(histories())
def test_only_clearing_removing_and_branching_hide_what_was_shown(history: History) -> None:
    before: list[NodeId] = []
    for command, events, twin in again(history):
        gone = {node for event in events if isinstance(event, MessagesRemoved) for node in event.nodes}
        after = shown_nodes(twin.state)
        if not _may_hide(command, events, twin.state):
            stays = [node for node in before if node not in gone]
            assert [node for node in after if node in set(stays)] == stays
        before = after


def _may_hide(command: Command, events: list[Event], state: State) -> bool:
    if isinstance(command, ClearConversation | RemoveMessages | MoveLeaf):
        return True
    if any(isinstance(event, MessagesRemoved) and event.cause == "cap" for event in events):
        return True
    if any(isinstance(event, AttemptStarted) and event.fresh for event in events):
        return True  # the draft is discarded with the answer
    placed = [placed for event in events if isinstance(event, TurnAccepted) for placed in event.messages]
    older = {node.id for number, node in state.tree.nodes.items() if not placed or number < placed[0].node}
    return isinstance(command, Submit) and (not placed or any(each.id in older for each in placed))


@MANY
@given(histories())
def test_the_rows_written_bit_by_bit_are_those_that_the_state_implies(history: History) -> None:
    for _, events, twin in again(history):
        if not events:
            continue
        implied = Rows()
        implied.apply(all_rows(twin.state))
        assert implied.turns == twin.rows.turns
        assert implied.messages == twin.rows.messages
        assert twin.rows.agent in (None, implied.agent)


@MANY
@given(histories())
def test_what_an_observer_saw_of_the_log_is_what_is_kept(history: History) -> None:
    seen, state = Transcript(), history.state
    for event, _ in history.log:
        seen.apply(event)
    written = {turn.node for turn in state.message_turns() if turn.fold is not None}
    kept = {node: msgspec.json.decode(place.body) for node, place in state.tree.nodes.items() if place.body is not None}
    assert {node: message for node, message in seen.messages.items() if node not in written} == {
        node: message for node, message in kept.items() if node not in written
    }
