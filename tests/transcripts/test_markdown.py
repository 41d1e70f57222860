"""Markdown: no text becomes HTML, a script, or another message."""

from __future__ import annotations

import pytest
from hypothesis import given
from markdown_it import MarkdownIt
from markdown_it.token import Token

from everyword.ids import Millis
from everyword.transcripts.document import ApprovalNote, Person, TextPart, ToolCallPart, TranscriptMessage
from everyword.transcripts.formats import FORMATS
from everyword.transcripts.markdown import message_markdown
from tests.transcripts.hostile import BREAKS, SCRIPT, described, head, texts

_READER = MarkdownIt("commonmark", {"html": True})
_READER.validateLink = lambda url: True  # the least careful viewer


def tokens(text: str) -> list[Token]:
    found = _READER.parse(text)
    return [each for token in found for each in [token, *(token.children or [])]]


def written(text: str) -> str:
    return "".join(FORMATS["markdown"].write(head(text), [described(text), described(text)]))


@given(texts)
def test_no_text_becomes_html_or_a_script(text: str) -> None:
    for token in tokens(written(text)):
        assert token.type not in ("html_block", "html_inline"), token.content
        for name in ("href", "src"):
            target = str(token.attrs.get(name, "")).strip().lower()
            assert not target.startswith(("javascript:", "vbscript:", "data:text")), target


@given(texts)
def test_no_text_becomes_a_heading_of_the_document(text: str) -> None:
    headings = [each for each in _READER.parse(written(text)) if each.type == "heading_open" and each.level == 0]
    assert [each.tag for each in headings] == ["h1", "h2", "h2"]


@pytest.mark.parametrize(
    "fences",
    [" ```\n```", "```\n    ```\n```", "```\n\t```", "~~~~\n \t~~~~", "```\n ```\n\t```\n```", " ~~~\n```\n~~~\n~~~"],
)
def test_fences_that_viewers_read_differently_let_no_html_through(fences: str) -> None:
    said = written(f"{fences}\n{SCRIPT}")
    assert not [each for each in tokens(said) if each.type in ("html_block", "html_inline")], said


LIST = "1. a\n   ```\n   <b>\n   ```\n\n```html\n<p>\n```"


def test_a_fence_behind_a_doubtful_one_keeps_its_code() -> None:
    message = TranscriptMessage("user", Millis(0), "done", [TextPart(LIST)])
    (_, code) = [each for each in tokens("".join(message_markdown(message))) if each.type == "fence"]
    assert code.content == "<p>\n"


def test_a_text_keeps_its_own_markdown_inside_a_quote() -> None:
    message = TranscriptMessage("user", Millis(0), "done", [TextPart("a **b**\n\n```html\n<p>&amp;\n```\n<p> &amp;")])
    assert "".join(message_markdown(message)) == (
        "\n## User · 1970-01-01 00:00 UTC\n\n> a **b**\n>\n> ```html\n> <p>&amp;\n> ```\n> &lt;p> &amp;amp;\n"
    )


def test_output_stays_between_its_fences() -> None:
    part = ToolCallPart("pay", "done", output=f"````{BREAKS}")
    block = next(
        each
        for each in _READER.parse("".join(FORMATS["markdown"].write(head("x"), [_said(part)])))
        if each.type == "fence"
    )
    assert block.content.startswith("````\n\n## Ann")


def _said(part: ToolCallPart) -> TranscriptMessage:
    return TranscriptMessage("assistant", Millis(0), "stopped", [part])


def test_the_end_of_a_turn_is_said() -> None:
    assert "*Stopped.*" in "".join(message_markdown(_said(ToolCallPart("pay", "running"))))
    assert "*The answer failed.* busy" in "".join(
        message_markdown(TranscriptMessage("assistant", Millis(0), "failed", [], error="busy"))
    )


def test_the_summary_of_a_call_and_its_approval_are_two_paragraphs() -> None:
    note = ApprovalNote("approved", by=Person("mia", "Mia"), reason="broken", summary="Pay 5 back")
    said = "".join(message_markdown(_said(ToolCallPart("pay", "done", approval=note))))
    assert "\n\n*Summary:* Pay 5 back\n\n*Approval:* Approved by Mia: broken" in said
