"""The first bytes of a content say what it is."""

from __future__ import annotations

import pytest

from everyword.attachments.media_types import media_type_problem, served_type, sniffed_type


def boxed(main: bytes, *others: bytes) -> bytes:
    """Return the beginning of a file in the format of MP4, which photos have, too."""
    return b"\x00\x00\x00\x20ftyp" + main + bytes(4) + b"".join(others) + b"\x00\x00\x00\x08free"


@pytest.mark.parametrize(
    ("first", "found"),
    [
        (boxed(b"heic", b"mif1"), "image/heic"),
        (boxed(b"mif1", b"mif1", b"heic"), "image/heic"),
        (boxed(b"mif1", b"miaf", b"avif"), "image/avif"),
        (boxed(b"isom", b"iso2", b"mp41"), "video/mp4"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"RIFF\x00\x00\x00\x00AVI LIST", None),
        (b"<svg onload='alert(1)'>", None),
    ],
)
def test_a_type_is_found_by_the_first_bytes(first: bytes, found: str | None) -> None:
    assert sniffed_type(first) == found
    if found is not None:
        assert media_type_problem(found, first, ["*/*"]) is None


@pytest.mark.parametrize("page", [b"<html><script>", b"<svg xmlns=", b"%PDF-1.7 <script>", b"\xef\xbb\xbf<html>"])
def test_what_may_run_scripts_is_never_shown_in_place(page: bytes) -> None:
    assert served_type(page)[1] is False


@pytest.mark.parametrize("wrong", ["", "image", "a/b,c", 'a/"b"', "a/b c", "a/b/c", "é/b", "*/*"])
def test_what_is_no_media_type_is_refused(wrong: str) -> None:
    assert media_type_problem(wrong, b"text", ["*/*"]) == f"{wrong!r} is no media type"
    assert media_type_problem("application/vnd.a-b+json; charset=utf-8", b"text", ["*/*"]) is None
