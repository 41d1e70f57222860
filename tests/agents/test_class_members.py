"""The members of agent classes: few, in three groups, and not hidden by accident."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from typing_extensions import override

from everyword import Agent, AIChatAgent, Think, ToolContext, callable_method, tool
from everyword.agents.class_members import HOOKS, SETTINGS
from everyword.errors import UsageError
from tests.agents.kit import served

CALLED = {
    Agent: {
        *(
            "name",
            "principal",
            "attachments",
            "app",
            "parent",
            "destroy",
            "keep_alive",
            "connections",
            "broadcast",
            "sql",
        ),
        *("state", "set_state", "update_state"),
        *("jobs", "queue", "schedule", "cancel_schedule"),
        *("fibers", "run_fiber", "sub_agents", "sub_agent", "agent_tools", "run_agent_tool"),
    },
    AIChatAgent: {
        *("messages", "save_messages", "persist_messages", "continue_last_turn", "clear_history", "versions"),
        *("abort_request", "abort_all_requests", "reset_turn_state", "wait_until_stable", "has_pending_interaction"),
    },
    Think: {"run_turn", "submit_messages", "submissions"},
}
"""What one calls or reads, by the class that adds it."""

MOST = {Agent: (25, 45), AIChatAgent: (40, 66), Think: (48, 82)}
"""How many members a class may have: those that one calls or reads, and all of them."""


def members(cls: type[Agent]) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


@pytest.mark.parametrize("cls", MOST)
def test_every_member_is_a_hook_a_setting_or_something_to_call(cls: type[Agent]) -> None:
    called = {name for base in cls.__mro__ for name in CALLED.get(base, ())}
    assert members(cls) - HOOKS - SETTINGS == called
    assert len(called) <= MOST[cls][0]
    assert len(members(cls)) <= MOST[cls][1]


def test_every_hook_and_setting_exists() -> None:
    assert set() == HOOKS & SETTINGS
    assert (HOOKS | SETTINGS) - members(Think) == {"kind"}  # which only classes of users have


# -- names that the framework needs ----------------------------------------------------------------------------------


def made(name: str, value: Any, base: type = AIChatAgent) -> type:
    return type("Mine", (base,), {name: value})


class Queueing:
    """A part of an agent of the user's, which knows nothing of agents."""

    def queue(self) -> list[int]:
        return []


def plain(self: Any) -> None: ...


async def waits(self: Any) -> None: ...


@tool
async def broadcast(text: str) -> str:
    """Tell everybody."""
    return text


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("queue", plain, "'queue' hides a member of HasJobs that the framework needs. Choose another name, or mark"),
        ("messages", [], "'messages' hides a member of AIChatAgent that the framework needs. Choose another name.$"),
        ("jobs", property(plain), "'jobs' hides a member of HasJobs"),
        ("broadcast", broadcast, r"Rename the method; models still see the old name with @tool\(name='broadcast'\)"),
        ("_runtime", 3, "'_runtime' hides a member of"),
        ("_connections", {}, "'_connections' hides a member of Agent"),
        ("sub_agents", (Agent,), "the setting 'sub_agents' is called 'sub_agent_classes'"),
        ("on_start", 3, "'on_start' is a hook: define it as a method"),
        ("validate_state_change", waits, "the hook 'validate_state_change' is not awaited: write `def`"),
        ("initial_state", plain, "'initial_state' is a setting: assign a value, or make it a property"),
    ],
)
def test_a_member_that_hides_one_of_the_framework_is_refused(name: str, value: Any, told: str) -> None:
    with pytest.raises(UsageError, match=f"unable to make Mine; .*{told}"):
        made(name, value)


def test_a_member_of_another_base_is_refused_if_it_hides_one() -> None:
    with pytest.raises(UsageError, match="unable to make Mine, which inherits from Queueing; 'queue' hides"):

        class Mine(Queueing, Agent): ...

    class Fine(Agent, Queueing):  # type: ignore[misc]
        """The agent's own comes first."""

    assert Fine.queue is Agent.queue


def test_a_base_that_is_no_chat_is_checked_again_when_it_becomes_one() -> None:
    class Base(Agent):
        def clear_history(self) -> None: ...

    with pytest.raises(UsageError, match="'clear_history' hides a member of AIChatAgent"):

        class Mine(Base, AIChatAgent):  # type: ignore[misc]
            ...


def test_a_member_that_is_marked_with_override_is_let_through() -> None:
    class Careful(AIChatAgent):
        @override
        async def clear_history(self) -> None:
            await super().clear_history()

        @callable_method
        @override
        async def abort_all_requests(self) -> None:
            await super().abort_all_requests()

        @property
        @override
        def name(self) -> str:
            return super().name.title()

    class More(Careful):
        """Inherits them."""

    with pytest.raises(UsageError, match="'clear_history' hides"):

        class Careless(Careful):
            async def clear_history(self) -> None: ...

    assert More.clear_history is Careful.clear_history


def test_hooks_and_settings_may_be_anything_that_works() -> None:
    class Mine(Think):
        on_start = functools.partialmethod(waits)  # type: ignore[assignment]
        model = property(plain)
        tools = ()

        def on_chat_message(self, turn: Any) -> str:
            return "hello"

        @tool
        async def find(self, context: ToolContext) -> str:
            """Look."""
            return "found"

    assert Mine.kind == "mine"


async def test_an_attribute_of_an_agent_that_would_hide_a_method_is_refused() -> None:
    class Mine(AIChatAgent):
        async def on_start(self) -> None:
            self.cart: list[int] = []
            self.max_persisted_messages = 3

    async with served(Mine) as serving:
        agent: Any = serving.agent
        for name in ("queue", "jobs", "save_messages"):
            with pytest.raises(UsageError, match=f"unable to set '{name}' of Mine; it would hide Mine.{name}"):
                setattr(agent, name, [])
        agent.cart = [1]
