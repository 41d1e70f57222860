"""Errors of calls by value: class and text travel, the exception itself stays where it was raised."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ..errors import CallFailed, EverywordError

__all__ = ["describe_failure", "revive_failure"]


class _Failure(msgspec.Struct, frozen=True):
    code: str
    text: str
    fields: dict[str, Any]
    """Attributes of the exception that are plain values, as `SqlError.is_constraint`."""


def describe_failure(exc: Exception, method: str) -> bytes:
    """Return an exception as JSON: errors of everyword as they are, of others only that the call failed."""
    known = _known_class(exc)
    if known is None:
        return msgspec.json.encode(_Failure(CallFailed.code, f"The call of {method} failed.", {}))
    fields = {name: value for name, value in vars(exc).items() if value is None or type(value) in (bool, int, str)}
    return msgspec.json.encode(_Failure(known.code, str(exc), fields))


def revive_failure(body: bytes) -> EverywordError:
    """Return the exception that was described."""
    failure = msgspec.json.decode(body, type=_Failure)
    cls = _BY_CODE.get(failure.code, CallFailed)
    revived = cls.__new__(cls, failure.text)  # without `__init__`: some classes want more than a text
    revived.args = (failure.text,)
    vars(revived).update(failure.fields)
    return revived


def _known_class(exc: Exception) -> type[EverywordError] | None:
    """Return the nearest class of our own: a subclass of an application is not known in every process."""
    return next((cls for cls in type(exc).__mro__ if _BY_CODE.get(getattr(cls, "code", "")) is cls), None)


def _classes(cls: type[EverywordError]) -> Iterator[type[EverywordError]]:
    yield cls
    for each in cls.__subclasses__():
        if each.__module__ == EverywordError.__module__:
            yield from _classes(each)


_BY_CODE = {cls.code: cls for cls in _classes(EverywordError)}
