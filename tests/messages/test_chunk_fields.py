from __future__ import annotations

from typing import Any

import pytest

from everyword.errors import BadChunk
from everyword.messages.chunk_fields import usable_fields


def usable(chunk: dict[Any, Any], *, newer: bool = False) -> tuple[dict[str, Any], list[str]]:
    problems: list[str] = []
    return usable_fields(chunk, problems, newer=newer), problems


def test_null_optionals_go_without_a_word() -> None:
    assert usable({"type": "text-start", "id": "a", "providerMetadata": None}) == (
        {"type": "text-start", "id": "a"},
        [],
    )


def test_an_optional_of_the_wrong_type_goes_with_a_word() -> None:
    chunk, problems = usable({"type": "text-start", "id": "a", "providerMetadata": {"p": 1}})
    assert chunk == {"type": "text-start", "id": "a"}
    assert len(problems) == 1
    assert "providerMetadata" in problems[0]


def test_a_value_that_json_cannot_carry_becomes_null_where_null_may_be() -> None:
    chunk, problems = usable({"type": "data-x", "data": object()})
    assert chunk == {"type": "data-x", "data": None}
    assert len(problems) == 1


@pytest.mark.parametrize("chunk", [{"type": "file", "url": "u"}, {"type": "file", "url": 1, "mediaType": "m"}])
def test_a_chunk_without_a_required_field_is_unusable(chunk: dict[str, Any]) -> None:
    with pytest.raises(BadChunk, match="unable to use a file chunk"):
        usable(chunk)


def test_values_are_copied() -> None:
    data: list[Any] = [[]]
    chunk, _ = usable({"type": "data-x", "data": data})
    data[0].append(1)
    assert chunk["data"] == [[]]


def test_unknown_fields_are_for_newer_clients() -> None:
    given = {"type": "text-end", "id": "a", "citations": [], "sparkle": {"x": (1,)}, "lamp": object(), 7: 1}
    assert usable(given)[0] == {"type": "text-end", "id": "a"}
    chunk, problems = usable(given, newer=True)
    assert chunk == {"type": "text-end", "id": "a", "citations": [], "sparkle": {"x": [1]}}
    assert len(problems) == 1
