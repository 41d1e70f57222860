"""Attachments inside a transcript: what is embedded, as what, how much, and why the rest is not."""

from __future__ import annotations

import base64

import pytest

from everyword.errors import AttachmentMissing, AttachmentsUnavailable
from everyword.ids import Millis
from everyword.transcripts.document import FilePart, TextPart, TranscriptMessage
from everyword.transcripts.embedding import Embedding, EmbedLimits
from everyword.transcripts.html_message import part_html

PNG = b"\x89PNG\r\n\x1a\n" + bytes(92)
PAGE = b"<script>alert(1)</script>"
URL = f"/agents/chat/ann/attachments/{'0a' * 32}"
MIB = 1024 * 1024


def message(*parts: FilePart | TextPart) -> TranscriptMessage:
    return TranscriptMessage("user", Millis(0), "done", list(parts))


def put(content: bytes | Exception | None, embedding: Embedding, media_type: str = "image/png") -> FilePart:
    given = message(TextPart("look"), FilePart(media_type, 'a"<b>.png', URL))
    ((place, sha256),) = embedding.wanted(given)
    assert (place, sha256) == (1, "0a" * 32)
    changed = embedding.put(given, place, content)
    assert changed.parts[0] == TextPart("look")
    part = changed.parts[1]
    assert isinstance(part, FilePart)
    return part


def test_a_picture_is_shown() -> None:
    part = put(PNG, Embedding(EmbedLimits()), "text/html")
    encoded = base64.b64encode(PNG).decode()
    assert (part.url, part.left_out) == (f"data:image/png;base64,{encoded}", None)
    assert f'src="data:image/png;base64,{encoded}"' in part_html(part)


@pytest.mark.parametrize("media_type", ["image/png", "image/svg+xml", "text/html"])
def test_the_content_decides_what_a_file_is(media_type: str) -> None:
    part = put(PAGE, Embedding(EmbedLimits()), media_type)
    encoded = base64.b64encode(PAGE).decode()
    assert part.url == f"data:application/octet-stream;base64,{encoded}"
    html = part_html(part)
    assert "<img" not in html and "<b>" not in html
    assert f'<a download="a&quot;&lt;b&gt;.png" href="data:application/octet-stream;base64,{encoded}">' in html


def test_a_file_that_browsers_open_is_a_download_all_the_same() -> None:
    part = put(b"%PDF-1.7", Embedding(EmbedLimits()))
    assert (part.url or "").startswith("data:application/pdf;")
    assert 'href="data:application/octet-stream;base64,' in part_html(part)


@pytest.mark.parametrize("kind", ["text/html", "image/svg+xml", "application/xhtml+xml", "text/javascript"])
def test_active_content_with_a_data_url_is_no_link(kind: str) -> None:
    assert "href" not in part_html(FilePart(kind, "x", f"data:{kind};base64,AAAA"))


def test_what_is_left_out_is_named_with_the_reason_and_its_link() -> None:
    for content, reason in (
        (None, "larger than 1 MiB"),
        (bytes(MIB + 1), "larger than 1 MiB"),
        (AttachmentMissing("gone"), "not stored any more"),
        (AttachmentsUnavailable("secret"), "it could not be read"),
    ):
        part = put(content, Embedding(EmbedLimits(MIB, 5 * MIB)))
        assert (part.url, part.left_out) == (URL, reason)
        assert f"not included: {reason}" in part_html(part)
        assert f'href="{URL}"' in part_html(part)


def test_all_files_together_are_bounded() -> None:
    embedding = Embedding(EmbedLimits(file=2 * MIB, total=3 * MIB))
    assert put(bytes(2 * MIB), embedding).left_out is None
    assert embedding.room == MIB
    assert put(bytes(2 * MIB), embedding).left_out == "all files of an export have at most 3 MiB"
    assert put(bytes(MIB), embedding).left_out is None
    assert embedding.room == 0
    assert put(None, embedding).left_out == "all files of an export have at most 3 MiB"


def test_only_attachments_are_read() -> None:
    others = (None, "https://example.org/a.png", "data:image/png;base64,AAAA", "/agents/chat/ann/attachments/0a")
    given = message(*(FilePart("image/png", "a", url) for url in others))
    assert list(Embedding(EmbedLimits()).wanted(given)) == []
