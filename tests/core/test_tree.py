"""The message tree: an edited message keeps its id in a new node, and no message is lost (B3, R-4, R-5)."""

from __future__ import annotations

import pytest

from everyword.errors import Rejected
from everyword.events import LeafMoved
from everyword.ids import MessageId, NodeId
from tests.core.histories import user
from tests.core.stage import Stage, kinds, open_text, stage, text


def edited() -> Stage:
    """u1 and a-r1 (nodes 1, 2), u2 and a-r2 (3, 4); then u2 was edited, with a-r3 (5, 6)."""
    told = stage()
    told.talk("r1", "u1", "one")
    told.talk("r2", "u2", "two")
    told.ask("r3", told.message(1), told.message(2), user("u2", "changed"))
    told.run(3, *text("three"))
    return told


def test_an_edit_keeps_its_message_id_and_is_another_node() -> None:
    told = edited()
    assert told.path == ["u1", "a-r1", "u2", "a-r3"]
    assert told.said() == ["hi", "one", "changed", "three"]
    assert [node for node, _ in told.state.tree.shown_path()] == [1, 2, 5, 6]


def test_both_versions_of_a_question_and_of_an_answer_are_known() -> None:
    told = edited()
    assert told.state.tree.versions(NodeId(3)) == told.state.tree.versions(NodeId(5)) == [3, 5]
    told.ask("r4", *(told.message(node) for node in (1, 2, 5)))
    told.run(4, *text("again"))
    assert told.state.tree.versions(NodeId(6)) == [6, 7]
    assert told.state.tree.versions(NodeId(1)) == [1]


def test_an_answer_that_is_not_there_yet_is_no_version() -> None:
    told = edited()
    told.ask("r4", *(told.message(node) for node in (1, 2, 5)))
    assert told.state.tree.versions(NodeId(6)) == [6]


def test_every_branch_can_be_shown_again() -> None:
    told = edited()
    assert told.show(3) == [LeafMoved(NodeId(4))]
    assert told.said() == ["hi", "one", "hi", "two"]
    assert told.show(5) == [LeafMoved(NodeId(6))]
    assert told.said() == ["hi", "one", "changed", "three"]


def test_showing_a_node_shows_its_newest_descendant() -> None:
    told = edited()
    told.show(4)
    told.show(1)
    assert told.state.tree.leaf == 6


def test_showing_what_is_shown_causes_nothing() -> None:
    told = edited()
    assert told.show(6) == told.show(2) == []


def test_a_node_that_does_not_exist_cannot_be_shown() -> None:
    told = edited()
    with pytest.raises(Rejected):
        told.show(99)
    assert told.state.tree.leaf == 6


def test_a_message_id_is_looked_up_on_the_active_path_first() -> None:
    told = edited()
    assert told.state.tree.node_of_message(MessageId("u2")) == 5
    told.show(4)
    assert told.state.tree.node_of_message(MessageId("u2")) == 3
    assert told.state.tree.node_of_message(MessageId("a-r3")) == 6
    assert told.state.tree.node_of_message(MessageId("u9")) is None


def test_of_two_versions_on_left_branches_the_newest_is_found() -> None:
    told = edited()
    told.ask("r4", user("u1", "all new"))
    assert told.state.tree.node_of_message(MessageId("u2")) == 5


def test_a_question_goes_below_the_branch_that_is_shown() -> None:
    told = edited()
    told.show(4)
    told.ask("r4", user("u4"))
    assert told.path == ["u1", "a-r1", "u2", "a-r2", "u4"]
    assert told.said()[2] == "hi"


# -- R-5 ---------------------------------------------------------------------------------------------------


def test_a_turn_of_a_branch_that_was_left_finishes_there_unseen() -> None:
    told = stage()
    told.ask("r1", user("u1"))
    told.begin(1)
    told.emit(1, *open_text("half"))
    told.ask("r2", user("u1", "changed"))
    told.emit(1, {"type": "text-delta", "id": "t", "delta": " and whole"})
    told.finish(1)
    assert told.path == ["u1"]
    assert told.said() == ["changed"]
    told.show(1)
    assert told.said() == ["hi", "half and whole"]


def test_showing_another_branch_does_not_move_a_running_turn() -> None:
    told = edited()
    told.ask("r4", user("u4"))
    told.begin(4)
    told.show(4)
    told.emit(4, *text("four"))
    told.finish(4)
    assert told.path == ["u1", "a-r1", "u2", "a-r2"]
    told.show(6)
    assert told.path == ["u1", "a-r1", "u2", "a-r3", "u4", "a-r4"]


# -- places without a message ------------------------------------------------------------------------------


def test_a_place_without_a_message_is_passed_over() -> None:
    told = stage()
    told.ask("r1", user("u1"))
    told.ask("r2", user("u2"))
    assert list(told.state.tree.active_path()) == [1, 2, 3, 4]
    assert told.path == ["u1", "u2"]


def test_a_turn_without_an_answer_leaves_its_place_and_breaks_no_path() -> None:
    told = stage()
    told.ask("r1", user("u1"))
    told.cancel("r1")
    told.talk("r2", "u2")
    assert told.path == ["u1", "u2", "a-r2"]


def test_ancestors_lead_from_a_node_to_its_root() -> None:
    told = edited()
    assert list(told.state.tree.ancestors(NodeId(6))) == [6, 5, 2, 1]
    assert list(told.state.tree.ancestors(None)) == []


def test_what_lost_its_parent_to_the_cap_is_a_root() -> None:
    told = stage(max_persisted_messages=2)
    told.talk("r1", "u1")
    told.talk("r2", "u2")
    assert list(told.state.tree.active_path()) == [3, 4]
    assert told.path == ["u2", "a-r2"]


def test_moving_the_leaf_is_all_that_showing_a_branch_changes() -> None:
    told = edited()
    nodes = dict(told.state.tree.nodes)
    assert kinds(told.show(4)) == ["LeafMoved"]
    assert told.state.tree.nodes == nodes
    assert told.rows.agent is not None
    assert told.rows.agent.leaf == 4
