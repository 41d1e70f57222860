"""What happens to a submit that overlaps open turns, decided when it is accepted (R-7)."""

from __future__ import annotations

from typing import Any

import pytest

from everyword.events import MessagesRemoved, TurnAccepted, TurnKind
from tests.core.histories import user
from tests.core.stage import Stage, endings, kinds, stage, text, text_of, the

SKIPPED = ("skipped", "superseded")


def busy(**rules: Any) -> Stage:
    """u1 (node 1) is being answered (turn 1, node 2)."""
    told = stage(**rules)
    told.ask("r1", user("u1"))
    told.begin(1)
    return told


def waiting(policy: str) -> Stage:
    """As `busy`, and u2 (node 3, answer 4) waits as turn 2."""
    told = busy()
    told.ask("r2", user("u2", "two"), policy=policy)
    return told


# -- every policy ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["queue", "latest", "merge", "drop"])
def test_a_submit_that_overlaps_nothing_simply_runs(policy: str) -> None:
    told = stage()
    accepted = the(TurnAccepted, told.ask("r1", user("u1"), policy=policy))
    assert (accepted.not_before, accepted.dropped) == (None, False)
    assert told.wanted().run == 1


@pytest.mark.parametrize("policy", ["queue", "latest", "merge", "debounce"])
def test_the_running_turn_is_never_superseded(policy: str) -> None:
    told = busy()
    told.ask("r2", user("u2"), policy=policy)
    assert told.state.current is not None
    assert told.state.current.id == 1


@pytest.mark.parametrize("policy", ["latest", "merge", "drop", "debounce"])
def test_bare_streams_overlap_nothing(policy: str) -> None:
    told = stage()
    told.open_stream("s1")
    told.begin(1)
    assert kinds(told.ask("r1", user("u1"), policy=policy)) == ["TurnAccepted"]
    assert told.path == ["u1"]


@pytest.mark.parametrize("policy", ["latest", "merge", "debounce"])
def test_a_waiting_regeneration_is_never_superseded(policy: str) -> None:
    told = busy()
    told.ask("r2", user("u1"), trigger="regenerate-message")
    assert kinds(told.ask("r3", user("u3"), policy=policy)) == ["TurnAccepted"]
    assert list(told.state.open) == [1, 2, 3]


@pytest.mark.parametrize("policy", ["latest", "merge", "debounce"])
def test_a_waiting_continuation_is_never_superseded(policy: str) -> None:
    told = stage()
    told.talk("r1", "u1")
    told.go_on("c1")
    assert kinds(told.ask("r2", user("u2"), policy=policy)) == ["TurnAccepted"]
    assert told.state.open[2].accepted.kind is TurnKind.CONTINUATION  # type: ignore[index]


@pytest.mark.parametrize("policy", ["latest", "merge", "debounce"])
def test_a_waiting_turn_with_deferred_messages_is_never_superseded(policy: str) -> None:
    told = busy()
    told.defer("r2")
    assert kinds(told.ask("r3", user("u3"), policy=policy)) == ["TurnAccepted"]
    assert list(told.state.open) == [1, 2, 3]


@pytest.mark.parametrize("policy", ["latest", "merge", "drop", "debounce"])
def test_a_regeneration_supersedes_nothing_and_is_not_debounced(policy: str) -> None:
    told = waiting("queue")
    events = told.ask("r3", user("u1"), trigger="regenerate-message", policy=policy)
    assert kinds(events) == ["TurnAccepted"]
    assert the(TurnAccepted, events).not_before is None


@pytest.mark.parametrize("policy", ["latest", "merge", "drop", "debounce"])
def test_our_own_turns_supersede_nothing_and_are_neither_dropped_nor_delayed(policy: str) -> None:
    told = waiting("queue")
    events = told.ask("r3", user("u3"), trusted=True, policy=policy)
    assert kinds(events) == ["TurnAccepted"]
    assert the(TurnAccepted, events).not_before is None


@pytest.mark.parametrize("policy", ["latest", "merge", "debounce"])
def test_a_superseded_turn_calls_no_hook(policy: str) -> None:
    told = busy(has_response_hook=True)
    told.ask("r2", user("u2"), policy=policy)
    told.ask("r3", user("u3"), policy=policy)
    assert told.wanted().hooks == ()


# -- queue -------------------------------------------------------------------------------------------------


def test_queued_questions_all_wait_and_run_in_order() -> None:
    told = busy()
    told.ask("r2", user("u2"))
    told.ask("r3", user("u3"))
    assert told.path == ["u1", "u2", "u3"]
    told.emit(1, *text("one"))
    told.finish(1)
    assert told.wanted().run == 2
    told.run(2, *text("two"))
    assert told.wanted().run == 3
    told.run(3, *text("three"))
    assert told.path == ["u1", "a-r1", "u2", "a-r2", "u3", "a-r3"]


# -- latest ------------------------------------------------------------------------------------------------


def test_the_latest_question_skips_waiting_ones_and_keeps_their_messages() -> None:
    told = waiting("latest")
    events = told.ask("r3", user("u3"), policy="latest")
    assert kinds(events) == ["TurnEnded", "TurnAccepted"]
    assert endings(events) == [(2, *SKIPPED)]
    assert told.path == ["u1", "u2", "u3"]
    told.emit(1, *text("one"))
    told.finish(1)
    assert told.wanted().run == 3


def test_the_latest_question_skips_every_one_that_waits() -> None:
    told = waiting("queue")
    told.ask("r3", user("u3"))
    events = told.ask("r4", user("u4"), policy="latest")
    assert endings(events) == [(2, *SKIPPED), (3, *SKIPPED)]


def test_a_question_resent_under_the_latest_policy_supersedes_nothing() -> None:
    told = waiting("latest")
    assert told.ask("r2", user("u2"), policy="latest") == []
    assert list(told.state.open) == [1, 2]


# -- merge -------------------------------------------------------------------------------------------------


def test_merging_makes_one_message_of_those_that_wait_under_the_last_id() -> None:
    told = waiting("merge")
    file = {"type": "file", "mediaType": "image/png", "url": "data:,"}
    third = {"id": "u3", "role": "user", "metadata": {"n": 3}, "parts": [file, {"type": "text", "text": "three"}]}
    events = told.ask("r3", third, policy="merge")
    assert kinds(events) == ["TurnEnded", "MessagesRemoved", "TurnAccepted"]
    assert endings(events) == [(2, *SKIPPED)]
    assert (the(MessagesRemoved, events).nodes, the(MessagesRemoved, events).cause) == ([3, 4], "merged")
    accepted = the(TurnAccepted, events)
    assert [(placed.node, placed.parent, placed.id) for placed in accepted.messages] == [(5, 2, "u3")]
    assert (accepted.parent, accepted.message_ids) == (5, ["u3"])
    merged = {**third, "parts": [{"type": "text", "text": "two\n\nthree"}, file]}
    assert told.message(5) == merged
    assert told.path == ["u1", "u3"]


def test_merging_again_adds_to_what_was_merged() -> None:
    told = waiting("merge")
    told.ask("r3", user("u3", "three"), policy="merge")
    told.ask("r4", user("u4", "four"), policy="merge")
    assert told.said() == ["hi", "two\n\nthree\n\nfour"]
    assert told.path == ["u1", "u4"]
    assert list(told.state.open) == [1, 4]


def test_the_merged_question_is_answered_once_the_running_turn_has_ended() -> None:
    told = waiting("merge")
    told.ask("r3", user("u3", "three"), policy="merge")
    told.emit(1, *text("one"))
    told.finish(1)
    assert told.wanted().run == 3
    told.run(3, *text("both"))
    assert told.path == ["u1", "a-r1", "u3", "a-r3"]


def test_several_questions_of_one_submit_are_merged_too() -> None:
    told = busy()
    told.ask("r2", user("u2", "two"), user("u3", "three"), policy="merge")
    told.ask("r3", user("u4", "four"), policy="merge")
    assert told.said() == ["hi", "two\n\nthree\n\nfour"]


def test_merging_leaves_out_what_is_no_text() -> None:
    told = busy()
    note = {"type": "data-note", "data": 1}
    told.ask("r2", {"id": "u2", "role": "user", "parts": [note]}, policy="merge")
    told.ask("r3", user("u3", "three"), policy="merge")
    assert told.message(5)["parts"] == [{"type": "text", "text": "three"}, note]


def test_a_waiting_edit_is_merged_at_the_place_of_the_edit() -> None:
    told = stage()
    told.talk("r1", "u1")
    told.talk("r2", "u2")
    told.ask("r3", user("u9"))
    told.begin(3)
    told.ask("r4", told.message(1), told.message(2), user("u2", "edited"), policy="merge")  # node 7, answer 8
    told.ask("r5", user("u3", "three"), policy="merge")
    assert told.said() == ["hi", "fine", "edited\n\nthree"]
    assert told.path == ["u1", "a-r1", "u3"]


@pytest.mark.parametrize("edited", ["u1", "u2"])
def test_an_edit_under_the_merge_policy_is_a_branch_and_merges_with_nothing(edited: str) -> None:
    told = waiting("merge")
    before = [user("u1")] if edited == "u2" else []
    assert kinds(told.ask("r3", *before, user(edited, "changed"), policy="merge")) == ["TurnAccepted"]
    assert told.path == [*(message["id"] for message in before), edited]
    assert text_of(told.message(3)) == "two"


def test_merging_hides_nothing_that_was_put_behind_the_waiting_question() -> None:
    told = waiting("merge")
    told.put(user("p1"))
    told.ask("r3", user("u3"), policy="merge")
    assert told.path == ["u1", "u2", "p1", "u3"]
    assert list(told.state.open) == [1, 2, 3]


def test_only_the_questions_behind_everything_else_are_merged() -> None:
    told = waiting("merge")
    told.ask("r3", user("u1"), trigger="regenerate-message")
    told.ask("r4", user("u4", "four"), policy="merge")
    told.ask("r5", user("u5", "five"), policy="merge")
    assert list(told.state.open) == [1, 2, 3, 5]
    assert text_of(told.message(3)) == "two"
    assert told.said()[-1] == "four\n\nfive"


# -- drop --------------------------------------------------------------------------------------------------


def test_a_dropped_question_is_skipped_in_one_batch_and_adds_no_node() -> None:
    told = busy()
    nodes = dict(told.state.tree.nodes)
    events = told.ask("r2", user("u1"), user("u2"), policy="drop", origin="socket-7")
    assert kinds(events) == ["TurnAccepted", "TurnEnded"]
    assert endings(events) == [(2, "skipped", "dropped")]
    accepted = the(TurnAccepted, events)
    assert (accepted.messages, accepted.message_ids, accepted.origin) == ([], ["u1", "u2"], "socket-7")
    assert (told.state.tree.nodes, told.state.tree.leaf, told.state.tree.last_node) == (nodes, 2, 2)


def test_a_dropped_request_is_known_from_then_on() -> None:
    told = busy()
    told.ask("r2", user("u2"), policy="drop")
    told.finish(1)
    assert told.ask("r2", user("u2"), policy="drop") == []


def test_a_question_is_dropped_because_another_waits_even_if_none_runs() -> None:
    told = stage()
    told.ask("r1", user("u1"))
    assert endings(told.ask("r2", user("u2"), policy="drop")) == [(2, "skipped", "dropped")]


def test_the_next_question_after_a_dropped_one_is_turn_and_node_of_its_own() -> None:
    told = busy()
    told.ask("r2", user("u2"), policy="drop")
    told.finish(1)
    accepted = the(TurnAccepted, told.ask("r3", user("u3"), policy="drop"))
    assert (accepted.turn, accepted.messages[0].node) == (3, 3)


# -- debounce ----------------------------------------------------------------------------------------------


def test_a_later_question_replaces_a_debounced_one_and_restarts_the_wait() -> None:
    told = busy()
    first = the(TurnAccepted, told.ask("r2", user("u2"), policy="debounce"))
    assert first.not_before == told.now + 750
    told.wait(500)
    events = told.ask("r3", user("u3"), policy="debounce")
    assert endings(events) == [(2, *SKIPPED)]
    assert the(TurnAccepted, events).not_before == told.now + 750
    assert told.path == ["u1", "u2", "u3"]


def test_a_debounced_question_starts_when_its_wait_is_over() -> None:
    told = busy()
    told.ask("r2", user("u2"), policy="debounce")
    told.emit(1, *text("one"))
    told.finish(1)
    assert (told.wanted().run, told.wanted().wake) == (None, told.now + 750)
    told.wait(749)
    assert told.wanted().run is None
    told.wait(1)
    assert told.wanted().run == 2
