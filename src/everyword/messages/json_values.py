"""JSON that every client can read: encode values, and handle lone surrogates and keys that clients refuse."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from ..errors import NoJsonForm

__all__ = ["encode_json", "has_refused_keys", "plain_json", "scrub_text"]

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

# The stock client's JSON parser refuses objects with these keys, at any depth.
_SUSPECT_KEY = re.compile(rb'"(?:__proto__|constructor)":')


def scrub_text(text: str) -> str:
    """Join surrogate pairs that are two characters; replace lone surrogates by U+FFFD."""
    if text.isascii() or not _LONE_SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def encode_json(value: Any) -> bytes:
    """Encode the value as compact UTF-8 JSON. Lone surrogates are replaced (see `scrub_text`).

    Raises NoJsonForm for values without a JSON form (open files, functions, endless nesting).
    """
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_scrub(msgspec.to_builtins(value, str_keys=True)))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise NoJsonForm(f"unable to encode a value as JSON; {error}") from error


def plain_json(value: Any) -> Any:
    """Return an independent copy of `value` that consists of dict, list, str, number, bool and None only.

    Keys that the stock client's parser refuses are left out. Raises NoJsonForm like `encode_json`.
    """
    body = encode_json(value)
    try:
        copy = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise NoJsonForm(f"unable to carry a value as JSON; {error}") from error
    return _without_refused_keys(copy) if _SUSPECT_KEY.search(body) else copy


def _model_fields(value: Any) -> Any:
    """Encode Pydantic models without importing Pydantic."""
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"{type(value).__name__} has no JSON form")
    return dump(mode="json")


_encode = msgspec.json.Encoder(enc_hook=_model_fields).encode


def _scrub(value: Any) -> Any:
    match value:
        case str():
            return scrub_text(value)
        case dict():
            return {scrub_text(key): _scrub(item) for key, item in value.items()}
        case list():
            return [_scrub(item) for item in value]
        case _:
            return value


def has_refused_keys(value: Any) -> bool:
    """Return True if the stock client's JSON parser refuses `value` because a key names a prototype."""
    match value:
        case dict():
            made = value.get("constructor")
            named = "__proto__" in value or (isinstance(made, dict) and "prototype" in made)
            return named or any(has_refused_keys(item) for item in value.values())
        case list():
            return any(has_refused_keys(item) for item in value)
        case _:
            return False


def _without_refused_keys(value: Any) -> Any:
    match value:
        case dict():
            kept = {key: _without_refused_keys(item) for key, item in value.items() if key != "__proto__"}
            made = kept.get("constructor")
            if isinstance(made, dict) and "prototype" in made:
                del kept["constructor"]
            return kept
        case list():
            return [_without_refused_keys(item) for item in value]
        case _:
            return value
