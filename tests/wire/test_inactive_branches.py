"""A turn of a branch that was left while it spoke: clients show the old answer or the new one, never both (R-5)."""

from __future__ import annotations

from typing import Any

import pytest

from everyword.core.replay import TurnReplay
from everyword.events import LeafMoved, Outcome
from everyword.ids import NodeId, RequestId, Seq, TurnId
from everyword.wire.connection_turns import ConnectionTurn
from tests.wire.kit import Tab, accepted, chunk, decoded, ended, kinds, message_ended

OLD, NEW = NodeId(2), NodeId(4)


def follower(role: str) -> Tab:
    """A connection that was told the beginning of an answer, as the one who asked, joined or watched."""
    tab = Tab(accepted(1, origin="me" if role == "asked" else "other"), chunk(0))
    if role == "joined":
        tab.asks()
        tab.view.replayed(TurnReplay(Seq(2), RequestId("r1"), [(None, b"{}")]))
    tab.shown = [(NodeId(1), b'{"id":"u1"}', False)]
    return tab


def leaves(tab: Tab, *, mine: bool = False) -> list[dict[str, Any]]:
    """Ask again for the answer, while it is being given: the new one stands beside it."""
    tab.left.add(OLD)
    return tab.happens(accepted(2, origin="me" if mine else "another"))


@pytest.mark.parametrize("role", ["asked", "joined", "watched"])
def test_a_client_that_was_told_the_beginning_is_told_the_rest_and_then_the_new_branch(role: str) -> None:
    tab = follower(role)
    assert leaves(tab) == []
    assert kinds(tab.happens(chunk(1), chunk(2))) == ["chunk", "chunk"]
    told = tab.happens(message_ended(1), ended(turn=1))
    assert kinds(told) == ["done", "chat_messages"]
    assert [message["id"] for message in told[1]["messages"]] == ["u1"]
    assert kinds(tab.happens(chunk(0, 2), chunk(1, 2))) == ["chunk", "chunk"]
    tab.shown.append((NEW, b'{"id":"a2"}', False))
    assert kinds(tab.happens(message_ended(2), ended(turn=2)))[-1] == "chat_messages"


@pytest.mark.parametrize("outcome", [Outcome.ERROR, Outcome.ABORTED])
def test_the_new_branch_is_shown_however_the_old_answer_ends(outcome: Outcome) -> None:
    tab = follower("watched")
    leaves(tab)
    assert kinds(tab.happens(message_ended(1), ended(outcome, turn=1))) == ["done", "chat_messages"]


def test_a_client_that_watched_and_asks_for_another_answer_forgets_the_old_one_at_once() -> None:
    tab = follower("watched")
    told = leaves(tab, mine=True)
    assert kinds(told) == ["chunk", "chat_messages"]
    assert (told[0]["id"], told[0]["error"], told[0]["done"], told[0]["body"]) == ("r1", True, False, "")
    assert [message["id"] for message in told[1]["messages"]] == ["u1"]
    assert tab.happens(chunk(1), message_ended(1)) == []
    assert kinds(tab.happens(ended(turn=1))) == ["done"]
    assert kinds(tab.happens(chunk(0, 2))) == ["chunk"]


@pytest.mark.parametrize("role", ["asked", "joined"])
def test_a_client_that_reads_the_old_answer_as_its_own_and_asks_for_another_is_told_the_rest(role: str) -> None:
    tab = follower(role)
    told = leaves(tab, mine=True)
    assert not any(frame.get("error") for frame in told), "it would end in an error on the page"
    assert kinds(tab.happens(chunk(1))) == ["chunk"]
    assert kinds(tab.happens(message_ended(1), ended(turn=1))) == ["done", "chat_messages"]


def test_a_client_that_asked_for_an_answer_that_begins_on_a_left_branch_is_told_all_of_it() -> None:
    tab = Tab(accepted(1, origin="me"))
    leaves(tab)
    assert kinds(tab.happens(chunk(0), chunk(1), message_ended(1), ended(turn=1))) == [
        "chunk",
        "chunk",
        "done",
        "chat_messages",
    ]


def test_a_client_that_was_told_nothing_of_an_answer_is_told_nothing_of_it_once_its_branch_is_left() -> None:
    tab = Tab(accepted(1, origin="other"))
    assert kinds(leaves(tab)) == ["chat_messages"]
    assert tab.happens(chunk(0), chunk(1), message_ended(1)) == []
    assert kinds(tab.happens(ended(turn=1))) == ["done"]


def test_a_client_that_comes_while_the_old_answer_goes_on_waits_for_the_new_one() -> None:
    tab = Tab(open=[turn(1, has_chunks=True), turn(2)])
    tab.left.add(OLD)
    assert kinds(connected(tab)) == ["pending", "chat_messages"]
    assert tab.happens(chunk(5), message_ended(1)) == []
    assert kinds(tab.asks()) == ["pending"]
    assert kinds(tab.happens(ended(turn=1))) == ["done"]
    assert kinds(tab.happens(chunk(0, 2))) == ["resuming"]


def test_a_first_word_on_a_left_branch_is_not_offered_to_a_client_that_waits() -> None:
    tab = Tab(open=[turn(1), turn(2)])
    tab.left.add(OLD)
    connected(tab)
    assert tab.happens(chunk(0)) == []
    assert kinds(tab.happens(chunk(0, 2))) == ["resuming"]


def test_a_client_that_takes_up_an_offer_after_the_branch_was_left_is_told_the_answer_to_its_end() -> None:
    tab = Tab(open=[turn(1, has_chunks=True)])
    connected(tab)
    leaves(tab)
    assert tab.happens(chunk(1)) == []
    tab.view.replayed(TurnReplay(Seq(3), RequestId("r1"), [(None, b"{}")]))
    assert kinds(tab.happens(chunk(2), message_ended(1), ended(turn=1))) == ["chunk", "done", "chat_messages"]


def test_a_client_that_watches_and_is_shown_another_version_forgets_the_answer_that_streams() -> None:
    tab = follower("watched")
    tab.left.add(OLD)
    assert kinds(tab.happens(LeafMoved(NodeId(7)))) == ["chunk", "chat_messages"]
    assert tab.happens(chunk(1)) == []
    assert kinds(tab.happens(ended(turn=1))) == ["done", "chat_messages"]


def test_a_client_that_asks_again_before_it_takes_up_an_offer_is_told_no_half_of_the_answer() -> None:
    """Its branch was left when it asked, and is shown again before the next word."""
    tab = Tab(open=[turn(1, has_chunks=True), turn(2)])
    connected(tab)
    tab.left.add(OLD)
    assert kinds(tab.asks()) == ["pending"]
    tab.left.clear()
    assert tab.happens(chunk(3)) == []
    assert "done" in kinds(tab.happens(message_ended(1), ended(turn=1)))


def test_of_several_answers_that_ended_and_were_replayed_nothing_is_told_twice() -> None:
    tab = Tab(open=[turn(1, has_chunks=True), turn(2)])
    tab.left.add(OLD)
    connected(tab)
    for number in (1, 2):
        tab.view.replayed(TurnReplay(Seq(9), RequestId(f"r{number}"), [(None, b"{}")], outcome=Outcome.COMPLETED))
    told = tab.happens(chunk(1), message_ended(1), ended(turn=1), chunk(0, 2), message_ended(2), ended(turn=2))
    assert "chunk" not in kinds(told)
    assert kinds(told).count("done") == 2


def test_nothing_follows_the_end_of_an_answer_that_was_cleared_behind_the_clients_cursor() -> None:
    tab = follower("joined")
    tab.left.add(OLD)
    (end,) = decoded(tab.view.replayed(TurnReplay(Seq(9), RequestId("r1"), is_known=False)))
    assert end["done"] is True
    assert tab.happens(chunk(1), chunk(2)) == []


def connected(tab: Tab) -> list[dict[str, Any]]:
    return decoded(tab.view.connected())


def turn(number: int, **more: Any) -> ConnectionTurn:
    return ConnectionTurn(TurnId(number), RequestId(f"r{number}"), NodeId(number * 2), False, **more)
