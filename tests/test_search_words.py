"""Words of texts and queries, and the part of a text that a search shows."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everyword.errors import BadInput
from everyword.search_words import MOST_TEXT, excerpt, has_word, query_words, text_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Refund, for Berlin!", ["berlin", "for", "refund"]),
        ("re-order snake_case 12.50", ["12", "50", "case", "order", "re", "snake"]),
        ("Réponse Ångström ΆΛΦΑ Ёлка", ["angstrom", "reponse", "αλφα", "елка"]),
        ("Straße", ["strasse"]),
        ("ﬁne ＡＢＣ x²", ["abc", "fine", "x2"]),
        ("東京タワー", ["ー", "タ", "ワ", "京", "東"]),
        ("환불 가능", ["가", "능", "불", "환"]),
        ("ภาษาไทย", ["ท", "ภ", "ย", "ษ", "า", "ไ"]),
        ("हिन्दी", ["हिन्दी"]),
        ("a\0b\ud800c \u202eд", ["a", "b", "c", "д"]),
        ("?! … 🙂", []),
    ],
)
def test_words_have_no_case_and_no_accents(text: str, words: list[str]) -> None:
    assert text_words(text) == sorted(words)


@given(st.text())
def test_composed_and_decomposed_texts_have_the_same_words(text: str) -> None:
    assert text_words(unicodedata.normalize("NFD", text)) == text_words(unicodedata.normalize("NFC", text))


@given(st.text())
def test_words_can_be_handed_to_every_database(text: str) -> None:
    for word in text_words(text):
        assert 1 <= len(word) <= 64
        assert not any(char.isspace() or char in "\0'\"\\:*&|!()" or "A" <= char <= "Z" for char in word)
        assert word.isascii() is False or word.isalnum()


def test_long_texts_and_words_are_cut_alike() -> None:
    assert text_words("x" * 100) == ["x" * 64] == query_words("X" * 100)
    assert text_words(" ".join(f"w{n}" for n in range(MOST_TEXT))) == text_words(
        " ".join(f"w{n}" for n in range(MOST_TEXT))[:MOST_TEXT]
    )
    assert sum(len(word.encode()) for word in text_words("\ufdfa" * MOST_TEXT)) < 2**20


@pytest.mark.parametrize("query", ["", "  ", "?!", "x" * 201, "a b c d e f g h i"])
def test_a_query_has_a_word_and_is_short(query: str) -> None:
    with pytest.raises(BadInput, match="unable to search"):
        query_words(query)


def test_the_last_word_of_a_query_may_be_the_beginning_of_a_word() -> None:
    assert query_words("Berlin  refund berlin") == ["refund", "berlin"]
    asked = query_words("ref ber")
    assert not has_word(["refund", "berlin"], asked, 0)
    assert has_word(["refund", "berlin"], asked, 1)


def test_an_excerpt_is_a_line_around_the_first_word() -> None:
    text = "word " * 100 + "the Réfund\n\nfor   Berlin " + "tail " * 100
    found = excerpt(text, query_words("refund"))
    assert found.startswith("…") and found.endswith("…")
    assert "the Réfund for Berlin tail" in found
    assert len(found) <= 161
    assert excerpt("short", ["none"]) == "short"


def test_an_excerpt_of_a_text_without_spaces_is_around_the_first_word() -> None:
    found = excerpt("あ" * 1000 + "東京" + "い" * 1000, query_words("東京"))
    assert "東京" in found and len(found) <= 161


@pytest.mark.parametrize(
    ("text", "query", "shown"),
    [
        ("x" * 300 + " the Straße of Ｂerlin", "strasse", "the Straße of Ｂerlin"),
        ("é " * 300 + "re\u0301fund_now", "refund", "re\u0301fund_now"),
        ("é " * 300 + "w" * 70, "w" * 80, "w" * 70),
        ("see " * 100 + "w" * 70, f"{'w' * 80} none", "w" * 70),
    ],
)
def test_an_excerpt_shows_the_word_as_it_was_written(text: str, query: str, shown: str) -> None:
    assert shown in excerpt(text, query_words(query))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a" + "\u0315\u0316" * 10_000, id="marks in turn"),
        pytest.param("a" + "\u0315" * 10_000 + "\u0316" * 10_000, id="marks to sort"),
        pytest.param("中" * 20_000, id="one run"),
        pytest.param("word " * 4_000, id="words"),
        pytest.param("é" + "\ufdfa" * 20_000, id="long forms"),
    ],
)
def test_a_text_costs_no_more_than_its_length(text: str) -> None:
    usual = seconds(lambda: text_words("Né vœu " * (MOST_TEXT // 7)))
    assert seconds(lambda: text_words(text)) < 50 * usual
    assert seconds(lambda: excerpt(text, ["none"])) < 50 * usual


def seconds(work: Callable[[], object]) -> float:
    """Return the processor time of the quickest of three calls, which a busy machine does not change."""
    taken: list[float] = []
    for _ in range(3):
        began = time.thread_time()
        work()
        taken.append(time.thread_time() - began)
    return min(taken)


@given(st.text(min_size=1), st.integers(0, 5))
def test_an_excerpt_is_bounded_whatever_the_text(text: str, place: int) -> None:
    words = text_words(text)
    found = excerpt(text, words[place : place + 1] or ["none"])
    assert len(found) <= 161 and "\n" not in found
