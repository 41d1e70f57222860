"""Checks the options of `@tool` when a tool is defined, so that a wrong one does not first fail during a call."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from ...errors import UsageError
from ..durations import to_seconds

__all__ = ["check_options"]


def check_options(name: str, function: Callable[..., Any] | None, **options: Any) -> None:
    """Raise UsageError for an option of a wrong type, and for a predicate whose parameters do not fit the tool."""
    approval, timeout = options["needs_approval"], options["timeout"]
    for each in ("client", "idempotent", "show_errors_to_model"):
        if not isinstance(options[each], bool):
            raise _wrong(name, each, options[each], "a bool")
    if not isinstance(options["description"], str):
        raise _wrong(name, "description", options["description"], "a str")
    if timeout is not None:
        if isinstance(timeout, bool) or not isinstance(timeout, int | float | timedelta):
            raise _wrong(name, "timeout", timeout, "a number of seconds")
        if not (seconds := to_seconds(timeout)) > 0:
            raise UsageError(f"unable to make the tool {name!r}; its timeout of {seconds} seconds is not positive")
    if not isinstance(approval, bool) and not callable(approval):
        raise _wrong(name, "needs_approval", approval, "a bool or a function")
    if options["client"] and approval:
        raise UsageError(
            f"unable to make the tool {name!r}; the page runs it as soon as it is called, so needs_approval has "
            "no effect. Let the page ask before it answers, or run the tool on the server."
        )
    if callable(approval) and function is not None:
        _check_predicate(name, approval, function)


def _wrong(name: str, option: str, value: Any, wanted: str) -> UsageError:
    return UsageError(f"unable to make the tool {name!r}; {option} is {type(value).__name__}, not {wanted}")


def _check_predicate(name: str, predicate: Callable[..., Any], function: Callable[..., Any]) -> None:
    """Raise UsageError if a predicate has parameters that are not arguments of the tool; they are passed by name."""
    asked, taken = _parameters(predicate), _parameters(function)
    if asked is None or taken is None:
        return  # written in C, without a signature
    offered = [each.name for each in taken if _is_from_model(each, is_first=each is taken[0])]
    is_open = any(each.kind is each.VAR_KEYWORD for each in taken)
    for each in asked:
        if each.default is not each.empty or each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
            continue
        if each.kind is each.POSITIONAL_ONLY:
            raise UsageError(
                f"unable to make the tool {name!r}; needs_approval takes {each.name!r} by position; arguments are "
                "given by name"
            )
        if each.name not in offered and not is_open:
            may = f"It may name {', '.join(offered)}." if offered else "It must take no parameters."
            raise UsageError(
                f"unable to make the tool {name!r}; needs_approval asks for {each.name!r}, which {name} does not take "
                f"from the model. {may}"
            )


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None


def _is_from_model(parameter: inspect.Parameter, *, is_first: bool) -> bool:
    # The annotation is not resolved: it may be a string that names a class which is defined later.
    is_context = "ToolContext" in str(parameter.annotation)
    is_self = is_first and parameter.name == "self"
    return not is_self and not is_context and parameter.kind is not parameter.VAR_KEYWORD
