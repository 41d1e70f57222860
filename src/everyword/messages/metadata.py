"""Merging of message metadata, with the stock client's results."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["merge_metadata"]

_REFUSED: Final = frozenset({"__proto__", "constructor", "prototype"})


def merge_metadata(base: Any, given: Any) -> Any:
    """Lay `given` over `base`: objects are merged in depth, everything else is replaced.

    Nothing is merged into or from None. Neither argument is changed; the result may share values with
    both. Raises TypeError when `base` is a scalar that named values cannot be merged into.
    """
    if given is None:
        return base
    if base is None:
        return given
    named = {key: value for key, value in _members(given).items() if key not in _REFUSED}
    if named and not isinstance(base, (dict, list)):
        raise TypeError(f"named values cannot be merged into a {type(base).__name__}")
    merged = dict(_members(base))
    for key, value in named.items():
        held = merged.get(key)
        both = isinstance(held, dict) and isinstance(value, dict)
        merged[key] = merge_metadata(held, value) if both else value
    return merged


def _members(value: Any) -> dict[str, Any]:
    """Return what JavaScript would enumerate: an object's entries, a list's or string's by position."""
    match value:
        case dict():
            return value
        case list() | str():
            return {str(position): item for position, item in enumerate(value)}
        case _:
            return {}
