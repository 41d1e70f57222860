"""Arguments and results of method calls as JSON: encoded by value, decoded by the method's type hints.

Callers and agents share no mutable objects, even in one process.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ...errors import BadInput, UsageError
from ...messages.message import UIMessage
from ..callables import CallResult

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = ["MethodTypes", "decode_arguments", "decode_value", "encode_arguments", "encode_value", "method_types"]

_STREAMS: Final = (AsyncIterator, AsyncGenerator, AsyncIterable)


@dataclass(frozen=True, slots=True)
class MethodTypes:
    """The parameters and the result type of a method."""

    name: str
    """The name for errors: `Shop.add`."""
    signature: inspect.Signature
    """Without `self`."""
    hints: Mapping[str, Any]
    result: Any
    """The type of the result, or of each value of a stream; Any if there is no hint."""
    is_stream: bool


def method_types(function: Callable[..., Any], cls: type[Any]) -> MethodTypes:
    """Return the types of a method of a class.

    Raises:
        UsageError: its hints cannot be resolved.
    """
    return _shape_of(function, f"{cls.__name__}.{function.__name__}")


@lru_cache(maxsize=1024)
def _shape_of(function: Callable[..., Any], name: str) -> MethodTypes:
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception as exc:  # noqa: BLE001 - evaluating hints may raise anything
        raise UsageError(f"unable to call {name}; its hints cannot be read: {exc}. Import what they name.") from None
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())[1:]
    given = hints.pop("return", Any)
    is_stream = inspect.isasyncgenfunction(inspect.unwrap(function)) or typing.get_origin(given) in _STREAMS
    result = _item_type(given) if is_stream else given
    return MethodTypes(name, signature.replace(parameters=parameters), hints, result, is_stream)


def _item_type(hint: Any) -> Any:
    """Return the type of a stream's values, without a CallResult that it may end with."""
    item = next(iter(typing.get_args(hint)), Any)
    if item is CallResult:
        return Any
    of = [each for each in typing.get_args(item) if each is not CallResult]
    return reduce(or_, of) if CallResult in typing.get_args(item) and of else item


def encode_value(value: Any, what: str = "a value") -> bytes:
    """Return a value as JSON: plain values, models, dataclasses, messages, times and the like.

    Raises:
        UsageError: it has no JSON form; the text names it as `what`.
    """
    from pydantic_core import to_json

    try:
        return to_json(value, fallback=_other_form)
    except (ValueError, TypeError, RecursionError) as exc:
        reason = str(exc).removeprefix("Error calling `fallback`: ").removeprefix("TypeError: ")
        raise UsageError(f"unable to send {what} as JSON; {reason}") from None


def _other_form(value: Any) -> Any:
    if isinstance(value, UIMessage):
        return value.to_dict()
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def decode_value(body: bytes, hint: Any, what: str) -> Any:
    """Return the value of a JSON text, as the type of the hint.

    Raises:
        BadInput: it does not fit the hint.
        UsageError: the type of the hint has no JSON form.
    """
    from pydantic import PydanticUserError, ValidationError

    try:
        return _adapter(hint).validate_json(body)
    except ValidationError as exc:
        first = exc.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise BadInput(f"unable to take {what}; {place + ': ' if place else ''}{first['msg']}") from None
    except PydanticUserError as exc:
        raise UsageError(f"unable to take {what}; {hint!r} has no JSON form: {exc.message.partition('.')[0]}") from None


def _adapter(hint: Any) -> TypeAdapter[Any]:
    try:
        return _known_adapter(hint)
    except TypeError:  # the hint is not hashable: Annotated[int, [1]]
        return _known_adapter.__wrapped__(hint)


@lru_cache(maxsize=1024)
def _known_adapter(hint: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(hint)


def encode_arguments(types: MethodTypes, args: Sequence[Any], named: Mapping[str, Any]) -> bytes:
    """Return the arguments of a call as JSON.

    Raises:
        UsageError: they do not fit the signature, or one has no JSON form.
    """
    try:
        types.signature.bind(*args, **named)
    except TypeError as exc:
        raise UsageError(f"unable to call {types.name}; {exc}. It takes {types.signature}") from None
    first = [encode_value(value, f"argument {place} of {types.name}") for place, value in enumerate(args, 1)]
    rest = [
        msgspec.json.encode(name) + b":" + encode_value(value, f"{name} of {types.name}")
        for name, value in named.items()
    ]
    return b"[[%b],{%b}]" % (b",".join(first), b",".join(rest))


def decode_arguments(types: MethodTypes, body: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments as the types of the method's hints.

    Raises:
        BadInput: they do not fit the signature or the hints.
    """
    args, named = msgspec.json.decode(body, type=tuple[list[msgspec.Raw], dict[str, msgspec.Raw]])
    try:
        bound = types.signature.bind(*args, **named)
    except TypeError as exc:  # the caller's process may have an older version of the class
        raise BadInput(f"unable to call {types.name}; {exc}. It takes {types.signature}") from None
    for name, given in bound.arguments.items():
        hint, what = types.hints.get(name, Any), f"{name} of {types.name}"
        match types.signature.parameters[name].kind:
            case inspect.Parameter.VAR_POSITIONAL:
                bound.arguments[name] = tuple(decode_value(bytes(each), hint, what) for each in given)
            case inspect.Parameter.VAR_KEYWORD:
                bound.arguments[name] = {key: decode_value(bytes(each), hint, what) for key, each in given.items()}
            case _:
                bound.arguments[name] = decode_value(bytes(given), hint, what)
    return bound.args, bound.kwargs
