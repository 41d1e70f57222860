"""The record of a conversation agrees with the state that an agent has, for any history."""

from __future__ import annotations

from hypothesis import given

from everyword.core.record import ConversationRecord
from everyword.events import Outcome
from everyword.messages.message import UIMessage
from tests.core.histories import History, histories


def record_of(history: History) -> ConversationRecord:
    record = ConversationRecord()
    for event, at in history.log:
        record.apply(event, at)
    return record


@given(histories())
def test_the_messages_are_those_that_the_agent_has(history: History) -> None:
    state = history.state
    written = {turn.node for turn in state.message_turns()}
    shown = [(node, place.shown) for node, place in state.tree.shown_path() if node not in written]
    found = [each for each in record_of(history).messages() if each.node not in written and each.message is not None]
    assert [each.node for each in found] == [node for node, _ in shown]
    assert [each.message for each in found] == [UIMessage.decode(body or b"") for _, body in shown]


@given(histories())
def test_an_answer_that_ended_says_how(history: History) -> None:
    record = record_of(history)
    ended = {turn.node: turn for turn in sorted(history.state.ended.values(), key=lambda each: each.ended_at or 0)}
    for message in record.messages():
        turn = ended.get(message.node)
        assert message.is_open == any(each.node == message.node for each in history.state.message_turns())
        if message.ending is None or turn is None or turn.outcome is Outcome.SKIPPED:
            continue
        assert message.ending.outcome in {each.outcome.value for each in history.state.ended.values() if each.outcome}


@given(histories())
def test_a_branch_ends_with_its_newest_leaf(history: History) -> None:
    record, tree = record_of(history), history.state.tree
    for node in tree.nodes:
        leaf = record.leaf_of(int(node))
        assert leaf == tree.newest_leaf_below(node)
        assert [each.node for each in record.messages(leaf)][-1:] <= [leaf]
    assert record.leaf_of("no such message") is None
