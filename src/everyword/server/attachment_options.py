"""The settings of an app for its attachments: where they are kept, what may be stored, and their URLs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal
from urllib.parse import urlsplit

from starlette.types import Scope

from ..attachments.base import BlobStore
from ..errors import UsageError
from ..log.base import LogStore
from ..runtime.attachments import AttachmentRules, Attachments, Scan
from .limits import Limits
from .stores import open_blob_store

__all__ = ["AttachmentOptions", "client_prefix"]

SHORTEST_KEY = 16


@dataclass(frozen=True, slots=True)
class AttachmentOptions:
    """Settings for the attachments of an app: `Everyword(..., attachments=AttachmentOptions(...))`.

    Args:
        store: Where they are kept: a folder, "s3://bucket/prefix" (needs the extra `objects`; also "gs://" and "az://"),
            or a BlobStore. By default a folder beside the SQLite file, or memory with "memory:". With PostgreSQL there
            is no default: give a folder that all nodes share, or object storage.
        public_url: Where clients find the app, e.g. "https://chat.example.org" or "/chat". It stands in the URLs of
            attachments. By default they are paths, and absolute for pages of another origin.
        data_url_limit: A `data:` URL of more characters in a message is moved out of the message, and becomes an
            attachment.
        media_types: The types that may be stored, e.g. `["image/*", "application/pdf"]`; by default every type.
        scan: Called with each upload before it is stored, e.g. to look for viruses: returns None or True to store it,
            False or a text for the sender to refuse it. An exception refuses it, too.
        grace: How long an attachment is kept that no message refers to.
        key: The secret that signs links, at least 16 bytes. By default a random one, kept beside the attachments.
        for_models: What Think gives to models: "bytes", or for images signed "links" that the provider's servers fetch,
            for which `public_url` must be absolute.
    """

    store: str | BlobStore | None = None
    public_url: str | None = None
    data_url_limit: int = 16 * 1024
    media_types: Sequence[str] = ("*/*",)
    scan: Scan | None = None
    grace: timedelta = timedelta(hours=24)
    key: str | bytes | None = field(default=None, repr=False)
    for_models: Literal["bytes", "links"] = "bytes"

    def __post_init__(self) -> None:
        if self.key is not None and len(self.secret or b"") < SHORTEST_KEY:
            raise UsageError(f"unable to sign links; the key needs at least {SHORTEST_KEY} bytes")
        if self.for_models == "links" and not _is_absolute(self.public_url):
            raise UsageError("unable to give links to models; set public_url to the address of the app, with https://")
        if self.public_url is not None and not _is_absolute(self.public_url) and not self.public_url.startswith("/"):
            raise UsageError(
                f"unable to use public_url={self.public_url!r}; give https://host, or a path such as /chat"
            )
        if self.grace < timedelta(0):
            raise UsageError(f"unable to keep attachments for {self.grace}; give a positive time")

    @property
    def secret(self) -> bytes | None:
        """The key as bytes."""
        return self.key.encode() if isinstance(self.key, str) else self.key

    def rules(self, limits: Limits, base_path: str) -> AttachmentRules:
        """Return what the runtime needs of these settings."""
        return AttachmentRules(
            prefix=f"{(self.public_url or '').rstrip('/')}{base_path}",
            inline_limit=self.data_url_limit,
            media_types=tuple(self.media_types),
            upload=limits.upload,
            conversation=limits.attachments,
            grace=round(self.grace.total_seconds() * 1000),
            scan=self.scan,
            gives_links=self.for_models == "links",
        )

    def opened(self, store: LogStore, limits: Limits, base_path: str) -> Attachments | None:
        """Return the attachments of an app with this log; None if there is no place for them."""
        blobs = open_blob_store(self.store, store)
        return Attachments(blobs, self.rules(limits, base_path), self.secret) if blobs is not None else None


def client_prefix(scope: Scope, attachments: Attachments, base_path: str) -> str:
    """Return what stands before an agent's path in the URLs that this client sends and gets.

    With a `public_url` that. Else the path at which the client has reached the app; a page of another origin needs the
    host, too, or its browser would ask the page's own. From now on the path is that of files without a client, too.
    """
    if attachments.rules.prefix != base_path:
        return attachments.rules.prefix
    attachments.prefix = path = f"{scope.get('root_path', '').rstrip('/')}{base_path}"
    headers = {name: value.decode("latin-1") for name, value in scope["headers"] if name in (b"origin", b"host")}
    origin, host = headers.get(b"origin", ""), headers.get(b"host", "")
    if not host or not _is_absolute(origin) or urlsplit(origin).netloc.lower() == host.lower():
        return path
    # Behind a proxy that ends TLS the scheme is unknown here. A page with https can only use https.
    is_secure = origin.startswith("https:") or scope.get("scheme") in ("https", "wss")
    return f"{'https' if is_secure else 'http'}://{host}{path}"


def _is_absolute(url: str | None) -> bool:
    try:
        return url is not None and urlsplit(url).scheme in ("http", "https") and bool(urlsplit(url).netloc)
    except ValueError:
        return False
