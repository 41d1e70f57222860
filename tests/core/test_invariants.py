"""The invariants of the core, over random histories. No event loop, no database, no clock."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everyword.core.commands import BeginAttempt, EmitChunks, FinishTurn
from everyword.core.decide import decide
from everyword.core.evolve import evolve
from everyword.core.prune import is_redundant, state_is_prunable, turn_is_prunable
from everyword.core.restore import restore
from everyword.core.state import Rules, State
from everyword.core.transcript import Transcript
from everyword.core.wanted import wanted
from everyword.errors import StaleAttempt
from everyword.events import (
    ChatCleared,
    Chunk,
    Event,
    HookDone,
    MessageEnded,
    MessagesRemoved,
    Outcome,
    StateSet,
    TurnAccepted,
    TurnEnded,
    TurnKind,
    decode_event,
    encode_event,
    kind_of,
    turn_of,
)
from everyword.ids import Attempt, Millis, NodeId, RequestId, TurnId
from everyword.log.base import REPLAYED
from tests.core.histories import (
    History,
    Rows,
    emitted,
    fingerprint,
    histories,
    is_waiting_for_a_person,
    refold,
)

MANY = settings(max_examples=250, deadline=None)
FAR = Millis(10**12)


@MANY
@given(histories())
def test_a_turn_ends_at_most_once_and_nothing_of_it_follows(history: History) -> None:
    """P-13."""
    for turn in range(1, history.state.last_turn + 1):
        mine = [event for event, _ in history.log if turn_of(event) == turn]
        ends = [place for place, event in enumerate(mine) if isinstance(event, TurnEnded)]
        assert len(ends) <= 1
        if ends:
            assert all(isinstance(event, HookDone) for event in mine[ends[0] + 1 :])


@MANY
@given(histories())
def test_a_request_id_is_accepted_at_most_once(history: History) -> None:
    """P-16."""
    requests = [event.request for event, _ in history.log if isinstance(event, TurnAccepted)]
    assert len(requests) == len(set(requests))


@MANY
@given(histories())
def test_a_stale_attempt_cannot_speak(history: History) -> None:
    """P-17."""
    state, now = history.state, Millis(history.now)
    for number in range(1, state.last_turn + 2):
        turn = state.open.get(TurnId(number))
        for attempt in map(Attempt, range(8)):
            if turn is not None and turn.attempt == attempt:
                continue
            for command in (
                EmitChunks(TurnId(number), attempt, emitted({"type": "start-step"})),
                FinishTurn(TurnId(number), attempt, Outcome.COMPLETED),
            ):
                with pytest.raises(StaleAttempt):
                    decide(state, command, now, history.rules)


@MANY
@given(histories())
def test_the_state_is_a_fold_of_the_log(history: History) -> None:
    """P-8."""
    written = [(decode_event(encode_event(event)), at) for event, at in history.log]
    assert fingerprint(refold(written)) == fingerprint(history.state)


def streamed(history: History) -> list[tuple[Millis, Event]]:
    """Return the events that the store reads when it loads an agent: chunks and answers of open turns."""
    opened = history.state.open
    return [(at, e) for e, at in history.log if kind_of(e) in REPLAYED and turn_of(e) in opened]


@MANY
@given(histories())
def test_restoring_the_rows_gives_the_state_that_folding_the_log_gives(history: History) -> None:
    rows = history.rows
    turns = sorted(rows.turns.values(), key=lambda row: row.turn)
    messages = sorted(rows.messages.values(), key=lambda row: row.node)
    state, problems = restore(rows.agent, turns, messages, streamed(history), rows.kept.values())
    assert not problems
    assert fingerprint(state) == fingerprint(history.state)


@MANY
@given(histories())
def test_rows_rebuilt_from_the_log_equal_the_rows_written_live(history: History) -> None:
    from everyword.core.project import project

    state, rows = State(), Rows()
    for event, at in history.log:
        evolve(state, event, at)
        rows.apply(project(state, event))
    assert rows == history.rows


@MANY
@given(histories(), st.data())
def test_pruning_is_invisible_to_a_reader_at_any_cursor(history: History, data: st.DataObject) -> None:
    """P-25: a prefix of the log and the pruned rest give the same messages as the whole log."""
    cursor = data.draw(st.integers(0, len(history.log)))
    full, late = Transcript(), Transcript()
    for event, _ in history.log:
        full.apply(event)
    left = [*history.log[:cursor], *_pruned(history)[cursor:]]
    for each in filter(None, left):
        late.apply(each[0])
    assert late.endings == full.endings
    assert late.messages == full.messages
    states = [bytes(each[0].state) for each in left if each is not None and isinstance(each[0], StateSet)]
    assert (states[-1] if states else None) == history.state.value


@MANY
@given(histories())
def test_rows_rebuilt_after_retention_equal_the_written_rows(history: History) -> None:
    """I-9: the end of a turn has the number of its chunks, and the last state is all that is kept of states."""
    from everyword.core.project import project

    state, rows = State(), Rows()
    for event, at in filter(None, _pruned(history)):
        evolve(state, event, at)
        rows.apply(project(state, event))
    assert rows == history.rows


def _pruned(history: History) -> list[tuple[Event, Millis] | None]:
    """Return the log with None for each event that retention deletes in the end."""
    turns = {turn.id: turn_is_prunable(turn.accepted.kind, turn.ended_at, FAR) for turn in history.state.ended.values()}
    left: list[tuple[Event, Millis] | None] = []
    replaced_at: Millis | None = None
    for event, at in reversed(history.log):
        if isinstance(event, StateSet):
            prunable, replaced_at = state_is_prunable(replaced_at, FAR), at
        else:
            prunable = turns.get(turn_of(event), False)  # type: ignore[arg-type]
        left.append(None if is_redundant(event, prunable=prunable) else (event, at))
    return left[::-1]


@MANY
@given(histories())
def test_a_bare_stream_is_never_pruned(history: History) -> None:
    for turn in history.state.ended.values():
        if turn.accepted.kind is TurnKind.RSM:
            assert not turn_is_prunable(turn.accepted.kind, turn.ended_at, FAR)


@MANY
@given(histories(), st.integers(0, 120))
def test_from_any_crash_point_every_turn_ends_or_waits_for_a_person(history: History, cut: int) -> None:
    """The process crashes after any commit, and again at every attempt: the limits end every turn."""
    state, now, steps = refold(history.log[:cut]), history.now, 0
    rules = Rules(max_attempts=history.rules.max_attempts, server_tools=history.rules.server_tools)
    while True:
        now += 10_000
        work = wanted(state, Millis(now))
        if work.stop:
            turn = state.open[work.stop[0]]
            command: FinishTurn | BeginAttempt = FinishTurn(turn.id, Attempt(turn.attempt), Outcome.ABORTED)
        elif (next_turn := work.run or work.calls) is not None:
            turn = state.open[next_turn]
            command = BeginAttempt(turn.id, "crash", calls=RequestId(f"late-{steps}"))
            if turn.accepted.deferred:  # the code that had its messages is gone
                command = FinishTurn(turn.id, Attempt(0), Outcome.ERROR, error="gone")
        else:
            break
        for event in decide(state, command, Millis(now), rules):
            evolve(state, event, Millis(now))
        steps += 1
        assert steps < 500
    assert is_waiting_for_a_person(state)


@MANY
@given(histories())
def test_a_message_ends_as_what_its_chunks_fold_to(history: History) -> None:
    """P-22."""
    seen = Transcript()
    for event, _ in history.log:
        if isinstance(event, MessageEnded) and event.node in seen.messages:
            ended = msgspec.json.decode(bytes(event.message))
            watched = seen.messages[event.node]
            assert [part["type"] for part in ended["parts"]] == [part["type"] for part in watched["parts"]]
            assert [part.get("text") for part in ended["parts"]] == [part.get("text") for part in watched["parts"]]
        seen.apply(event)


@MANY
@given(histories())
def test_no_message_is_lost_unless_a_command_removed_it(history: History) -> None:
    said, removed = set[int](), set[int]()
    for event, _ in history.log:
        if isinstance(event, TurnAccepted):
            said |= {placed.node for placed in event.messages}
        elif isinstance(event, MessagesRemoved):
            removed |= set(event.nodes)
        elif isinstance(event, ChatCleared):
            said, removed = set(), set()
    assert said - removed <= set(history.state.tree.nodes)


@MANY
@given(histories())
def test_the_active_path_is_a_path(history: History) -> None:
    path = history.state.tree.active_path()
    assert len(path) == len(set(path))
    for parent, node in pairwise(path):
        assert history.state.tree.nodes[node].parent == parent


@MANY
@given(histories())
def test_remembered_paths_equal_walked_ones_and_changes_raise_the_revision(
    history: History,
) -> None:
    state, rarely_read, seen = State(), State(), (-1, list[tuple[NodeId, bytes | None]]())
    for number, (event, at) in enumerate(history.log):
        evolve(state, event, at)
        evolve(rarely_read, event, at)
        if number % 4 == 0:
            assert rarely_read.tree.shown_path() == state.tree.shown_path()
            assert rarely_read.tree.active_path() == state.tree.active_path()
            assert rarely_read.tree.known_ids() == state.tree.known_ids()
        assert list(state.tree.active_path()) == list(state.tree.ancestors(state.tree.leaf))[::-1]
        shown = [(node, place.shown) for node, place in state.tree.shown_path()]
        assert shown == [(n, s) for n in state.tree.active_path() if (s := state.tree.nodes[n].shown) is not None]
        assert state.tree.revision != seen[0] or shown == seen[1]
        assert state.hooks_due == {turn.id for turn in state.ended.values() if turn.hook_due}
        seen = state.tree.revision, shown
        for node in state.tree.nodes:  # reading other paths in between changes nothing
            assert [n for n, _ in state.tree.shown_path(node)] == [
                n for n in list(state.tree.ancestors(node))[::-1] if state.tree.nodes[n].shown is not None
            ]


@MANY
@given(histories())
def test_at_most_one_chat_turn_runs_and_indexes_have_no_gap(history: History) -> None:
    """P-21."""
    begun = [turn for turn in history.state.chat_turns() if turn.attempt > 0]
    assert len(begun) <= 1
    for turn in range(1, history.state.last_turn + 1):
        indexes = [e.index for e, _ in history.log if isinstance(e, Chunk) and e.turn == turn]
        assert indexes == list(range(len(indexes)))
