"""Words of texts, as the search over conversations compares them: the same for what is stored and for what is asked.

A word is a run of letters and digits, in lower case and without accents. Scripts that are written without spaces have
one word per character. Databases are given the words, never the text, so all stores find the same.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
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

_ASCII: Final = re.compile(r"[a-z0-9]+")
_PIECE: Final = re.compile(r"[\w\u0300-\u036f]+")

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
    """What each character of a normalised text becomes; filled as characters come up."""

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
    """What each character of a decomposed text becomes: accents go."""

    def __missing__(self, code: int) -> str:
        return _remembered(self, code, "" if _is_in(code, _ACCENTS) else chr(code))


def _remembered(known: dict[int, str], code: int, text: str) -> str:
    if code < 0x10000:  # with all the others it would be a hundred megabytes
        known[code] = text
    return text


def _is_in(code: int, ranges: Sequence[range]) -> bool:
    return any(code in each for each in ranges)


_characters: Final = _Characters()
_accents: Final = _Accents()


def _words(text: str) -> list[str]:
    """Return all words of a text, in order."""
    if text.isascii():
        return _ASCII.findall(text.lower())
    text = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold()).translate(_accents)
    # Some characters stand for many; a database takes a megabyte of words at most.
    return unicodedata.normalize("NFKC", text)[: 2 * MOST_TEXT].translate(_characters).split()


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
    for piece in _PIECE.finditer(text[:MOST_TEXT]):
        if _has_any(piece[0], asked):
            letters = enumerate(piece[0])  # in scripts without spaces each of them is a word
            unspaced = (at for at, char in letters if _is_in(ord(char), _UNSPACED) and _has_any(char, asked))
            return piece.start() + next(unspaced, 0)
    return 0


def _has_any(text: str, asked: Sequence[str]) -> bool:
    words = {word[:LONGEST_WORD] for word in _words(text)}
    return any(has_word(words, asked, place) for place in range(len(asked)))
