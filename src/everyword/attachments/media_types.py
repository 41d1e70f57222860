"""Media types: which are allowed, what the first bytes of a content say, and which a browser may show in place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

__all__ = ["OCTETS", "SNIFFED", "is_allowed", "media_type_problem", "served_type", "sniffed_type", "stored_type"]

SNIFFED: Final = 32
"""How many of the first bytes are looked at."""

OCTETS: Final = "application/octet-stream"

_BEGINNINGS: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"ID3", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"\x1aE\xdf\xa3", "video/webm"),
)
_RIFF: Final = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}
_BRANDS: Final = {b"avif": "image/avif", b"avis": "image/avif", b"heic": "image/heic", b"heix": "image/heic"}

_CHECKED: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "application/pdf"})
"""Types whose content must begin as they do."""

_SHOWN: Final = frozenset(
    {"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"}
    | {"audio/mpeg", "audio/ogg", "audio/flac", "audio/wav", "video/webm", "video/mp4"}
)
"""Types that a browser may show in place: none of them runs a script. SVG does, and is not among them."""

_MEDIA_TYPE: Final = re.compile(r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+")

_SAYS_NOTHING: Final = frozenset({"", OCTETS, "application/x-www-form-urlencoded"})

_SAME: Final = {"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "image/x-png": "image/png"}


def sniffed_type(first: bytes) -> str | None:
    """Return the type that a content has by its first bytes; None if they do not tell."""
    for beginning, found in _BEGINNINGS:
        if first.startswith(beginning):
            return found
    if first[:4] == b"RIFF":
        return _RIFF.get(first[8:12])
    if first[4:8] == b"ftyp":
        # The main brand of a photo may be one that says only that it is a picture; those that follow say which.
        brands = [first[8:12], *(first[place : place + 4] for place in range(16, SNIFFED, 4))]
        return next((_BRANDS[brand] for brand in brands if brand in _BRANDS), "video/mp4")
    return None


def served_type(first: bytes) -> tuple[str, bool]:
    """Return the type under which a content is served, and True if a browser may show it in place.

    Only the content decides, never what an uploader said of it: a page that is called an image would run as a page.
    """
    found = sniffed_type(first)
    return (found or OCTETS), found in _SHOWN


def stored_type(said: str, first: bytes) -> str:
    """Return the media type that the part of a file gets: what its sender said, or its first bytes if they know better.

    Browsers send no type for files that they do not know, and curl sends that of a form. An image may have the name,
    and so the type, of another kind of image; models refuse it then.
    """
    kind, found = said.partition(";")[0].strip().lower(), sniffed_type(first)
    if kind in _SAYS_NOTHING:
        return found or OCTETS
    is_other_image = found is not None and found.startswith("image/") and kind.startswith("image/")
    return found if found is not None and is_other_image and found != _plain(kind) else said


def is_allowed(media_type: str, allowed: Sequence[str]) -> bool:
    """Return True if a type is one of `allowed`, which may have patterns such as `image/*`."""
    kind = _plain(media_type)
    return any(each in ("*/*", kind) or (each.endswith("/*") and kind.startswith(each[:-1])) for each in allowed)


def media_type_problem(media_type: str, first: bytes, allowed: Sequence[str]) -> str | None:
    """Return why a content of this type may not be stored, as the end of a sentence; None if it may."""
    kind = _plain(media_type)
    if len(kind) > 127 or _MEDIA_TYPE.fullmatch(kind) is None:
        return f"{media_type[:100]!r} is no media type"
    if not is_allowed(kind, allowed):
        return f"{kind} is not among the allowed types ({', '.join(allowed)})"
    found = sniffed_type(first)
    if found != kind and (kind in _CHECKED or (found in _CHECKED and kind.startswith("image/"))):
        return f"it is called {kind}, and its content is {found or 'something else'}"
    return None


def _plain(media_type: str) -> str:
    kind = media_type.partition(";")[0].strip().lower()
    return _SAME.get(kind, kind)
