"""Options of `@tool`: a wrong one is refused when the class is made, with what is wrong and what to write."""

from __future__ import annotations

import math
from typing import Any

import pytest

from everyword.agents import AIChatAgent
from everyword.agents.agent_tools import agent_tool
from everyword.agents.tools import ToolContext, tool
from everyword.errors import UsageError


def pay(amount: float, to: str = "ann", context: ToolContext | None = None) -> None: ...


def by_position(amount: float, /) -> bool:
    return amount > 100


class Asks:
    async def __call__(self, amuont: float) -> bool:
        return amuont > 100


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"needs_approval": lambda amuont: True}, r"needs_approval asks for 'amuont', which pay does not take"),
        ({"needs_approval": lambda amount, sum: True}, r"'sum', .* It may name amount, to\."),
        ({"needs_approval": Asks()}, r"'amuont'"),
        ({"needs_approval": lambda context: True}, r"'context', which pay does not take from the model"),
        ({"needs_approval": by_position}, r"'amount' by position; arguments are given by name"),
        ({"needs_approval": "yes"}, r"needs_approval is str, not a bool or a function"),
        ({"needs_approval": None}, r"needs_approval is NoneType, not a bool or a function"),
        ({"approvers": ["boss"]}, r"it has approvers, and would run without asking them\. Give needs_approval"),
        ({"approvers": "boss", "needs_approval": True}, r"approvers must be a list of ids and roles"),
        ({"approvers": [], "needs_approval": True}, r"its list of approvers is empty\. Leave it out"),
        ({"client": "yes"}, r"client is str, not a bool"),
        ({"idempotent": 1}, r"idempotent is int, not a bool"),
        ({"show_errors_to_model": "no"}, r"show_errors_to_model is str, not a bool"),
        ({"timeout": "5"}, r"timeout is str, not a number of seconds"),
        ({"timeout": True}, r"timeout is bool, not a number of seconds"),
        ({"timeout": math.nan}, r"its timeout of nan seconds is not positive"),
        ({"timeout": -1}, r"its timeout of -1 seconds is not positive"),
        ({"description": 7}, r"description is int, not a str"),
    ],
)
def test_a_wrong_option_is_refused_when_the_tool_is_made(options: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=f"^unable to make the tool 'pay'; .*{why}"):
        tool(**options)(pay)


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(UsageError, match=r"name is int, not a str"):
        tool(name=7)(pay)  # type: ignore[call-overload]


def test_the_class_is_not_made_with_a_predicate_of_a_wrong_parameter() -> None:
    with pytest.raises(UsageError, match=r"'refund'; needs_approval asks for 'total'.* It may name amount\."):

        class Bank(AIChatAgent):
            @tool(needs_approval=lambda total: total > 100)
            def refund(self, amount: float, context: ToolContext) -> None: ...


def test_a_predicate_is_not_given_the_agent() -> None:
    with pytest.raises(UsageError, match=r"'self', which refund does not take from the model"):

        class Bank(AIChatAgent):
            @tool(needs_approval=lambda self, amount: amount > self.limit)
            def refund(self, amount: float) -> None: ...


def test_the_predicate_of_an_agent_tool_is_checked_as_well() -> None:
    class Helper(AIChatAgent): ...

    with pytest.raises(UsageError, match=r"'helper'; needs_approval asks for 'topic'.* It may name input\."):
        agent_tool(Helper, needs_approval=lambda topic: True)


def _more(amount: float, **rest: Any) -> None: ...


@pytest.mark.parametrize(
    ("function", "predicate"),
    [
        (pay, lambda: True),
        (pay, lambda amount: True),
        (pay, lambda to, amount: True),
        (pay, lambda amount, limit=100: True),
        (pay, lambda *args, **arguments: True),
        (pay, lambda *, amount: True),
        (pay, bool),
        (_more, lambda whatever: True),
    ],
)
def test_a_predicate_that_can_be_called_is_taken(function: Any, predicate: Any) -> None:
    assert tool(needs_approval=predicate)(function).needs_approval is predicate


@pytest.mark.parametrize("seconds", [1, 0.5, math.inf, None])
def test_a_usable_timeout_is_taken(seconds: float | None) -> None:
    assert tool(timeout=seconds)(pay).timeout == seconds
