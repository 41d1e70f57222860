"""Finds the tools of an agent: methods of its class, and its list `tools`."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from ...errors import UsageError
from .definition import AnyTool, Tool, tool

__all__ = ["tools_of"]


def tools_of(agent: Any) -> dict[str, AnyTool]:
    """Return the tools of an agent, or of its class, by name: methods, inherited ones first, then the list `tools`.

    Those of an instance are bound to it.

    Raises:
        UsageError: two tools have one name, or `tools` holds something that is no tool.
    """
    is_class = isinstance(agent, type)
    cls = agent if is_class else type(agent)
    found: dict[str, AnyTool] = {}
    for value in _methods(cls):  # type: ignore[arg-type]  # mypy takes a class for one of its instances
        _add(found, value if is_class else value.__get__(agent, cls), cls)
    listed = getattr(agent, "tools", None)
    if listed is None or callable(listed) or isinstance(listed, property):
        return found
    if not isinstance(listed, list | tuple):
        raise UsageError(f"unable to read {cls.__name__}.tools; it is {type(listed).__name__}, not a list of tools")
    for each in listed:
        _add(found, each if isinstance(each, Tool) else tool(each), cls)
    return found


@functools.cache
def _methods(cls: type) -> list[AnyTool]:
    """Return the tools among a class's attributes, inherited ones first. A class does not change once it is used."""
    found: list[AnyTool] = []
    for attribute in dict.fromkeys(name for base in reversed(cls.__mro__) for name in vars(base)):
        value = inspect.getattr_static(cls, attribute)
        value = value.__func__ if isinstance(value, staticmethod) else value
        if isinstance(value, Tool):
            found.append(value)
    return found


def _add(found: dict[str, AnyTool], each: AnyTool, cls: type) -> None:
    if each.name in found:
        raise UsageError(f"unable to collect the tools of {cls.__name__}; two are named {each.name!r}: give one name=…")
    found[each.name] = each
