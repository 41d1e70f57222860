"""Words of texts, as the search over conversations compares them: split in the same way for texts and for queries.

A word is a run of letters and digits, in lower case and without accents. Scripts that are written without spaces have
one word per character. Databases are given the words, never the text, so all stores find the same.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Collection, Sequence
from itertools import accumulate
from typing import Final

from .errors import BadInput

__all__ = ["MOST_TEXT", "excerpt", "has_word", "query_words", "text_words"]

MOST_TEXT: Final = 20_000
"""Characters of a text that are indexed."""

LONGEST_WORD: Final = 64
"""Characters of a word; longer ones are cut, in texts and in queries."""

LONGEST_QUERY: Final = 200
MOST_WORDS: Final = 8

BEFORE: Final = 50
LONGEST_EXCERPT: Final = 160

MOST_MARKS: Final = 30
"""Combining marks in a row that are kept. To sort longer runs takes quadratic time; no language needs them."""

_ASCII: Final = re.compile(r"[a-z0-9]+")
_MANY_MARKS: Final = re.compile(rf"[^\w\s]{{{MOST_MARKS + 1}}}")

_ACCENTS: Final = (
    *(range(0x0300, 0x0370), range(0x0483, 0x0488), range(0x0591, 0x05C8), range(0x0610, 0x061B)),
    *(range(0x064B, 0x0660), range(0x0670, 0x0671), range(0x06D6, 0x06EE), range(0x1AB0, 0x1B00)),
    *(range(0x1DC0, 0x1E00), range(0x20D0, 0x2100), range(0xFE00, 0xFE10), range(0xFE20, 0xFE30)),
)
"""Marks without which a word is the same: of Latin, Greek, Cyrillic, Hebrew and Arabic. Other scripts need theirs."""

_UNSPACED: Final = (
    *(range(0x0E00, 0x0F00), range(0x1000, 0x10A0), range(0x1780, 0x1800)),  # Thai, Lao, Burmese, Khmer
    *(range(0x2E80, 0x2FE0), range(0x3005, 0x3008), range(0x3021, 0x302A), range(0x3031, 0x3036)),
    *(range(0x3040, 0x3100), range(0x3100, 0x3130), range(0x31A0, 0x3200), range(0x3400, 0x4DC0)),
    *(range(0x4E00, 0xA000), range(0xAC00, 0xD7B0), range(0xF900, 0xFB00), range(0x20000, 0x32000)),
)
"""Characters that are a word each."""


class _Characters(dict[int, str]):
    """Maps each character of a normalised text to its searchable form; filled when a character is first met."""

    def __missing__(self, code: int) -> str:
        char, is_unspaced = chr(code), _is_in(code, _UNSPACED)
        category = unicodedata.category(char)[0]
        if category in "LN":
            known = f" {char} " if is_unspaced else char
        elif category == "M":
            known = "" if is_unspaced else char
        else:
            known = " "
        return _remembered(self, code, known)


class _Accents(dict[int, str]):
    """Maps each character of a decomposed text to its searchable form, without accents."""

    def __missing__(self, code: int) -> str:
        return _remembered(self, code, "" if _is_in(code, _ACCENTS) else chr(code))


def _remembered(known: dict[int, str], code: int, text: str) -> str:
    if code < 0x10000:  # with all the others it would be a hundred megabytes
        known[code] = text
    return text


def _is_in(code: int, ranges: Sequence[range]) -> bool:
    """Return whether one of the ranges, which are in order, has the character."""
    place = bisect_right(ranges, code, key=_start)
    return place > 0 and code in ranges[place - 1]


def _start(each: range) -> int:
    return each.start


class _Folded(dict[str, str]):
    """Maps single characters of a text to letters and digits of words, with spaces between words."""

    def __missing__(self, char: str) -> str:
        folded = _folded(char).translate(_characters)
        if ord(char) < 0x10000:
            self[char] = folded
        return folded


_characters: Final = _Characters()
_accents: Final = _Accents()
_each_folded: Final = _Folded()


def _words(text: str) -> list[str]:
    """Return all words of a text, in order."""
    if text.isascii():
        return _ASCII.findall(text.lower())
    # Some characters stand for many; a database takes a megabyte of words at most.
    return _folded(_without_long_runs(text))[: 2 * MOST_TEXT].translate(_characters).split()


def _folded(text: str) -> str:
    """Return the text without differences in case, accents and forms of characters."""
    text = unicodedata.normalize("NFKD", text)[: 4 * MOST_TEXT]
    text = unicodedata.normalize("NFKD", text.casefold()).translate(_accents)
    return unicodedata.normalize("NFKC", text)


def _without_long_runs(text: str) -> str:
    """Return the text with at most `MOST_MARKS` combining marks in a row."""
    if not _MANY_MARKS.search(text):
        return text
    kept: list[str] = []
    marks = 0
    for char in text:
        marks = marks + 1 if unicodedata.combining(char) else 0
        if marks <= MOST_MARKS:
            kept.append(char)
    return "".join(kept)


def text_words(text: str) -> list[str]:
    """Return the different words of a text that is indexed, sorted."""
    return sorted({word[:LONGEST_WORD] for word in _words(text[:MOST_TEXT])})


def query_words(query: str) -> list[str]:
    """Return the words of a query. The last one may be the beginning of a word.

    Raises:
        BadInput: the query is too long, or has too many words or none.
    """
    if len(query) > LONGEST_QUERY:
        raise BadInput(f"unable to search; the query has {len(query)} characters, and {LONGEST_QUERY} is the limit")
    words = [word[:LONGEST_WORD] for word in _words(query)]
    if not words:
        raise BadInput("unable to search; the query has no word. Give it a letter or a digit")
    words = [*dict.fromkeys(word for word in words[:-1] if word != words[-1]), words[-1]]
    if len(words) > MOST_WORDS:
        raise BadInput(f"unable to search; the query has {len(words)} words, and {MOST_WORDS} is the limit")
    return words


def has_word(words: Collection[str], asked: Sequence[str], place: int) -> bool:
    """Return whether a text with these words has the asked word at a place; the last one may be a beginning."""
    word = asked[place]
    return word in words or (place == len(asked) - 1 and any(each.startswith(word) for each in words))


def excerpt(text: str, asked: Sequence[str]) -> str:
    """Return a short part of the text, in one line, around the first of the asked words."""
    start = max(_first_place(text, asked) - BEFORE, 0)
    shown = " ".join(text[start : start + LONGEST_EXCERPT * 4].split())
    before = "…" if start else ""
    if len(shown) > LONGEST_EXCERPT:
        shown = f"{shown[: LONGEST_EXCERPT - 1].rstrip()}…"
    return before + shown


def _first_place(text: str, asked: Sequence[str]) -> int:
    """Return where the first of the asked words begins; 0 if none is found."""
    text = text[:MOST_TEXT]
    if text.isascii():
        found = _word_pattern(asked, "[a-z0-9]").search(text.lower())
        return found.start() if found is not None else 0
    folded = [_each_folded[char] for char in text]
    found = _word_pattern(asked, r"\S").search("".join(folded))
    return bisect_right([*accumulate(map(len, folded))], found.start()) if found is not None else 0


def _word_pattern(asked: Sequence[str], letter: str) -> re.Pattern[str]:
    """Return the pattern of each of the asked words, in a text of these letters; the last one may be a beginning."""
    wanted = [f"{re.escape(word)}{f'{letter}*+' if len(word) == LONGEST_WORD else ''}" for word in asked[:-1]]
    wanted.append(f"{re.escape(asked[-1])}{letter}*+")
    return re.compile(f"(?<!{letter})(?:{'|'.join(wanted)})(?!{letter})")
