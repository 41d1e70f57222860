"""`self.attachments`: read files that users have sent, store files that the agent makes, and give both to models."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import AttachmentMissing, UsageError
from ..messages.attachment_contents import MOST_FOR_MODEL, as_data_url, attachments_in, images_in, with_contents
from ..messages.attachments import attachment_hash, decode_data_url
from ..messages.message import Chunk, UIMessage
from ..runtime.agent_runtime.attachments import AttachmentsAccess
from .durations import Duration, to_seconds

__all__ = ["AgentAttachments"]

log = logging.getLogger("everyword.agents")

MODEL_LINK = 3600.0
"""Lifetime of links for models, in seconds. A provider may read a link again when its request is retried."""


class AgentAttachments:
    """The files of one conversation."""

    def __init__(self, access: AttachmentsAccess) -> None:
        self._access = access

    async def put(self, content: bytes, media_type: str, *, filename: str | None = None) -> dict[str, Any]:
        """Store a file; return the file part for a message, and its fields for a `file` chunk.

        A file that no stored message refers to is deleted after a day (`AttachmentOptions.grace`).
        """
        return await self._access.put(content, media_type, filename)

    async def read(self, part: Mapping[str, Any] | str) -> bytes:
        """Return the content of a file part, or of its URL: of an attachment, or in a `data:` URL.

        Raises:
            AttachmentMissing: it is not stored any more.
            UsageError: it is the URL of something else.
        """
        url = _url_of(part)
        sha256 = attachment_hash(url)
        content = await self._access.read(sha256) if sha256 is not None else decode_data_url(url)
        if content is None:
            raise UsageError(f"unable to read {url[:100]!r}; it is neither an attachment nor a data: URL")
        return content

    async def _moved_out(self, chunk: Chunk) -> Chunk:
        """Return a `file` chunk with the URL of an attachment in the place of a large `data:` URL.

        What may not be stored stays as it is: the answer of a model is not lost for that.
        """
        url, limit = chunk.get("url"), self._access.data_url_limit
        if limit is None or not isinstance(url, str) or not url.startswith("data:") or len(url) <= limit:
            return chunk
        content = decode_data_url(url)
        if content is None:
            return chunk
        try:
            part = await self.put(content, str(chunk.get("mediaType") or ""), filename=chunk.get("filename"))
        except UsageError as exc:
            log.warning("a file of an answer stays in its message: %s", exc)
            return chunk
        return {**chunk, "mediaType": part["mediaType"], "url": part["url"]}

    async def signed_url(self, part: Mapping[str, Any] | str, *, expires_in: Duration = 300.0) -> str:
        """Return a URL with which any client can read the file until it expires.

        It is absolute if `AttachmentOptions.public_url` is.

        Raises:
            AttachmentMissing: the file is not stored any more.
        """
        sha256 = attachment_hash(_url_of(part))
        if sha256 is None:
            raise UsageError(f"unable to sign {_url_of(part)[:100]!r}; it is not the URL of an attachment")
        return await self._access.link(sha256, to_seconds(expires_in))

    async def for_model(self, messages: Iterable[UIMessage], *, limit: int = MOST_FOR_MODEL) -> list[UIMessage]:
        """Return the messages with what a model can read in the place of each attachment's URL.

        That is its content as a `data:` URL, or a signed link of an image (`AttachmentOptions.for_models`); not every
        provider fetches other files. Contents of the newest messages come first, up to `limit` bytes; of others, and of
        those that are not stored any more, a text says so.
        `Think` calls this itself.
        """
        given = list(messages)
        urls: dict[str, str | None] = {}
        linked = images_in(given) if self._access.gives_links else set()
        for sha256 in attachments_in(given):
            try:
                if sha256 in linked:
                    urls[sha256] = await self._access.link(sha256, MODEL_LINK)
                    continue
                content = await self._access.read(sha256, limit)
            except AttachmentMissing:
                continue
            urls[sha256] = as_data_url(content) if content is not None else None
            limit -= len(content or b"")
        return [message for message in with_contents(given, urls) if isinstance(message, UIMessage)]


def _url_of(part: Mapping[str, Any] | str) -> str:
    url = part if isinstance(part, str) else part.get("url")
    if not isinstance(url, str):
        raise UsageError("unable to read the file; the part has no url")
    return url
