from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everyword.messages.partial_json import UNREADABLE, parse_partial_json, repair_json


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", UNREADABLE),
        ("{", {}),
        ('{"a', {}),
        ('{"a":', {}),
        ('{"a":tr', {"a": True}),
        ('{"a":1.', {"a": 1}),
        ('{"a":1,', {"a": 1}),
        ('{"a":-', {}),
        ("[1,", [1]),
        ("[[1,2],[3", [[1, 2], [3]]),
        ('"ab', "ab"),
        ('"a\\', "a"),
        ('"a\\u00e', "a"),
        ('"a\\u00e9', "aé"),
        ("nul", None),
        ("null", None),
        ("12e", 12),
        ("garbage", UNREADABLE),
        ('{"a":1}x', {"a": 1}),
        ("NaN", UNREADABLE),
        ('{"__proto__":1', UNREADABLE),
        ('{"\\u005f\\u005fproto__":1', UNREADABLE),
        ('{"constructor":{"prototype":1}}', UNREADABLE),
        ('{"constructor":"x"', {"constructor": "x"}),
        ("1e999", None),
    ],
)
def test_what_is_complete_is_read(text: str, value: Any) -> None:
    assert parse_partial_json(text) == value


def test_an_array_cut_behind_its_first_minus_is_unreadable_as_in_ai_6() -> None:
    assert parse_partial_json("[-") is UNREADABLE
    assert parse_partial_json("[1,-") == [1]


def test_half_a_character_is_shown_as_a_replacement_until_its_other_half_comes() -> None:
    assert parse_partial_json('{"a":"\\ud83d') == {"a": "\ufffd"}
    assert parse_partial_json('{"a":"\\ud83d\\ude42') == {"a": "🙂"}


# The AI SDK ends a key at an escaped quote: such an object is unreadable until it is whole, here as there.
KEYS = st.text(st.characters(codec="utf-8", exclude_characters='"\\'), max_size=3)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 999) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
)


@given(JSON)
def test_whole_json_is_read_as_it_is(value: Any) -> None:
    assert parse_partial_json(json.dumps(value)) == value


@given(st.dictionaries(KEYS, JSON, min_size=1, max_size=3), st.data())
def test_any_beginning_of_an_object_reads_as_an_object_that_grows(value: Any, data: st.DataObject) -> None:
    text = json.dumps(value, ensure_ascii=False)
    cut = data.draw(st.integers(1, len(text)))
    seen = parse_partial_json(text[:cut])
    assert isinstance(seen, dict)
    assert set(seen) <= set(value)
    assert list(seen) == list(value)[: len(seen)]


@given(st.text(alphabet='{}[]:,"\\ 01-.eEtrufalsn', max_size=30))
def test_no_text_at_all_makes_it_fail(text: str) -> None:
    assert isinstance(repair_json(text), str)
    parse_partial_json(text)
