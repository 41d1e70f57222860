"""Which methods of an agent class can be called through a handle: the public ones that its author wrote."""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Callable
from typing import Any, Final

from ...errors import UsageError

__all__ = ["is_framework_name", "method_named", "name_of_method"]

FRAMEWORK_PREFIX: Final = "everyword.agents."
"""How the modules begin whose classes are the framework's."""

INSTEAD: Final = {
    "state": "use `await handle.get_state()`",
    "messages": "use `await handle.get_messages()`",
    "update_state": "functions do not travel. Write a method that calls `self.update_state`, and call that",
    "app": "use the app that the handle comes from",
}


def method_named(cls: type[Any], name: str) -> Callable[..., Any]:
    """Return the method that a name means.

    Raises:
        UsageError: it is none that other code may call; the text says what to do instead.
    """
    found = inspect.getattr_static(cls, name, None)
    if name.startswith("_"):
        why = "it is private. Give the method a public name"
    elif is_framework_name(cls, name):
        why = INSTEAD.get(name) or _own_use(cls, name)
    elif found is None:
        why = f"{cls.__name__} has no method of that name"
    elif not inspect.isfunction(found):
        why = f"a handle has methods only. Write a method of {cls.__name__} that returns it, and call that"
    else:
        return found
    raise UsageError(f"unable to use {name!r} of a handle to {cls.__name__}; {why}")


def name_of_method(cls: type[Any], method: object) -> str:
    """Return the name of a method that was given as `Shop.add`.

    Raises:
        UsageError: it is no method of the class.
    """
    if inspect.isfunction(method):
        for base in cls.__mro__:
            for name, member in vars(base).items():
                if member is method:
                    return name
    raise UsageError(
        f"unable to call {reprlib.repr(method)} through a handle; it is no method of {cls.__name__}. Name one as "
        f"`{cls.__name__}.method`, without calling it."
    )


def is_framework_name(cls: type[Any], name: str) -> bool:
    """Tell whether a name is one of the framework's, also where a class overrides it."""
    return any(name in vars(base) for base in cls.__mro__ if f"{base.__module__}.".startswith(FRAMEWORK_PREFIX))


def _own_use(cls: type[Any], name: str) -> str:
    if name.startswith("on_"):
        return "it is a hook, which the framework calls. Move what you need into a method, and call that"
    return f"it is for the agent's own code. Write a method of {cls.__name__} that uses it, and call that"
