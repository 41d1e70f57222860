"""JSON in transcripts: readable, and never much longer than it was sent."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from everyword.transcripts.safe_text import LONGEST_INDENTED, MOST_LEVELS, shown_json


def nested(levels: int, inside: Any) -> Any:
    for _ in range(levels):
        inside = [inside]
    return inside


def test_values_are_shown_on_several_lines_and_texts_as_they_are() -> None:
    assert shown_json({"a": [1, {}]}) == '{\n  "a": [\n    1,\n    {}\n  ]\n}'
    assert shown_json("two\nlines") == "two\nlines"
    assert shown_json(nested(MOST_LEVELS, 1)).count("\n") == 2 * MOST_LEVELS


@pytest.mark.parametrize("levels", [MOST_LEVELS - 1, MOST_LEVELS, 800])
@pytest.mark.parametrize("length", [1_000, LONGEST_INDENTED])
def test_no_value_becomes_much_longer_than_it_is(levels: int, length: int) -> None:
    value = nested(levels, [1] * length)
    shown = shown_json(value)
    assert msgspec.json.decode(shown) == value
    assert len(shown) < 15 * len(msgspec.json.encode(value))
