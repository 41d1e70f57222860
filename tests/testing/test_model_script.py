"""A scripted model that is cut off anywhere and asked again says the rest, and nothing twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everyword.errors import ChatError, UsageError
from everyword.messages.message import UIMessage
from everyword.testing import Call, Gate, Once, Reasoning
from everyword.testing.model_script import ModelItem, Said, read_said, rest_of

WORDS = st.text("abc ", min_size=1, max_size=4)
ITEMS = st.one_of(WORDS, WORDS.map(Reasoning), st.integers(0, 3).map(lambda n: Call(f"tool{n}")))


def spoken(items: list[ModelItem]) -> tuple[str, str, list[str]]:
    text = "".join(item for item in items if isinstance(item, str))
    reasoning = "".join(item.text for item in items if isinstance(item, Reasoning))
    return text, reasoning, [item.id for item in items if isinstance(item, Call)]


def steps(script: list[ModelItem]) -> list[list[ModelItem]]:
    """Play a script to its end, step by step, as a model that is asked again after each."""
    said, played = Said(), list[list[ModelItem]]()
    while rest := rest_of([script], said)[0]:
        assert len(played) <= len(script), "it never comes to an end"
        played.append(rest)
        _say(said, rest)
    return played


def _say(said: Said, items: list[ModelItem]) -> None:
    text, reasoning, calls = spoken(items)
    said.text += text
    said.reasoning += reasoning
    said.calls |= set(calls)


@given(st.lists(ITEMS, min_size=1, max_size=8), st.data())
def test_wherever_it_is_cut_off_the_rest_is_said_and_nothing_twice(
    script: list[ModelItem], data: st.DataObject
) -> None:
    whole = [item for step in steps(script) for item in step]
    cut = data.draw(st.integers(0, len(whole)))
    before = list(whole[:cut])
    if cut < len(whole) and isinstance(whole[cut], str) and data.draw(st.booleans()):
        before.append(whole[cut][: data.draw(st.integers(0, len(whole[cut])))])
    said = Said()
    _say(said, before)
    after: list[ModelItem] = []
    while (rest := rest_of([script], said)[0]) and len(after) < 50:
        after += rest
        _say(said, rest)
    assert [one + other for one, other in zip(spoken(before), spoken(after), strict=True)] == list(spoken(whole))


def test_a_step_ends_behind_its_calls() -> None:
    script: list[ModelItem] = ["a", Call("x"), Call("y"), "b", Call("z")]
    assert [spoken(step) for step in steps(script)] == [
        ("a", "", ["call-1-2", "call-1-3"]),
        ("b", "", ["call-1-5"]),
    ]


def test_gates_and_failures_on_the_way_to_what_was_said_are_passed() -> None:
    gate, failure = Gate(), ChatError("x")
    assert rest_of([["a", gate, "b", failure]], Said(text="ab"))[0] == [failure]
    assert rest_of([["a", gate, "b"]], Said(text="a"))[0] == [gate, "b"]
    once = Once(failure)
    assert rest_of([[once, "a"]], Said())[0] == [once, "a"]


def test_a_new_question_is_answered_with_the_next_answer_whatever_was_said_before() -> None:
    talk = [
        UIMessage("1", "user", [{"type": "text", "text": "one?"}]),
        UIMessage("2", "assistant", [{"type": "text", "text": "half an ans"}]),
        UIMessage("3", "user", [{"type": "text", "text": "two?"}]),
    ]
    said = read_said(talk)
    assert (said.number, said.question, said.text) == (1, "two?", "")
    assert rest_of(["first", lambda question: f"to {question}"], said) == (["to two?"], True)


def test_a_question_that_the_script_has_no_answer_to_is_said_to_be_one() -> None:
    with pytest.raises(UsageError, match="question 2"):
        rest_of(["only"], Said(number=1, question="more?"))
