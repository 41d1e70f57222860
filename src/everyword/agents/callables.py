"""`@callable_method`: methods that clients may call over the socket, with arguments checked against their hints."""

from __future__ import annotations

import inspect
import logging
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from ..errors import BadInput, UsageError

__all__ = ["CallResult", "callable_method", "check_arguments", "find_callable"]

F = TypeVar("F", bound=Callable[..., Any])
_MARK = "__everyword_callable__"
_FOR_READERS = "__everyword_read_only__"
log = logging.getLogger("everyword.agents")


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of a callable that streams its values: `yield CallResult(total)` ends the call with it.

    Async generators cannot return a value. Code after this `yield` is not run.
    """

    value: Any


@overload
def callable_method(method: F, /) -> F: ...


@overload
def callable_method(*, read_only: bool = False) -> Callable[[F], F]: ...


def callable_method(method: F | None = None, /, *, read_only: bool = False) -> F | Callable[[F], F]:
    """Let clients call this method: `await agent.call("add", [1, 2])`. An async generator streams its values.

    A generator may end with a result: `yield CallResult(total)`.
    `@callable_method(read_only=True)` lets read-only clients call it, too: use it for methods that change nothing.
    Also exported as `everyword.callable`, the name in the original; it hides Python's own.
    """

    def mark(marked: F) -> F:
        if not inspect.isfunction(marked):
            raise UsageError(
                "unable to make this callable; put @callable_method directly on a method, below other decorators"
            )
        setattr(marked, _MARK, True)
        setattr(marked, _FOR_READERS, read_only is True)
        return marked

    return mark if method is None else mark(method)


CLIENT_PREFIX = "everyword."
"""Prefix of the names that our Python client calls only to get a reply, which marks a place among the frames."""

MOST_HINTS = 100
_hinted: set[tuple[str, str]] = set()


def _hint(cls: type[Any], name: str, text: str) -> None:
    """Log how to fix a refused call, once per method: a client must not be able to fill the log."""
    if name.startswith(CLIENT_PREFIX) or (cls.__name__, name) in _hinted or len(_hinted) >= MOST_HINTS:
        return
    _hinted.add((cls.__name__, name))
    log.warning("a client called %r of %s; %s", name[:100], cls.__name__, text)


def find_callable(agent: Any, name: str, *, is_read_only: bool = False) -> Callable[..., Any]:
    """Return the method that a client means.

    Raises:
        BadInput: there is none, or it is not for clients, or not for those that are read-only; the text is for them.
    """
    owner, attribute = agent, name
    function = None if name.startswith("_") else inspect.getattr_static(type(agent), name, None)
    if function is None and name in type(agent)._family_callables:
        family, attribute = type(agent)._family_callables[name]
        owner = getattr(agent, family)
        function = inspect.getattr_static(type(owner), attribute)
    if function is None or not inspect.isfunction(function):
        _hint(type(agent), name, f"clients may call: {_listed(type(agent))}")
        raise BadInput(f"Method {name} does not exist")
    if not getattr(function, _MARK, False):
        _hint(type(agent), name, "put @callable_method on it if clients may")
        raise BadInput(f"Method {name} is not callable")
    if is_read_only and not getattr(function, _FOR_READERS, False):
        _hint(
            type(agent),
            name,
            "its connection is read-only. Write @callable_method(read_only=True) if it changes nothing",
        )
        raise BadInput(f"unable to call {name}; this connection is read-only")
    method: Callable[..., Any] = getattr(owner, attribute)
    return method


def _listed(cls: type[Any]) -> str:
    names = {name for base in cls.__mro__ for name, member in vars(base).items() if getattr(member, _MARK, False)}
    names |= {name for name in cls._family_callables if not hasattr(cls, name)}
    return ", ".join(sorted(names)) or "nothing. Put @callable_method on a method to let them"


def _signature(method: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(method, eval_str=True)
    except Exception:  # noqa: BLE001 - hints may name anything; they are checked, and complained of, elsewhere
        return inspect.signature(method)


def check_arguments(method: Callable[..., Any], name: str, given: Sequence[Any]) -> list[Any]:
    """Return the arguments as the method's hints want them.

    Raises:
        BadInput: there are too few or too many, or one does not fit; the text is for the caller.
    """
    signature = _signature(method)
    try:
        bound = signature.bind(*given)
    except TypeError as exc:
        raise BadInput(f"unable to call {name}; {exc}. It takes {signature}") from None
    from pydantic import TypeAdapter, ValidationError

    hints = typing.get_type_hints(method)
    checked: list[Any] = []
    for parameter, value in bound.arguments.items():
        values = value if signature.parameters[parameter].kind is inspect.Parameter.VAR_POSITIONAL else (value,)
        for each in values:
            if parameter not in hints:
                checked.append(each)
                continue
            try:
                checked.append(TypeAdapter(hints[parameter]).validate_python(each))
            except ValidationError as exc:
                first = exc.errors()[0]
                place = ".".join([parameter, *map(str, first["loc"])])
                raise BadInput(f"unable to call {name}; {place}: {first['msg']}") from None
    return checked
