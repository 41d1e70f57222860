"""HTML: only the elements and attributes that the page itself writes, whatever a message contains."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from msgspec.structs import replace

from everyword.transcripts.document import ApprovalNote, FilePart, Person, ToolCallPart
from everyword.transcripts.formats import FORMATS
from everyword.transcripts.html_message import part_html, text_html
from everyword.transcripts.html_page import STYLE_HASH
from tests.transcripts.hostile import BREAKS, SCRIPT, described, head, texts

ELEMENTS = {"html", "meta", "title", "style", "h1", "h3", "div", "main", "article", "header", "b", "bdi", "time", "p"}
ELEMENTS |= {"small", "details", "summary", "pre", "span", "figure", "img", "figcaption", "a"}
ATTRIBUTES = {
    "lang",
    "charset",
    "http-equiv",
    "content",
    "name",
    "class",
    "dir",
    "datetime",
    "alt",
    "src",
    "href",
    "rel",
}


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def handle_pi(self, data: str) -> None:
        raise AssertionError(f"an instruction: {data}")


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    reader.close()
    return reader


@given(texts)
def test_a_page_has_no_markup_but_its_own(text: str) -> None:
    page = read("".join(FORMATS["html"].write(head(text), [described(text)])))
    for tag, attributes in page.elements:
        assert tag in ELEMENTS
        assert set(attributes) <= ATTRIBUTES
        assert (attributes.get("href") or "https://").startswith(("https://", "http://", "/"))
        assert (attributes.get("src") or "data:image/png;base64,").startswith("data:image/png;base64,")
    assert [tag for tag, _ in page.elements].count("article") == 1


def test_texts_are_shown_as_they_are_written() -> None:
    page = read("".join(FORMATS["html"].write(head("x"), [described(BREAKS)])))
    assert page.text.count(SCRIPT) >= 15
    assert "secret reason" not in page.text


def test_the_policy_allows_the_style_and_data_images_only() -> None:
    policies = [
        attributes["content"]
        for tag, attributes in read("".join(FORMATS["html"].write(head("x"), []))).elements
        if tag == "meta" and attributes.get("http-equiv") == "content-security-policy"
    ]
    assert policies == [
        f"default-src 'none'; img-src data:; style-src {STYLE_HASH}; base-uri 'none'; form-action 'none'"
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb", '<div class="text" dir="auto">a\nb</div>'),
        (
            "a\n```py\nx = '<b>'\n```\nc",
            ('a</div><pre dir="auto">x = &#x27;&lt;b&gt;&#x27;</pre><div class="text" dir="auto">c'),
        ),
        ("~~~\nnot closed", '<pre dir="auto">not closed</pre>'),
        ("````\n```\n````", '<pre dir="auto">```</pre>'),
        ("```", '<pre dir="auto"></pre>'),
        (" \n", ""),
    ],
)
def test_fenced_code_is_set_as_code(text: str, shown: str) -> None:
    assert shown in text_html(text)
    if not text.strip():
        assert not text_html(text)


def test_a_huge_text_is_written_in_time_that_grows_with_its_length() -> None:
    text = "```\n" * 200_000
    assert text_html(text).count("<pre") == 100_000
    # With time that grows with the square, it takes an hour.
    assert "<pre" not in text_html("~" * 1_000_000 + "`")


def test_a_file_without_a_name_says_its_type_once() -> None:
    for url in ("https://files.example/1", "data:image/svg+xml;base64,AAAA"):
        part = FilePart("image/svg+xml", None, url)
        assert re.sub("<[^>]+>", "", part_html(part)) == "File: image/svg+xml"
        assert re.sub("<[^>]+>", "", part_html(replace(part, name="a.svg"))) == "File: a.svg image/svg+xml"


def test_a_call_that_waits_for_an_approval_says_so_once() -> None:
    shown = part_html(ToolCallPart("refund", "waiting", approval=ApprovalNote("waiting", summary="Pay 5 back")))
    assert shown.lower().count("waits for approval") == 1
    settled = part_html(ToolCallPart("refund", "done", approval=ApprovalNote("approved", by=Person("mia", "Mia"))))
    assert "Approved by Mia" in settled
