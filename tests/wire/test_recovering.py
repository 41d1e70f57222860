"""`cf_agent_chat_recovering`: from the end of an attempt to the next one's first word or the end; once, and on connect.

The page shows it as `isRecovering`. It is a fold of the log (R-17): whoever comes whenever is told the same.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from everyword.core.replay import TurnReplay
from everyword.events import AttemptDelayed, AttemptStarted, ChatCleared, Chunk, Event, Outcome, TurnEnded, TurnKind
from everyword.ids import Attempt, Generation, RequestId, Seq, TurnId
from everyword.wire.connection_turns import ConnectionTurn
from tests.wire.kit import Tab, Told, accepted, decoded, ended, kinds, known, message_ended

TRUE = {"type": "cf_agent_chat_recovering", "recovering": True, "id": "r1"}
FALSE = {"type": "cf_agent_chat_recovering", "recovering": False, "id": "r1"}


def begun(attempt: int, turn: int = 1, cause: str = "crash") -> AttemptStarted:
    return AttemptStarted(TurnId(turn), Attempt(attempt), cause if attempt > 1 else "first")  # type: ignore[arg-type]


def delayed(attempt: int, turn: int = 1, cause: str = "retry") -> AttemptDelayed:
    return AttemptDelayed(TurnId(turn), Attempt(attempt), cause)  # type: ignore[arg-type]


def word(index: int, attempt: int = 1, turn: int = 1) -> Chunk:
    return Chunk(TurnId(turn), Attempt(attempt), index, Raw(b'{"type":"text-delta","id":"t","delta":"x"}'))


def watching(*events: Event) -> Tab:
    """A tab that has seen a first attempt say a word."""
    return Tab(accepted(origin="other"), begun(1), word(0), *events)


def recovering(frames: list[dict[str, Any]]) -> list[bool]:
    return [frame["recovering"] for frame in frames if frame["type"] == "cf_agent_chat_recovering"]


# -- live -----------------------------------------------------------------------------------------------------------


def test_a_first_attempt_is_no_recovery() -> None:
    assert recovering(watching(word(1), message_ended(), ended()).frames) == []


@pytest.mark.parametrize("cause", ["crash", "stall", "retry"])
def test_a_second_attempt_is_told_and_its_first_word_takes_it_back_before_it_is_shown(cause: str) -> None:
    tab = watching()
    assert tab.happens(begun(2, cause=cause)) == [TRUE]
    frames = tab.happens(word(1, attempt=2), word(2, attempt=2))
    assert frames[0] == FALSE
    assert kinds(frames) == ["chat_recovering", "chunk", "chunk"]


def test_an_attempt_that_comes_later_is_told_when_that_is_known_and_not_again_when_it_comes() -> None:
    tab = watching()
    assert tab.happens(delayed(2)) == [TRUE]
    assert tab.happens(begun(2), delayed(3), begun(3)) == []
    assert recovering(tab.happens(word(1, attempt=3))) == [False]


def test_a_turn_that_is_stopped_while_it_waits_to_be_tried_again_is_not_recovering_any_more() -> None:
    tab = watching(delayed(2))
    assert recovering(tab.happens(message_ended(), ended(Outcome.ABORTED))) == [False]


def test_attempts_that_die_one_after_the_other_are_one_recovery() -> None:
    tab = watching(begun(2))
    assert tab.happens(begun(3), begun(4)) == []
    assert recovering(tab.happens(word(1, attempt=4), word(2, attempt=4))) == [False]


def test_an_attempt_that_spoke_and_died_is_a_recovery_of_its_own() -> None:
    tab = watching(begun(2), word(1, attempt=2))
    assert recovering(tab.happens(begun(3), word(2, attempt=3))) == [True, False]


@pytest.mark.parametrize("outcome", [Outcome.COMPLETED, Outcome.ERROR, Outcome.ABORTED])
def test_an_end_without_a_further_word_takes_it_back_after_the_end(outcome: Outcome) -> None:
    tab = watching(begun(2))
    frames = tab.happens(message_ended(), ended(outcome, error="gone" if outcome is Outcome.ERROR else None))
    assert recovering(frames) == [False]
    assert kinds(frames).index("done") < kinds(frames).index("chat_recovering")


def test_the_asking_client_gets_the_recovery_like_all_others() -> None:
    tab = Tab(accepted(origin="me"), begun(1), word(0))
    assert tab.happens(begun(2)) == [TRUE]
    assert kinds(tab.happens(word(1, attempt=2))) == ["chat_recovering", "chunk"]


def test_a_clear_takes_it_back() -> None:
    tab = watching(begun(2))
    cleared = [ended(Outcome.ABORTED, reason="cleared"), ChatCleared(Generation(1))]
    frames = tab.happens(*cleared)
    assert recovering(frames) == [False]
    assert kinds(frames)[-1] == "chat_clear"


def test_a_stream_that_is_not_of_the_chat_is_no_recovery() -> None:
    tab = Tab(accepted(kind=TurnKind.RSM))
    assert tab.happens(begun(1), delayed(2), begun(2)) == []


# -- offered and parked ---------------------------------------------------------------------------------------------


def test_a_client_with_an_offer_gets_the_recovery_and_nothing_else() -> None:
    tab = watching()
    tab.asks()
    assert tab.happens(begun(2)) == [TRUE]
    assert tab.happens(word(1, attempt=2), word(2, attempt=2)) == [FALSE]


def test_a_parked_client_gets_the_recovery_and_then_the_offer() -> None:
    tab = Tab(accepted(origin="other"), begun(1))
    tab.asks()
    assert tab.happens(begun(2)) == [TRUE]
    frames = tab.happens(word(0, attempt=2))
    assert frames == [FALSE, {"type": "cf_agent_stream_resuming", "id": "r1"}]
    assert tab.happens(word(1, attempt=2)) == []


def test_a_parked_client_is_released_when_the_turn_is_given_up() -> None:
    tab = Tab(accepted(origin="other"), begun(1))
    tab.asks()
    frames = tab.happens(begun(2), ended(Outcome.ERROR, error="given up", reason="attempts-exhausted"))
    assert recovering(frames) == [True, False]
    assert kinds(frames)[-1] == "resuming", "the client drops a bare error frame"


def test_a_word_that_only_the_replay_shows_takes_it_back_once() -> None:
    tab = watching()
    tab.asks()
    tab.happens(begun(2))
    tab.view.replayed(TurnReplay(Seq(9), RequestId("r1"), [(None, b"{}")]))
    passed = decoded(tab.view.passed(Told(word(1, attempt=2)), RequestId("r1")))
    assert passed == [FALSE]
    assert decoded(tab.view.passed(Told(word(2, attempt=2)), RequestId("r1"))) == []
    assert kinds(tab.happens(word(3, attempt=2))) == ["chunk"]


def test_a_turn_that_ended_before_its_replay_leaves_no_client_recovering() -> None:
    tab = watching(begun(2))
    tab.asks()
    tab.view.replayed(TurnReplay(Seq(9), RequestId("r1"), [(None, b"{}")], outcome=Outcome.COMPLETED))
    assert recovering(tab.happens(word(1, attempt=2), message_ended(), ended())) == [False]


# -- on connect -------------------------------------------------------------------------------------------------------


def test_a_new_connection_is_told_while_it_lasts_and_not_again_when_the_next_attempt_starts() -> None:
    tab = Tab(open=[known(has_chunks=True, recovers_with=2)])
    assert decoded(tab.view.connected()) == [{"type": "cf_agent_stream_resuming", "id": "r1"}, TRUE]
    assert tab.happens(begun(3)) == []
    assert tab.happens(word(5, attempt=3)) == [FALSE]


def test_a_new_connection_is_told_of_a_turn_that_died_before_its_first_word() -> None:
    tab = Tab(open=[known(recovers_with=2)])
    frames = decoded(tab.view.connected())
    assert kinds(frames) == ["pending", "chat_messages", "chat_recovering"]
    assert frames[-1] == TRUE


def test_a_new_connection_is_told_of_a_continuation_that_belongs_to_another_client() -> None:
    owned = ConnectionTurn(
        TurnId(1), RequestId("r1"), known().node, True, owner="pk-other", has_chunks=True, recovers_with=2
    )
    tab = Tab(open=[owned], present=("pk-other",))
    assert decoded(tab.view.connected()) == [TRUE]
    assert kinds(tab.happens(word(3, attempt=2))) == ["chat_recovering"]


@pytest.mark.parametrize("open_turns", [[], [known()], [known(has_chunks=True)]])
def test_a_new_connection_hears_nothing_of_recovery_when_there_is_none(open_turns: list[ConnectionTurn]) -> None:
    assert recovering(decoded(Tab(open=open_turns).view.connected())) == []


@pytest.mark.parametrize("open_turns", [[], [known()], [known(has_chunks=True)]])
def test_a_new_connection_is_told_that_a_recovery_is_over_whose_end_it_may_have_missed(
    open_turns: list[ConnectionTurn],
) -> None:
    tab = Tab(open=open_turns, recovered=RequestId("r0"))
    assert decoded(tab.view.connected())[-1] == {**FALSE, "id": "r0"}


def test_a_new_connection_is_not_told_that_a_recovery_is_over_while_another_lasts() -> None:
    tab = Tab(open=[known(has_chunks=True, recovers_with=2)], recovered=RequestId("r1"))
    assert recovering(decoded(tab.view.connected())) == [True]


# -- whatever happens -------------------------------------------------------------------------------------------------


@st.composite
def lives(draw: st.DrawFn) -> list[Event]:
    """Draw a few turns, one after the other, whose attempts die, speak, or end."""
    events: list[Event] = []
    for turn in range(1, draw(st.integers(1, 3)) + 1):
        events.append(accepted(turn, origin=draw(st.sampled_from(["me", "other"]))))
        index = 0
        for attempt in range(1, draw(st.integers(1, 4)) + 1):
            if attempt > 1 and draw(st.booleans()):
                events.append(delayed(attempt, turn))
            events.append(begun(attempt, turn))
            for _ in range(draw(st.integers(0, 2))):
                events.append(word(index, attempt, turn))
                index += 1
        outcome = draw(st.sampled_from([Outcome.COMPLETED, Outcome.ERROR, Outcome.ABORTED]))
        if index:
            events.append(message_ended(turn))
        events.append(ended(outcome, turn, error="gone" if outcome is Outcome.ERROR else None))
    return events


def folded(events: list[Event]) -> tuple[list[ConnectionTurn], bool]:
    """Return what a snapshot has of the open turn, and whether it recovers: said apart from the machine under test."""
    here: ConnectionTurn | None = None
    for event in events:
        if isinstance(event, AttemptStarted | AttemptDelayed) and here is not None:
            here.recovers_with = event.attempt if event.attempt > 1 else None
        elif isinstance(event, Chunk) and here is not None:
            here.has_chunks, here.recovers_with = True, None
        elif isinstance(event, TurnEnded):
            here = None
        elif type(event).__name__ == "TurnAccepted":
            here = ConnectionTurn(event.turn, event.request, event.node, False, origin=event.origin)  # type: ignore[union-attr]
    return ([here] if here is not None else []), here is not None and here.recovers_with is not None


@given(lives(), st.data())
def test_every_client_knows_after_every_event_whether_the_answer_recovers(
    events: list[Event], data: st.DataObject
) -> None:
    arrival = data.draw(st.integers(0, len(events)))
    acts = data.draw(st.lists(st.sampled_from(["", "", "ask", "ack"]), min_size=len(events), max_size=len(events)))
    snapshot, _ = folded(events[:arrival])
    tab = Tab(open=snapshot)
    told = recovering(decoded(tab.view.connected()))
    for place in range(arrival, len(events)):
        told += recovering(tab.happens(events[place]))
        _, ought = folded(events[: place + 1])
        assert (told[-1] if told else False) is ought, json.dumps(told)
        if acts[place] == "ask":
            tab.asks()
        elif acts[place] == "ack" and (here := folded(events[: place + 1])[0]):
            tab.view.replayed(TurnReplay(Seq(place), here[0].request))
    assert all(one is not other for one, other in pairwise(told)), "a change is told once"
