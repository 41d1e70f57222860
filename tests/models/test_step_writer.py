from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everyword.models.step_writer import StepWriter, read_input
from tests.models.checks import folded, kinds

NAMES = ["open", "grow", "close", "start", "piece", "end", "output", "fail", "source"]
MOVES = st.tuples(st.sampled_from(NAMES), st.integers(0, 2))


@given(st.lists(MOVES, max_size=30))
def test_whatever_a_provider_does_the_step_is_well_formed(moves: list[tuple[str, int]]) -> None:
    step, announced, settled = StepWriter(), set[int](), set[int]()
    for move, key in moves:
        match move:
            case "open":
                step.open("text", key)
            case "grow":
                step.grow("reasoning", key, "x")
            case "close":
                step.close(key)
            case "start":
                step.start_call(f"c{key}", "tool")
                announced.add(key)
            case "piece":
                step.grow_call(f"c{key}", "{}")
            case "end":
                step.end_call(f"c{key}", {"n": key})
            case "output" if key in announced - settled and f"c{key}" not in step.inputs:
                step.output(f"c{key}", None)
                settled.add(key)
            case "fail" if key in announced - settled and f"c{key}" not in step.inputs:
                step.fail_call(f"c{key}", "no")
                settled.add(key)
            case "source":
                step.source(f"https://example.org/{key}")
    step.finish("stop", {})
    chunks = step.take()
    folded(chunks)
    ids = [chunk["id"] for chunk in chunks if chunk["type"].endswith("-start") and "id" in chunk]
    assert len(ids) == len(set(ids))


def test_what_was_taken_is_not_given_again() -> None:
    step = StepWriter("r")
    step.grow("text", 0, "a")
    assert kinds(step.take()) == ["start-step", "text-start", "text-delta"]
    assert step.take() == []


def test_an_empty_piece_opens_nothing() -> None:
    step = StepWriter()
    step.grow("text", 0, "")
    step.grow("text", 0, None)
    assert step.take() == []


def test_a_step_that_never_began_has_no_end() -> None:
    step = StepWriter()
    step.end()
    assert step.take() == []


def test_a_source_is_named_once() -> None:
    step = StepWriter("r")
    for _ in range(2):
        step.source("https://example.org", "A page")
        step.document("Manual", media_type="text/plain")
    assert kinds(step.take()) == ["start-step", "source-url", "source-document"]


@pytest.mark.parametrize(("text", "value"), [("", {}), (" \\n", {}), ('{"a": null}', {"a": None})])
def test_arguments_are_an_object(text: str, value: object) -> None:
    assert read_input(text.replace("\\n", "\n")) == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        *(("[1]", "not an object"), ("null", "not an object"), ('"x"', "not an object")),
        *(("{", "truncated"), ('{"a": 1} {', "trailing"), ("\ud800", "surrogates")),
    ],
)
def test_what_is_no_object_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_input(text)
