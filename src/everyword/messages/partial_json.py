"""Parse incomplete JSON, as the stock client does to show a tool input that is still streaming.

A scanner keeps a stack of open strings, arrays and objects, and the length of the usable prefix. The rest of the text
is cut off and what is open is closed. Invalid JSON is not detected here: the parser that runs next refuses it.
"""

from __future__ import annotations

import json
import re
from enum import Enum, auto
from typing import Any, Final, Literal

import msgspec

from .json_values import has_refused_keys, plain_json

__all__ = ["UNREADABLE", "Unreadable", "parse_partial_json", "repair_json"]


class _Unreadable(Enum):
    UNREADABLE = auto()


UNREADABLE: Final = _Unreadable.UNREADABLE
"""Result of `parse_partial_json` for text that cannot be parsed. None is JSON's null."""

Unreadable = Literal[_Unreadable.UNREADABLE]


def parse_partial_json(text: str) -> Any | Unreadable:
    """Return the value of `text`, or of its usable prefix, or UNREADABLE."""
    value = _parse(text)
    return _parse(repair_json(text)) if value is UNREADABLE else value


def _parse(text: str) -> Any | Unreadable:
    try:
        return _unless_refused(msgspec.json.decode(text), text)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        pass
    # JavaScript accepts two things that msgspec refuses: an escape of a lone surrogate, which a cut between deltas
    # can leave, and numbers beyond the range of a double.
    try:
        value = _unless_refused(json.loads(text, parse_constant=_refuse_constant), text)
        return value if value is UNREADABLE else plain_json(value)
    except (ValueError, RecursionError):
        return UNREADABLE


def _unless_refused(value: Any, text: str) -> Any | Unreadable:
    """Return `value`, or UNREADABLE if it has a key for which the stock client's parser refuses the whole text."""
    suspect = "__proto__" in text or "constructor" in text or "\\u00" in text
    return UNREADABLE if suspect and has_refused_keys(value) else value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


class _In(Enum):
    """What the scanner is inside of, or has just passed."""

    ROOT = auto()
    END = auto()
    STRING = auto()
    ESCAPE = auto()
    UNICODE_ESCAPE = auto()
    LITERAL = auto()
    NUMBER = auto()
    OBJECT_START = auto()
    KEY = auto()
    AFTER_KEY = auto()
    BEFORE_VALUE = auto()
    AFTER_VALUE = auto()
    AFTER_COMMA = auto()
    ARRAY_START = auto()
    AFTER_ITEM = auto()
    AFTER_ITEM_COMMA = auto()


_CLOSED_BY: Final = {
    _In.STRING: '"',
    _In.OBJECT_START: "}",
    _In.KEY: "}",
    _In.AFTER_KEY: "}",
    _In.BEFORE_VALUE: "}",
    _In.AFTER_VALUE: "}",
    _In.AFTER_COMMA: "}",
    _In.ARRAY_START: "]",
    _In.AFTER_ITEM: "]",
    _In.AFTER_ITEM_COMMA: "]",
}

# Characters that only change the state: (inside, character) → next state.
_MOVES: Final = {
    (_In.OBJECT_START, '"'): _In.KEY,
    (_In.AFTER_COMMA, '"'): _In.KEY,
    (_In.KEY, '"'): _In.AFTER_KEY,
    (_In.AFTER_KEY, ":"): _In.BEFORE_VALUE,
    (_In.AFTER_VALUE, ","): _In.AFTER_COMMA,
    (_In.AFTER_ITEM, ","): _In.AFTER_ITEM_COMMA,
}

# Characters that close the current string, array or object.
_CLOSES: Final = frozenset(
    {
        (_In.OBJECT_START, "}"),
        (_In.AFTER_VALUE, "}"),
        (_In.ARRAY_START, "]"),
        (_In.AFTER_ITEM, "]"),
        (_In.STRING, '"'),
    }
)

# States in which a value may begin → the state after that value.
_VALUE_AFTER: Final = {
    _In.ROOT: _In.END,
    _In.BEFORE_VALUE: _In.AFTER_VALUE,
    _In.ARRAY_START: _In.AFTER_ITEM,
    _In.AFTER_ITEM_COMMA: _In.AFTER_ITEM,
}

_VALUE_KINDS: Final = {
    '"': _In.STRING,
    "{": _In.OBJECT_START,
    "[": _In.ARRAY_START,
    **dict.fromkeys("ftn", _In.LITERAL),
    **dict.fromkeys("-0123456789", _In.NUMBER),
}

# Characters inside a string that can be skipped at once: most of a long input.
_IN_STRING: Final = re.compile(r'[^"\\]+')

_LITERALS: Final = ("false", "true", "null")


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.stack = [_In.ROOT]
        self.usable = 0  # length of the usable prefix
        self.literal_at = 0
        self.hex_digits = 0

    def scan(self) -> None:
        text, position = self.text, -1
        while (position := position + 1) < len(text):
            inside = self.stack[-1]
            if inside is _In.STRING and (run := _IN_STRING.match(text, position)) is not None:
                self.usable = position = run.end()
                if position == len(text):
                    return
            char = text[position]
            match inside:
                case _In.NUMBER:
                    self._number(char, position)
                case _In.LITERAL:
                    self._literal(char, position)
                case _In.ESCAPE:
                    self._escape(char, position)
                case _In.UNICODE_ESCAPE:
                    self._unicode_escape(char, position)
                case _In.STRING if char == "\\":
                    self.stack.append(_In.ESCAPE)
                case _:
                    self._structure(inside, char, position)

    def repaired(self) -> str:
        closing = [self.text[: self.usable]]
        for inside in reversed(self.stack):
            if inside is _In.LITERAL:
                begun = self.text[self.literal_at :]
                closing.append(next((word[len(begun) :] for word in _LITERALS if word.startswith(begun)), ""))
            else:
                closing.append(_CLOSED_BY.get(inside, ""))
        return "".join(closing)

    def _structure(self, inside: _In, char: str, position: int) -> None:
        if (inside, char) in _CLOSES:
            self.usable = position + 1
            self.stack.pop()
        elif (inside, char) in _MOVES:
            self.stack[-1] = _MOVES[inside, char]
        elif inside in _VALUE_AFTER:
            if inside is _In.ARRAY_START:
                # ai 6: an array's first item counts from its first character, even from a bare minus.
                self.usable = position + 1
            self._value(inside, char, position)
        elif inside is _In.AFTER_ITEM:
            self.usable = position + 1

    def _value(self, inside: _In, char: str, position: int) -> None:
        kind = _VALUE_KINDS.get(char)
        if kind is None:
            return
        if char != "-":
            self.usable = position + 1
        if kind is _In.LITERAL:
            self.literal_at = position
        self.stack[-1] = _VALUE_AFTER[inside]
        self.stack.append(kind)

    def _number(self, char: str, position: int) -> None:
        if char.isascii() and char.isdigit():
            self.usable = position + 1
        elif char not in "eE-.":
            self.stack.pop()
            if char in ",}]":
                self._behind_value(char, position)

    def _literal(self, char: str, position: int) -> None:
        begun = self.text[self.literal_at : position + 1]
        if any(word.startswith(begun) for word in _LITERALS):
            self.usable = position + 1
            return
        self.stack.pop()
        self._behind_value(char, position)

    def _behind_value(self, char: str, position: int) -> None:
        if self.stack[-1] in (_In.AFTER_VALUE, _In.AFTER_ITEM) and char in ",}]":
            inside = self.stack[-1]
            if (inside, char) in _CLOSES or (inside, char) in _MOVES:
                self._structure(inside, char, position)

    def _escape(self, char: str, position: int) -> None:
        if char == "u":
            self.hex_digits = 0
            self.stack[-1] = _In.UNICODE_ESCAPE
        else:
            self.stack.pop()
            self.usable = position + 1

    def _unicode_escape(self, char: str, position: int) -> None:
        if char in "0123456789abcdefABCDEF":
            self.hex_digits += 1
            if self.hex_digits == 4:
                self.stack.pop()
                self.usable = position + 1


def repair_json(text: str) -> str:
    """Return the usable prefix of `text` with its open strings, arrays and objects closed."""
    scanner = _Scanner(text)
    scanner.scan()
    return scanner.repaired()
