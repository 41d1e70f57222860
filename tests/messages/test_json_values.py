from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everyword.errors import BadInput
from everyword.messages.json_values import encode_json, has_refused_keys, plain_json, scrub_text


@given(st.text())
def test_whole_text_is_left_alone(text: str) -> None:
    assert scrub_text(text) == text


def test_surrogate_halves_are_joined_or_replaced() -> None:
    assert scrub_text("\ud83d\ude42") == "🙂"
    assert scrub_text("é\ud83d") == "é\ufffd"


def test_half_a_character_deep_inside_is_replaced() -> None:
    assert encode_json({"k\ud800": ["a\udc00", 1]}) == '{"k\ufffd":["a\ufffd",1]}'.encode()


class Model:
    """Looks like a Pydantic model from outside."""

    def model_dump(self, mode: str) -> dict[str, str]:
        return {"mode": mode}


def test_models_are_written_as_their_fields() -> None:
    assert plain_json({"m": Model()}) == {"m": {"mode": "json"}}


def test_a_copy_shares_nothing_with_the_original() -> None:
    original: dict[str, Any] = {"a": [{"b": 1}], "t": (1, 2)}
    copy = plain_json(original)
    original["a"][0]["b"] = 2
    assert copy == {"a": [{"b": 1}], "t": [1, 2]}


def nested_without_end() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


@pytest.mark.parametrize("value", [object(), {"f": print}, nested_without_end()], ids=["object", "function", "loop"])
def test_what_json_cannot_carry_is_refused_with_a_sentence(value: Any) -> None:
    with pytest.raises(BadInput, match="unable to"):
        plain_json(value)


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ({"__proto__": 1, "a": {"__proto__": {}, "b": 2}}, {"a": {"b": 2}}),
        ([{"constructor": {"prototype": 1}}], [{}]),
        ({"constructor": {"x": 1}}, {"constructor": {"x": 1}}),
        ({"constructor": "builder", "text": '"__proto__":'}, {"constructor": "builder", "text": '"__proto__":'}),
    ],
)
def test_keys_that_clients_refuse_are_left_out(value: Any, kept: Any) -> None:
    assert plain_json(value) == kept
    assert not has_refused_keys(plain_json(value))
    assert has_refused_keys(value) is (value != kept)


@given(st.recursive(st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3), lambda inner: (
    st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3))))  # fmt: skip
def test_plain_values_stay_what_they_are(value: Any) -> None:
    assert plain_json(value) == value
    assert msgspec.json.decode(encode_json(value)) == value
