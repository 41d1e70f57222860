"""Reading JSON that is still being written: what the stock client shows of an unfinished tool input.

A scanner keeps a stack of what is open and remembers how far the text is usable; the rest is cut off
and what is open gets closed. Broken JSON is not judged here: the parser that follows refuses it.
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
"""What `parse_partial_json` returns for text of which nothing can be read; None is JSON's null."""

Unreadable = Literal[_Unreadable.UNREADABLE]


def parse_partial_json(text: str) -> Any | Unreadable:
    """Return the value of `text`, or of as much of it as is complete, or UNREADABLE."""
    value = _parse(text)
    return _parse(repair_json(text)) if value is UNREADABLE else value


def _parse(text: str) -> Any | Unreadable:
    try:
        return _unless_refused(msgspec.json.decode(text), text)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        pass
    # JavaScript takes two things that msgspec refuses: an escape for half a character, which a cut
    # between deltas leaves behind, and numbers beyond the range of a double.
    try:
        value = _unless_refused(json.loads(text, parse_constant=_refuse_constant), text)
        return value if value is UNREADABLE else plain_json(value)
    except (ValueError, RecursionError):
        return UNREADABLE


def _unless_refused(value: Any, text: str) -> Any | Unreadable:
    """Return `value`, or UNREADABLE if it has keys for which the client's parser refuses the whole text."""
    suspect = "__proto__" in text or "constructor" in text or "\\u00" in text
    return UNREADABLE if suspect and has_refused_keys(value) else value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


class _In(Enum):
    """What the scanner is inside of, or just behind."""

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

# Single-character moves that only change what we are inside of: (inside, character) → next.
_MOVES: Final = {
    (_In.OBJECT_START, '"'): _In.KEY,
    (_In.AFTER_COMMA, '"'): _In.KEY,
    (_In.KEY, '"'): _In.AFTER_KEY,
    (_In.AFTER_KEY, ":"): _In.BEFORE_VALUE,
    (_In.AFTER_VALUE, ","): _In.AFTER_COMMA,
    (_In.AFTER_ITEM, ","): _In.AFTER_ITEM_COMMA,
}

# Characters that close what we are inside of.
_CLOSES: Final = frozenset(
    {
        (_In.OBJECT_START, "}"),
        (_In.AFTER_VALUE, "}"),
        (_In.ARRAY_START, "]"),
        (_In.AFTER_ITEM, "]"),
        (_In.STRING, '"'),
    }
)

# Places where a value may begin, and where the scanner is once it is over.
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

# A run inside a string that needs no look at every character: most of a long input is one.
_IN_STRING: Final = re.compile(r'[^"\\]+')

_LITERALS: Final = ("false", "true", "null")


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.stack = [_In.ROOT]
        self.usable = 0  # length of the prefix that can be kept
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
    """Cut `text` behind the last usable character and close what is open."""
    scanner = _Scanner(text)
    scanner.scan()
    return scanner.repaired()
