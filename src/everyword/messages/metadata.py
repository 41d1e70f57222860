"""Merge message metadata, with the same results as the stock client."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["merge_metadata"]

_REFUSED: Final = frozenset({"__proto__", "constructor", "prototype"})


def merge_metadata(base: Any, given: Any) -> Any:
    """Return `base` updated with `given`: objects are merged recursively, other values are replaced.

    If one of them is None, the other is returned. Neither argument is changed; the result may share values with both.
    Raises TypeError if `base` is a scalar and `given` has named values.
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
    """Return the entries that JavaScript enumerates: those of an object, or of a list or string by position."""
    match value:
        case dict():
            return value
        case list() | str():
            return {str(position): item for position, item in enumerate(value)}
        case _:
            return {}
