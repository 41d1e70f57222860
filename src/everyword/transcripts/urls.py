"""Which URLs may become a link or an image in a transcript."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["SHOWN_TYPES", "data_download", "data_image", "link_target", "shared_file", "shared_file_url"]

_LINK: Final = re.compile(r"(https?://|/(?![/\\]))[\x21\x23-\x7e\u00a1-\ud7ff\ue000-\uffff\U00010000-\U0010ffff]*")
_IMAGE: Final = re.compile(r"data:image/(?:png|jpeg|gif|webp|avif);base64,[A-Za-z0-9+/=]*")

_SHARED: Final = re.compile(r"[A-Za-z0-9_-]{32}/files/([0-9a-f]{64})")

SHOWN_TYPES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"})
"""Types of pictures that every browser shows, and that run no scripts."""

_FILE: Final = re.compile(
    r"data:(?:application/(?:octet-stream|pdf)|audio/[a-z0-9]+|video/[a-z0-9]+|image/[a-z]+)(;base64,[A-Za-z0-9+/=]*)"
)


def link_target(url: str | None) -> str | None:
    """Return a URL that may be a link: http, https, or a path on the same server. None for any other."""
    return url if url is not None and _LINK.fullmatch(url) else None


def data_image(url: str | None) -> str | None:
    """Return a data: URL of a picture without scripts; None for any other URL."""
    return url if url is not None and _IMAGE.fullmatch(url) else None


def data_download(url: str | None) -> str | None:
    """Return a data: URL for a link that saves the file; None for any other URL.

    Its type is that of unknown bytes, so that a browser that opens it in spite of that runs nothing.
    """
    found = _FILE.fullmatch(url) if url is not None else None
    return f"data:application/octet-stream{found[1]}" if found is not None else None


def shared_file_url(token: str, sha256: str) -> str:
    """Return the URL of a file below a shared link. It is relative to the link's page, wherever the app is mounted."""
    return f"{token}/files/{sha256}"


def shared_file(url: str | None) -> str | None:
    """Return the hash in the URL of a file below a shared link; None for any other URL."""
    found = _SHARED.fullmatch(url) if url is not None else None
    return found[1] if found is not None else None
