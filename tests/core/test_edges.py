"""Edge cases where two rules apply."""

from __future__ import annotations

from typing import Any

import pytest

from everyword.errors import Rejected
from everyword.events import Outcome
from everyword.messages.tool_calls import ErrorAnswer, OutputAnswer
from tests.core.histories import assistant, user
from tests.core.stage import call, kinds, stage


def test_removing_the_last_message_shows_the_rest() -> None:
    told = stage()
    told.talk("r1", "u1")
    told.remove(2)
    assert told.path == ["u1"]


def test_removing_a_message_in_the_middle_shows_what_is_around_it() -> None:
    told = stage()
    told.talk("r1", "u1")
    told.talk("r2", "u2")
    told.remove(2)
    assert told.path == ["u1", "u2", "a-r2"]
    assert told.restored()[0].tree.nodes.keys() == told.state.tree.nodes.keys()


@pytest.mark.parametrize("policy", ["latest", "merge", "debounce"])
def test_a_turn_of_our_own_code_is_never_superseded_by_a_client(policy: str) -> None:
    told = stage()
    told.ask("r1", user("u1"))
    told.begin(1)
    told.ask("r2", user("u2"), trusted=True)
    told.ask("r3", user("u3"), policy=policy)
    assert list(told.state.open) == [1, 2, 3]


def test_a_failed_call_of_an_older_message_keeps_the_waiting_continuation() -> None:
    told = stage()
    told.ask("r1", user("u1"))
    told.run(1, call("k1"), finish_reason="tool-calls")
    told.ask("r2", user("u2"))
    told.run(2, call("k2"), finish_reason="tool-calls")
    told.answer("k2", OutputAnswer(1), "c1")
    told.answer("k1", ErrorAnswer("late"), "c2", auto_continue=False)
    assert kinds(told.begin(3)) == ["AttemptStarted"]


def test_a_list_that_ends_with_an_unknown_message_hides_nothing() -> None:
    told = stage()
    told.talk("r1", "u1")
    told.talk("r2", "u2")
    told.ask("r3", told.message(1), assistant("forged"))
    assert told.path == ["u1", "a-r1", "u2", "a-r2"]


def test_the_cap_holds_for_turns_that_end_without_a_message_too() -> None:
    told = stage(max_persisted_messages=2)
    for number in range(1, 5):
        told.ask(f"r{number}", user(f"u{number}"))
        told.begin(number)
        told.finish(number, Outcome.ERROR, error="x")
    assert len(told.path) <= 2


def test_a_question_that_cannot_be_sanitised_is_refused() -> None:
    def sanitize(message: dict[str, Any]) -> dict[str, Any]:
        raise ValueError("secret")

    with pytest.raises(Rejected) as refused:
        stage(sanitize=sanitize).ask("r1", user("u1"))
    assert "secret" not in str(refused.value)
