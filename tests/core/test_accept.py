"""Which messages of a submit are stored, and where its answer goes: ids decide, not the trigger (R-4, R-6, R-10)."""

from __future__ import annotations

import pytest

from everyword.core.commands import ContinueTurn, OpenStream
from everyword.errors import Rejected, TooManyQueued
from everyword.events import MessageReplaced, MessagesPut, Outcome, TurnAccepted, TurnKind
from everyword.ids import MessageId, RequestId
from tests.core.histories import assistant, user
from tests.core.stage import Stage, decoded, kinds, open_text, pick, stage, text, the


def two_questions() -> Stage:
    """u1 (node 1), its answer a-r1 (2), u2 (3), its answer a-r2 (4)."""
    told = stage()
    told.talk("r1", "u1")
    told.talk("r2", "u2")
    return told


def whole(told: Stage) -> list[dict[str, object]]:
    """The message list of a client that has the whole conversation."""
    return [told.message(node) for node in (1, 2, 3, 4)]


# -- the trailing unknown messages are taken ---------------------------------------------------------------


def test_a_new_question_goes_below_the_leaf_and_reserves_a_node() -> None:
    told = two_questions()
    accepted = the(TurnAccepted, told.ask("r3", *whole(told), user("u3")))
    assert [(placed.node, placed.parent, placed.id) for placed in accepted.messages] == [(5, 4, "u3")]
    assert (accepted.node, accepted.parent, accepted.message_id) == (6, 5, "a-r3")
    assert told.path == ["u1", "a-r1", "u2", "a-r2", "u3"]


def test_the_first_question_of_all_is_a_root() -> None:
    accepted = the(TurnAccepted, stage().ask("r1", user("u1")))
    assert [(placed.node, placed.parent) for placed in accepted.messages] == [(1, None)]
    assert accepted.parent == 1


def test_several_new_questions_are_placed_one_below_the_other() -> None:
    accepted = the(TurnAccepted, stage().ask("r1", user("u1"), user("u2"), user("u3")))
    assert [(placed.node, placed.parent) for placed in accepted.messages] == [(1, None), (2, 1), (3, 2)]
    assert accepted.message_ids == ["u1", "u2", "u3"]


def test_a_message_repeated_in_the_list_is_placed_once() -> None:
    told = stage()
    told.ask("r1", user("u1"), user("u1"))
    assert told.path == ["u1"]


def test_a_list_that_lacks_history_truncates_nothing() -> None:
    told = two_questions()
    told.ask("r3", user("u3"))
    assert told.path == ["u1", "a-r1", "u2", "a-r2", "u3"]


def test_a_stale_list_appends_at_the_leaf_whatever_it_lacks() -> None:
    told = two_questions()
    accepted = the(TurnAccepted, told.ask("r3", told.message(1), told.message(2), user("u3")))
    assert accepted.messages[0].parent == 4
    assert told.path == ["u1", "a-r1", "u2", "a-r2", "u3"]


def test_an_unknown_message_in_the_middle_is_not_taken() -> None:
    told = two_questions()
    told.ask("r3", told.message(1), user("slipped-in"), *whole(told)[1:], user("u3"))
    assert told.path == ["u1", "a-r1", "u2", "a-r2", "u3"]


def test_a_forged_answer_before_the_question_is_not_taken() -> None:
    told = two_questions()
    told.ask("r3", *whole(told), assistant("forged"), user("u3"))
    assert told.path == ["u1", "a-r1", "u2", "a-r2", "u3"]
    assert "forged" not in {node.id for node in told.state.tree.nodes.values()}


def test_a_forged_answer_at_the_end_only_runs_on_the_leaf() -> None:
    told = two_questions()
    accepted = the(TurnAccepted, told.ask("r3", *whole(told), assistant("forged")))
    assert accepted.messages == []
    assert accepted.parent == 4
    assert told.path == ["u1", "a-r1", "u2", "a-r2"]


def test_what_a_client_says_about_an_answer_changes_nothing() -> None:
    told = two_questions()
    told.ask("r3", told.message(1), assistant("a-r1", "I said something else"), *whole(told)[2:], user("u3"))
    assert told.said() == ["hi", "fine", "hi", "fine", "hi"]


def test_messages_that_the_cap_removed_do_not_come_back() -> None:
    told = stage(max_persisted_messages=2)
    told.talk("r1", "u1")
    removed = [told.message(1), told.message(2)]
    told.talk("r2", "u2")
    assert told.path == ["u2", "a-r2"]
    told.ask("r3", *removed, told.message(3), told.message(4), user("u3"))
    assert told.path == ["u2", "a-r2", "u3"]


def test_regenerating_works_while_the_client_shows_removed_messages() -> None:
    told = stage(max_persisted_messages=2)
    told.talk("r1", "u1")
    removed = [told.message(1), told.message(2)]
    told.talk("r2", "u2")
    accepted = the(TurnAccepted, told.ask("r3", *removed, told.message(3)))
    assert (accepted.messages, accepted.parent) == ([], 3)


# -- all known: a branch, or the leaf ----------------------------------------------------------------------


def test_a_list_equal_to_the_path_continues_the_answer_at_its_end() -> None:
    told = two_questions()
    accepted = the(TurnAccepted, told.ask("r3", *whole(told)))
    assert (accepted.kind, accepted.messages, accepted.node) == (TurnKind.CONTINUATION, [], 4)
    assert accepted.message_id == "a-r2"


@pytest.mark.parametrize("trigger", ["submit-message", "regenerate-message"])
def test_a_proper_prefix_branches_there_whatever_the_trigger_says(trigger: str) -> None:
    told = two_questions()
    accepted = the(TurnAccepted, told.ask("r3", *whole(told)[:3], trigger=trigger))
    assert (accepted.messages, accepted.parent, accepted.node) == ([], 3, 5)
    assert told.path == ["u1", "a-r1", "u2"]
    assert told.message(4)["id"] == "a-r2"


def test_a_prefix_that_ends_with_an_answer_branches_below_that_answer() -> None:
    told = two_questions()
    accepted = the(TurnAccepted, told.ask("r3", *whole(told)[:2]))
    assert accepted.parent == 2
    assert told.path == ["u1", "a-r1"]


def test_an_edited_question_branches_beside_the_old_one_under_the_same_id() -> None:
    told = two_questions()
    accepted = the(TurnAccepted, told.ask("r3", *whole(told)[:2], user("u2", "changed")))
    (placed,) = accepted.messages
    assert (placed.node, placed.parent, placed.id) == (5, 2, "u2")
    assert told.said() == ["hi", "fine", "changed"]
    assert told.message(3) == user("u2")


def test_an_edit_of_the_first_question_is_another_root() -> None:
    told = two_questions()
    accepted = the(TurnAccepted, told.ask("r3", user("u1", "changed")))
    assert accepted.messages[0].parent is None
    assert told.path == ["u1"]


def test_a_changed_question_further_up_is_no_edit() -> None:
    told = two_questions()
    told.ask("r3", user("u1", "changed"), *whole(told)[1:])
    assert told.said() == ["hi", "fine", "hi", "fine"]


def test_an_empty_list_truncates_nothing_and_runs_on_the_leaf() -> None:
    told = two_questions()
    accepted = the(TurnAccepted, told.ask("r3"))
    assert (accepted.messages, accepted.parent) == ([], 4)
    assert told.path == ["u1", "a-r1", "u2", "a-r2"]


def test_an_empty_list_to_an_empty_agent_makes_a_root_answer() -> None:
    accepted = the(TurnAccepted, stage().ask("r1"))
    assert (accepted.messages, accepted.parent, accepted.node) == ([], None, 1)


def test_a_question_of_a_left_branch_brings_its_branch_back() -> None:
    told = two_questions()
    told.ask("r3", user("u1", "changed"))  # node 5, answer 6; u2 is on the branch that was left
    accepted = the(TurnAccepted, told.ask("r4", user("u2")))
    assert (accepted.messages, accepted.parent) == ([], 3)
    assert told.path == ["u1", "a-r1", "u2"]


# -- while an answer streams -------------------------------------------------------------------------------


def test_a_question_during_an_answer_hangs_below_the_place_reserved_for_it() -> None:
    told = stage()
    told.ask("r1", user("u1"))
    told.begin(1)
    told.emit(1, *open_text("half"))
    half = {"id": "a-r1", "role": "assistant", "parts": [{"type": "text", "text": "half"}]}
    accepted = the(TurnAccepted, told.ask("r2", user("u1"), half, user("u2")))
    assert accepted.messages[0].parent == 2
    told.finish(1)
    assert told.path == ["u1", "a-r1", "u2"]


def test_resending_the_list_during_an_answer_loses_and_doubles_nothing() -> None:
    told = stage()
    told.ask("r1", user("u1"))
    told.begin(1)
    told.emit(1, *text("first"))
    accepted = the(TurnAccepted, told.ask("r2", user("u1")))
    assert (accepted.messages, accepted.parent) == ([], 1)
    told.finish(1)
    assert told.message(2)["id"] == "a-r1"
    assert told.path == ["u1"]


# -- trusted lists -----------------------------------------------------------------------------------------


def test_of_a_trusted_list_every_unknown_message_is_taken() -> None:
    told = two_questions()
    system = {"id": "s1", "role": "system", "parts": []}
    accepted = the(TurnAccepted, told.ask("r3", *whole(told), assistant("x1"), system, user("u3"), trusted=True))
    assert [(placed.id, placed.role) for placed in accepted.messages] == [
        ("x1", "assistant"),
        ("s1", "system"),
        ("u3", "user"),
    ]
    assert told.path == ["u1", "a-r1", "u2", "a-r2", "x1", "s1", "u3"]


def test_a_trusted_list_changes_known_messages_in_place() -> None:
    told = two_questions()
    events = told.ask("r3", user("u1", "changed"), assistant("a-r1", "changed too"), trusted=True)
    assert [event.node for event in pick(MessageReplaced, events)] == [1, 2]
    assert told.state.tree.nodes[1].parent is None  # type: ignore[index]
    assert decoded(told.state.tree.nodes[2].body or b"") == assistant("a-r1", "changed too")  # type: ignore[index]


def test_a_trusted_list_that_says_the_same_replaces_nothing() -> None:
    told = two_questions()
    assert kinds(told.ask("r3", *whole(told), trusted=True)) == ["TurnAccepted"]


def test_a_message_that_an_open_turn_writes_is_not_replaced_under_its_feet() -> None:
    told = stage()
    told.talk("r1", "u1")
    told.go_on("c1")
    told.begin(2)
    assert told.put(assistant("a-r1", "changed")) == []
    told.emit(2, *text(" and more", "t2"))
    told.finish(2)
    assert told.said() == ["hi", "fine and more"]


# -- sanitising (R-25) -------------------------------------------------------------------------------------


def test_what_is_stored_of_a_question_is_what_sanitising_leaves() -> None:
    told = stage(sanitize=lambda message: {**message, "parts": message["parts"][:1]})
    question = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hi"}, {"type": "data-secret"}]}
    told.ask("r1", question)
    assert told.message(1) == user("u1")


def test_a_question_that_only_sanitising_changed_is_no_edit() -> None:
    told = stage(sanitize=lambda message: {**message, "parts": message["parts"][:1]})
    question = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hi"}, {"type": "data-secret"}]}
    told.ask("r1", question)
    accepted = the(TurnAccepted, told.ask("r2", question))
    assert (accepted.messages, accepted.parent) == ([], 1)


# -- a request id is accepted once (I-6, R-30) -------------------------------------------------------------


def test_a_resent_request_causes_nothing_while_its_turn_is_open() -> None:
    told = stage()
    told.ask("r1", user("u1"))
    assert told.ask("r1", user("u1")) == []
    told.begin(1)
    assert told.ask("r1", user("u1"), user("u2")) == []


def test_a_resent_request_causes_nothing_after_its_turn_has_ended() -> None:
    told = stage()
    told.talk("r1", "u1")
    assert told.ask("r1", user("u1")) == []


def test_a_request_of_a_cleared_conversation_is_still_known() -> None:
    told = stage()
    told.talk("r1", "u1")
    told.clear()
    assert told.ask("r1", user("u1")) == []


def test_a_request_that_only_the_store_remembers_causes_nothing() -> None:
    told = stage()
    assert told.ask("r1", user("u1"), known=True) == []
    told.talk("r2", "u2")
    assert told.go_on("r1", known=True) == []


def test_one_request_id_is_not_accepted_as_two_kinds_of_turn() -> None:
    told = stage()
    told.talk("r1", "u1")
    assert told.tell(ContinueTurn(RequestId("r1"))) == []
    assert told.tell(OpenStream(RequestId("r1"), MessageId("m"))) == []


# -- limits ------------------------------------------------------------------------------------------------


def test_a_turn_too_many_is_refused_and_nothing_is_written() -> None:
    told = stage(max_queued=2)
    told.ask("r1", user("u1"))
    told.ask("r2", user("u2"))
    with pytest.raises(TooManyQueued):
        told.ask("r3", user("u3"))
    assert told.path == ["u1", "u2"]
    told.cancel("r2")
    assert kinds(told.ask("r3", user("u3"))) == ["TurnAccepted"]


def test_a_resent_request_is_no_turn_too_many() -> None:
    told = stage(max_queued=1)
    told.ask("r1", user("u1"))
    assert told.ask("r1", user("u1")) == []


def test_a_continuation_too_many_is_refused() -> None:
    told = stage(max_queued=1)
    told.talk("r1", "u1")
    told.go_on("c1")
    with pytest.raises(TooManyQueued):
        told.go_on("c2")


def test_bare_streams_do_not_count_as_waiting_turns() -> None:
    told = stage(max_queued=1)
    told.open_stream("s1")
    assert kinds(told.ask("r1", user("u1"))) == ["TurnAccepted"]


# -- what a turn remembers of its request ------------------------------------------------------------------


def test_the_turn_keeps_its_origin_and_owner() -> None:
    told = stage()
    told.ask("r1", user("u1"), origin="socket-7", owner="pk-1", trigger="submit-message")
    accepted = told.state.open[1].accepted  # type: ignore[index]
    assert (accepted.origin, accepted.owner, accepted.kind) == ("socket-7", "pk-1", TurnKind.CHAT)


def test_the_ids_of_a_terminal_frame_are_the_trailing_questions_known_or_not() -> None:
    told = two_questions()
    accepted = the(TurnAccepted, told.ask("r3", *whole(told)[:3], user("u3")))
    assert accepted.message_ids == ["u2", "u3"]


# -- deferred messages (R-10) ------------------------------------------------------------------------------


def test_a_deferred_turn_waits_for_its_messages_and_then_answers_them() -> None:
    told = stage()
    told.talk("r1", "u1")
    accepted = the(TurnAccepted, told.defer("r2"))
    assert (accepted.deferred, accepted.messages) == (True, [])
    with pytest.raises(Rejected):
        told.begin(2)
    put = the(MessagesPut, told.place(2, user("d1"), user("d2")))
    assert [(placed.node, placed.parent) for placed in put.messages] == [(4, 2), (5, 4)]
    told.run(2, *text("deferred"))
    assert told.path == ["u1", "a-r1", "d1", "d2", "a-r2"]
    assert told.state.ended[2].accepted.message_ids == ["d1", "d2"]  # type: ignore[index]


def test_questions_asked_behind_a_deferred_turn_stay_behind_its_messages() -> None:
    told = stage()
    told.defer("r1")
    told.ask("r2", user("u2"))
    told.place(1, user("d1"))
    told.run(1, *text("deferred"))
    assert told.path == ["d1", "a-r1", "u2"]


def test_a_deferred_turn_with_nothing_new_to_say_begins_all_the_same() -> None:
    told = stage()
    told.talk("r1", "u1")
    told.defer("r2")
    told.place(2, told.message(1), told.message(2))
    told.run(2, *text("again"))
    assert told.path == ["u1", "a-r1", "a-r2"]


def test_a_deferred_turn_may_change_what_is_known() -> None:
    told = stage()
    told.talk("r1", "u1")
    told.defer("r2")
    told.place(2, user("u1", "changed"), user("d1"))
    assert told.said() == ["changed", "fine", "hi"]


@pytest.mark.parametrize("turn", [1, 2, 3])
def test_messages_are_placed_only_for_a_turn_that_waits_for_them(turn: int) -> None:
    told = stage()
    told.talk("r1", "u1")
    told.ask("r2", user("u2"))
    with pytest.raises(Rejected):
        told.place(turn, user("d1"))


def test_messages_are_placed_once() -> None:
    told = stage()
    told.defer("r1")
    told.place(1, user("d1"))
    with pytest.raises(Rejected):
        told.place(1, user("d2"))


# -- continuing and bare streams ---------------------------------------------------------------------------


def test_going_on_extends_the_last_answer() -> None:
    told = stage()
    told.talk("r1", "u1")
    accepted = the(TurnAccepted, told.go_on("c1"))
    assert (accepted.kind, accepted.node, accepted.message_id) == (TurnKind.CONTINUATION, 2, "a-r1")
    told.run(2, *text(" and more", "t2"))
    assert told.said() == ["hi", "fine and more"]


def test_going_on_needs_an_answer_to_go_on_with() -> None:
    told = stage()
    with pytest.raises(Rejected):
        told.go_on("c1")
    told.ask("r1", user("u1"))
    with pytest.raises(Rejected):
        told.go_on("c2")


def test_a_bare_stream_takes_no_place_in_the_tree() -> None:
    told = stage()
    told.talk("r1", "u1")
    accepted = the(TurnAccepted, told.open_stream("s1"))
    assert (accepted.kind, accepted.parent) == (TurnKind.RSM, None)
    told.begin(2)
    told.emit(2, {"type": "anything"})
    told.finish(2, Outcome.COMPLETED)
    assert told.path == ["u1", "a-r1"]
    assert told.state.tree.last_node == 2


# -- messages without a turn (R-8) -------------------------------------------------------------------------


def test_a_client_may_add_and_change_questions() -> None:
    told = two_questions()
    events = told.put(user("u1", "changed"), told.message(2), user("u3"), trusted=False, origin="s")
    assert kinds(events) == ["MessageReplaced", "MessagesPut"]
    assert told.said() == ["changed", "fine", "hi", "fine", "hi"]
    assert told.path[-1] == "u3"


def test_our_own_code_may_put_any_message() -> None:
    told = two_questions()
    told.put(assistant("a-r1", "changed"), assistant("x1", "new"))
    assert told.said() == ["hi", "changed", "hi", "fine", "new"]


def test_putting_what_is_already_there_causes_nothing() -> None:
    told = two_questions()
    assert told.put(*whole(told)) == []


def test_a_shorter_list_of_messages_deletes_nothing() -> None:
    told = two_questions()
    assert told.put(told.message(1), trusted=False) == []
    assert told.path == ["u1", "a-r1", "u2", "a-r2"]


def test_messages_that_an_open_turn_answers_or_writes_are_not_removed() -> None:
    told = stage()
    told.talk("r1", "u1")
    told.ask("r2", user("u2"))
    assert told.remove(3, 4) == []
    told.run(2, *text("done"))
    assert kinds(told.remove(3, 4)) == ["MessagesRemoved"]
