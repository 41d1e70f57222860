"""Python functions as client tools: their schema, and how they are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pytest

from everyword.client.tools import ClientTool, declare
from everyword.errors import BadInput, ToolError, UsageError


@dataclass
class Place:
    city: str
    zip: str | None = None


def book(place: Place, nights: int, kind: Literal["room", "suite"] = "room", notes: list[str] | None = None) -> Any:
    """Book a place to sleep.

    Ask before you do.
    """
    return {"city": place.city, "nights": nights, "kind": kind, "notes": notes}


def test_the_schema_is_made_from_the_hints() -> None:
    declaration = ClientTool(book).declaration
    assert declaration["name"] == "book"
    assert declaration["description"] == "Book a place to sleep.\n\nAsk before you do."
    parameters = declaration["parameters"]
    assert parameters["required"] == ["place", "nights"]
    assert parameters["properties"]["kind"] == {"enum": ["room", "suite"], "default": "room"}
    assert parameters["$defs"]["Place"]["required"] == ["city"]


async def test_input_is_converted_to_the_hints_and_defaults_are_filled_in() -> None:
    assert await ClientTool(book).run({"place": {"city": "Rome"}, "nights": 2}) == {
        "city": "Rome",
        "nights": 2,
        "kind": "room",
        "notes": None,
    }


async def test_input_that_does_not_fit_is_refused_before_the_function_is_called() -> None:
    with pytest.raises(ToolError, match=r"The input of book does not fit\. .*nights"):
        await ClientTool(book).run({"place": {"city": "Rome"}, "nights": "two"})


async def test_a_result_that_is_no_json_is_refused() -> None:
    def odd() -> Any:
        return object()

    with pytest.raises(BadInput):
        await ClientTool(odd).run(None)


def test_functions_that_a_model_cannot_call_are_refused() -> None:
    def loose(*things: str) -> None: ...

    with pytest.raises(UsageError, match="a model cannot pass"):
        ClientTool(loose)
    with pytest.raises(UsageError, match="give a function with a name"):
        ClientTool(lambda: 1)
    with pytest.raises(UsageError, match="two tools named 'book'"):
        declare([book, book])
