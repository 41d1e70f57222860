"""What can be told of a class before its first turn: a model without a name, a package or a key."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from pydantic_ai.models.test import TestModel

from everyword.agents import Agent, AIChatAgent, Think, agent_tool
from everyword.agents.setup_problems import setup_problems


@pytest.fixture(autouse=True)
def without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)


class Support(Think):
    model = "openai:gpt-5.2"


class Helper(Think):
    model = "anthropic:claude-sonnet-4-5"


class Lead(Think):
    model = TestModel()
    tools = (agent_tool(Helper, description="Helps."),)


class Unset(Think): ...


class Misspelt(Think):
    model = "opnai:gpt-5.2"


class Chooses(Think):
    def get_model(self) -> Any:
        return "openai:gpt-5.2"


class Computed(Think):
    @property
    def model(self) -> str:  # type: ignore[override]
        return "openai:gpt-5.2"


class ByHand(Think):
    async def on_chat_message(self, turn: Any) -> Any:
        yield "by hand"


def test_a_model_without_its_key_is_named_with_the_variable_to_set() -> None:
    ((cls, why),) = setup_problems([Support])
    assert cls is Support
    assert why.startswith("unable to use the model 'openai:gpt-5.2'; Set the `OPENAI_API_KEY` environment variable")


def test_a_model_with_its_key_is_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    assert setup_problems([Support]) == []


def test_an_agent_that_works_as_a_tool_is_looked_at_as_well() -> None:
    ((cls, why),) = setup_problems([Lead])
    assert cls is Helper and "ANTHROPIC_API_KEY" in why


def test_a_class_is_named_once_however_often_it_is_used() -> None:
    found = setup_problems([Lead, Support, Helper, Support])
    assert [cls for cls, _ in found] == [Support, Helper]


@pytest.mark.parametrize(
    ("cls", "why"),
    [
        (Unset, "set `model` on Unset, e.g. model = 'openai:gpt-5.2'"),
        (Misspelt, "unable to use the model 'opnai:gpt-5.2'; Unknown model"),
    ],
)
def test_a_model_that_cannot_be_found_is_named(cls: type[Agent], why: str) -> None:
    ((_, found),) = setup_problems([cls])
    assert why in found


def test_a_missing_package_is_named_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai.models", None)
    ((_, why),) = setup_problems([Support])
    assert "pydantic-ai-slim is missing. Install what the extra 'pydantic-ai' needs" in why


@pytest.mark.parametrize("cls", [Agent, AIChatAgent, Chooses, Computed, ByHand])
def test_nothing_is_said_of_a_class_that_chooses_for_itself(cls: type[Agent]) -> None:
    assert setup_problems([cls]) == []
