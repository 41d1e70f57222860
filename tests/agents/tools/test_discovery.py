"""Which tools an agent has: those of its class, inherited ones, and those that it lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from everyword.agents.tools import ToolResult, tool
from everyword.agents.tools.discovery import tools_of
from everyword.errors import UsageError

if TYPE_CHECKING:
    pass  # type: ignore[import-not-found]

from tests.agents.tools.test_definition import Child, Support, add, google, outcomes


async def test_tools_are_methods_inherited_or_not_and_those_listed() -> None:
    assert list(tools_of(Child)) == ["find_order", "refund", "google", "inner", "outer", "add-up"]
    bound = tools_of(Child("harbour"))
    assert list(bound) == list(tools_of(Child))
    (found,) = await outcomes(bound["find_order"], {"number": "7"})
    assert found == ToolResult({"number": "harbour-7", "placed": "2026-01-02"})
    assert await outcomes(bound["inner"], {"a": 1}) == await outcomes(bound["outer"], {"a": 1}) == [ToolResult(1)]
    assert "text" in bound["google"].parameters["properties"]


def test_two_tools_of_one_name_or_a_wrong_list_are_refused() -> None:
    class Twice(Support):
        @tool(name="refund")
        def other(self) -> None: ...

    with pytest.raises(UsageError, match="two are named 'refund'"):
        tools_of(Twice)
    with pytest.raises(UsageError, match=r"unable to read Wrong\.tools; it is str"):
        tools_of(type("Wrong", (), {"tools": "add"}))


def test_a_list_may_hold_functions_and_a_method_named_tools_is_left_to_its_owner() -> None:
    class Lazy:
        @property
        def tools(self) -> list[Any]:
            return [add, google]

    assert (tools_of(type("Own", (), {"tools": google})), tools_of(Lazy)) == ({}, {})
    assert list(tools_of(Lazy())) == ["add-up", "google"]
