"""Values as text: without control characters, and with units that people read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everyword.cli.text import age, clean, count_of, iso, one_line, size_of
from tests.cli.kit import ESCAPE


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_left_of_a_text_and_everything_else_is(text: str) -> None:
    cleaned = clean(text)
    assert not any((ord(c) < 32 and c not in "\n\t") or 0x7F <= ord(c) < 0xA0 or c == "\u202e" for c in cleaned)
    assert [c for c in text if c.isalnum()] == [c for c in cleaned if c.isalnum()]
    assert "\n" not in one_line(text)


def test_an_escape_in_a_conversation_is_shown_as_what_is_left_of_it() -> None:
    assert clean(f"a {ESCAPE} word") == "a [31mred[0m word"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (age(None, 0), "-"),
        (age(1_000, 4_000), "3 s ago"),
        (age(0, 7_200_000), "2 h ago"),
        (age(120_000, 0), "in 2 min"),
        (age(0, 3 * 86_400_000), "3 d ago"),
        (iso(None), None),
        (iso(1_500), "1970-01-01T00:00:01.500Z"),
        (size_of(10), "10 bytes"),
        (size_of(1536), "1.5 KiB"),
        (size_of(3 * 1024**3), "3.0 GiB"),
        (count_of(1, "turn"), "1 turn"),
        (count_of(0, "turn"), "0 turns"),
    ],
)
def test_numbers_are_told_in_words(said: str | None, expected: str | None) -> None:
    assert said == expected
