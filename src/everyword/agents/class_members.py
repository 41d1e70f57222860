"""The members of agent classes: lists of hooks and settings, and the check that a class hides no other member."""

from __future__ import annotations

import functools
import inspect
from typing import Any, Final

from ..errors import UsageError

__all__ = ["HOOKS", "SETTINGS", "check_attribute", "check_members", "is_framework_class"]

HOOKS: Final = frozenset(
    {
        *("on_start", "on_connect", "on_message", "on_close", "on_error", "on_request", "on_erase"),
        "prepare_connection",
        *("validate_state_change", "on_state_changed", "upgrade_state"),
        *("on_before_sub_agent", "on_fiber_recovered", "on_agent_tool_start", "on_agent_tool_finish"),
        *("on_chat_message", "on_chat_response", "on_chat_recovery", "sanitize_message_for_persistence", "error_text"),
        *("agent_tool_input", "agent_tool_output"),
        *("get_model", "before_turn", "before_step", "on_step_finish", "on_chunk"),
    }
)
"""Methods that users define and the framework calls."""

PLAIN_HOOKS: Final = frozenset(
    {"prepare_connection", "validate_state_change", "upgrade_state", "sanitize_message_for_persistence", "error_text"}
)
"""Hooks that are not awaited."""

SETTINGS: Final = frozenset(
    {
        *("kind", "aliases", "read_only_may_send", "initial_state", "state_model"),
        *("sub_agent_classes", "agent_tool_limits"),
        *("max_persisted_messages", "message_concurrency", "trust_client_messages", "turn_limits"),
        *(
            "model",
            "instructions",
            "name_speakers",
            "tools",
            "max_steps",
            "model_settings",
            "output_types",
            "output_retries",
        ),
    }
)
"""Attributes that users assign in their classes."""

FORMER_SETTINGS: Final = {"sub_agents": "sub_agent_classes"}
"""Names that settings had, and are members now → their present names."""

SET_BY_US: Final = frozenset({"_declared_kind"})
"""Members that the framework itself sets on the classes of users."""

_PACKAGE: Final = __name__.rpartition(".")[0]


def is_framework_class(cls: type) -> bool:
    """Tell whether a class is one that users subclass, or a part of one."""
    return cls.__module__.startswith(f"{_PACKAGE}.")


def check_members(cls: type) -> None:
    """Raise UsageError if a class, or a class that it inherits from, hides a member that the framework needs.

    Hooks and settings are there to be replaced; other members only with `typing.override`.
    """
    found: set[str] = set()
    for place, base in enumerate(cls.__mro__):
        if is_framework_class(base):
            continue
        below = [each for each in cls.__mro__[place + 1 :] if is_framework_class(each)]
        for name, value in vars(base).items():
            if name in found or name in SET_BY_US or name.startswith("__"):
                continue
            found.add(name)
            hidden = next((each for each in below if name in _members_of(each)), None)
            if hidden is not None:
                _check_member(cls, base, name, value, hidden)


def check_attribute(agent: Any, name: str) -> None:
    """Raise UsageError if an attribute of this name would hide a public method or property of an agent."""
    cls: type = type(agent)
    if name in _public_members(cls):
        raise UsageError(
            f"unable to set {name!r} of {cls.__name__}; it would hide {cls.__name__}.{name}. Choose another name."
        )


@functools.cache
def _members_of(cls: type) -> frozenset[str]:
    """Return the names of a class's own members, those that only its instances have included."""
    return frozenset(name for name in (*vars(cls), *inspect.get_annotations(cls)) if not name.startswith("__"))


@functools.cache
def _public_members(cls: type) -> frozenset[str]:
    ours = {name for base in cls.__mro__ if is_framework_class(base) for name in _members_of(base)}
    return frozenset(name for name in ours - HOOKS - SETTINGS if not name.startswith("_"))


def _check_member(cls: type, base: type, name: str, value: Any, hidden: type) -> None:
    owner = cls.__name__ if base is cls else f"{cls.__name__}, which inherits from {base.__name__}"
    if name in HOOKS:
        if not callable(value) and not hasattr(value, "__get__"):
            raise UsageError(f"unable to make {owner}; {name!r} is a hook: define it as a method")
        if name in PLAIN_HOOKS and inspect.iscoroutinefunction(_function(value)):
            raise UsageError(f"unable to make {owner}; the hook {name!r} is not awaited: write `def`, not `async def`")
    elif name in SETTINGS:
        if inspect.isfunction(value):
            raise UsageError(f"unable to make {owner}; {name!r} is a setting: assign a value, or make it a property")
    elif not _is_override(value):
        raise UsageError(f"unable to make {owner}; {_problem(name, value, hidden)}")


def _problem(name: str, value: Any, hidden: type) -> str:
    if name in FORMER_SETTINGS and not callable(value):
        return f"the setting {name!r} is called {FORMER_SETTINGS[name]!r}"
    from .tools.definition import Tool

    if isinstance(value, Tool):
        todo = f"Rename the method; models still see the old name with @tool(name={value.name!r})."
    elif inspect.isroutine(value) or isinstance(value, property):
        todo = "Choose another name, or mark it with @typing.override if it is meant to replace that."
    else:
        todo = "Choose another name."
    return f"{name!r} hides a member of {hidden.__name__} that the framework needs. {todo}"


def _is_override(value: Any) -> bool:
    """Tell whether `typing.override` is on a method, property or tool; it marks what it is given."""
    return getattr(value, "__override__", False) is True or getattr(_function(value), "__override__", False) is True


def _function(value: Any) -> Any:
    """Return the function in a property, classmethod, staticmethod, cached property or tool."""
    inner = (getattr(value, name, None) for name in ("fget", "__func__", "func", "_function"))
    return next((each for each in inner if each is not None), value)
