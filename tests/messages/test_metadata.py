from __future__ import annotations

from typing import Any

import pytest

from everyword.messages.metadata import merge_metadata


@pytest.mark.parametrize(
    ("base", "given", "merged"),
    [
        (None, None, None),
        (None, {"a": 1}, {"a": 1}),
        ({"a": 1}, None, {"a": 1}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 3, "d": 4}}, {"a": {"b": 1, "c": 3, "d": 4}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": {"b": 1}}, {"a": None}, {"a": None}),
        ({"a": 1}, {"__proto__": 2, "constructor": 3, "prototype": 4, "a": {"__proto__": 5}}, {"a": {"__proto__": 5}}),
        ({"a": {"b": 1}}, {"a": {"__proto__": 5}}, {"a": {"b": 1}}),
        ("text", {}, {"0": "t", "1": "e", "2": "x", "3": "t"}),
        ({"a": 1}, 7, {"a": 1}),
        ({"a": 1}, ["x"], {"a": 1, "0": "x"}),
    ],
)
def test_metadata_merges_in_depth(base: Any, given: Any, merged: Any) -> None:
    assert merge_metadata(base, given) == merged


def test_merging_changes_neither_side() -> None:
    base, given = {"a": {"b": 1}}, {"a": {"c": 2}}
    merge_metadata(base, given)
    assert (base, given) == ({"a": {"b": 1}}, {"a": {"c": 2}})


def test_named_values_cannot_be_merged_into_a_scalar() -> None:
    with pytest.raises(TypeError, match="int"):
        merge_metadata(7, {"a": 1})
