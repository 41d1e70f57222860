"""The HTTP resources of attachments: uploads, and reading with the client's own rights or with a signed link."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from ..attachments.media_types import SNIFFED, served_type
from ..errors import (
    AgentStopped,
    AttachmentMissing,
    AttachmentRefused,
    AttachmentsUnavailable,
    BadInput,
    EverywordError,
    public_text,
)
from ..ids import AgentId, id_problem, split_agent_id
from ..runtime.attachments import Attachments
from .agent_urls import find_address
from .attachment_options import client_prefix
from .http_caller import Caller
from .permissions import Permissions, Reject
from .refusals import BUSY, NO_ATTACHMENTS, refusal_response
from .request_bodies import read_number
from .streamed_response import Admit, StreamedResponse

if TYPE_CHECKING:
    from .service import Service

__all__ = ["ONE", "answer_signed", "attachment_of", "content_response", "get_attachment", "post_attachment"]

log = logging.getLogger("everyword.server")

ONE: Final = "attachments/{sha256}"
"""The name of the resource of one attachment."""

_PATH: Final = re.compile(r"attachments/([0-9a-f]{64})")

NOT_CONFIGURED: Final = (
    "unable to store attachments; this server has no place for them. Set `store` of Everyword(attachments=…)"
)

NO_FORM: Final = "unable to store a form; send the file itself as the body, for example fetch(url, {body: file})"

_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")

SAFE: Final = {
    # The content is another person's: nothing of it may run as a page of this site.
    "x-content-type-options": "nosniff",
    "content-security-policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; media-src 'self'",
    "cross-origin-resource-policy": "cross-origin",
    "accept-ranges": "bytes",
}

PRIVATE: Final = {"cache-control": "private, max-age=31536000, immutable"}
"""A content never changes, and a client that may read it now may keep it."""

ASKED_EVERY: Final = 1024 * 1024
"""Bytes after which a response asks again whether it may go on."""


def attachment_of(resource: str) -> str | None:
    """Return the hash in the name of a resource; None for any other resource."""
    found = _PATH.fullmatch(resource)
    return found[1] if found is not None else None


async def post_attachment(service: Service, caller: Caller) -> ASGIApp:
    """Store the body as an attachment; return the file part to put into a message.

    The body is written while it arrives. Its type is checked against its first bytes. The same content has the same URL
    in one conversation. An attachment that no message refers to is deleted after a day (`AttachmentOptions.grace`).

    Query:
        filename: The name that the file part has.
    Headers:
        Content-Type: The media type of the file part. Without one, with curl's default, or if the content is another
            kind of image, the first bytes decide.
    Answers:
        201: `{"type": "file", "mediaType": text, "filename": text, "url": text}`; without `filename` if none was given.
        413: The body is larger than `Limits.upload`, or the conversation's attachments than `Limits.attachments`.
        415: The type is not allowed, the content is not of this type, or it is a form with the file in it.
        422: The body is empty, or the app's own check refuses it.
        429: Too many uploads in a minute (`Limits.uploads_per_minute`).
        501: The server has no place for attachments: with PostgreSQL, `AttachmentOptions.store` must be set.
    """
    attachments, request, limits = service.directory.attachments, caller.request, service.limits
    if attachments is None:
        return refusal_response(501, NOT_CONFIGURED)
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type.startswith("multipart/"):
        return refusal_response(415, NO_FORM)
    said = read_number(request.headers.get("content-length", ""))
    if said is not None and said > limits.upload:
        text = (
            f"unable to store the file; it is larger than {limits.upload / 1024 / 1024:g} MiB, the limit of this server"
        )
        return refusal_response(413, text)
    wait = service.upload_rate.wait_needed(caller.principal.id, service.directory.clock.now())
    if wait:
        text = "unable to store the file; too many came in a minute"
        return refusal_response(429, text, retry_after=f"{wait // 1000 + 1}")
    filename = request.query_params.get("filename")
    if filename is not None and (problem := id_problem(filename, "the filename")) is not None:
        raise BadInput(f"unable to store the file; {problem}")
    try:
        part = await attachments.upload(
            caller.agent,
            _body(request),
            media_type,
            filename or None,
            size=said or 0,
            prefix=client_prefix(request.scope, attachments, service.base_path),
            sender=caller.principal.identity,
        )
    except AttachmentRefused as exc:
        return refusal_response(exc.status, public_text(exc, BUSY))
    return JSONResponse(part, 201, {"location": part["url"]})


async def _body(request: Request) -> AsyncIterator[bytes]:
    try:
        async for piece in request.stream():
            yield piece
    except ClientDisconnect:
        raise BadInput("unable to read the body; the client is gone") from None


async def get_attachment(service: Service, caller: Caller) -> ASGIApp:
    """Return the content of an attachment.

    Images, audio and video are shown in place; any other content is a download. What the content is decides, and not
    what its uploader has called it.

    Headers:
        Range: One range of bytes.
        If-None-Match: The `etag` of the copy that the client has.
    Answers:
        200: The content.
        206: The range.
        304: The client has it.
        404: It is not stored: it was never uploaded, or it was deleted.
        416: The range begins behind the end.
    """
    sha256 = attachment_of(caller.resource)
    assert sha256 is not None
    return await content_response(service.directory.attachments, caller.request, caller.agent, sha256)


async def answer_signed(service: Service, connection: HTTPConnection, permissions: Permissions) -> ASGIApp | None:
    """Return the response to a request with a signed link; None for any other request.

    Whoever has the link may read this one content: the client is not asked who it is.
    """
    if connection.scope["method"] not in ("GET", "HEAD"):
        return None
    try:
        address = find_address(connection.scope, service.base_path)
    except BadInput:
        return None
    sha256 = attachment_of(address.resource) if address is not None else None
    attachments = service.directory.attachments
    if address is None or sha256 is None or attachments is None:
        return None
    given = parse_qs(connection.scope.get("query_string", b"").decode("latin-1"))
    expires, signature = given.get("expires", [""])[-1], given.get("signature", [""])[-1]
    try:
        now = service.directory.clock.now()
        is_valid = await attachments.signer.is_valid(address.agent, sha256, expires, signature, now)
        refused = None if is_valid else Reject("unable to read the attachment; the link has expired or was changed")
        what = {"resource": address.resource, "method": connection.scope["method"], "signed": True}
        refused = await permissions.record_bearer("read", split_agent_id(address.agent), refused, what)
        if refused is not None:
            return refusal_response(refused.status, refused.reason)
        agent = await service.directory.stored_ids.find(address.agent)
        return await content_response(attachments, connection, agent, sha256)
    except AttachmentsUnavailable as exc:
        log.error("unable to serve a signed link: %s", exc)
        return refusal_response(503, NO_ATTACHMENTS, retry_after="1")
    except EverywordError as exc:
        return refusal_response(503, public_text(exc, BUSY), retry_after="1")


async def content_response(
    attachments: Attachments | None,
    connection: HTTPConnection,
    agent: AgentId,
    sha256: str,
    *,
    headers: Mapping[str, str] = PRIVATE,
    held: AbstractContextManager[Any] | None = None,
    admit: Admit | None = None,
    may_go_on: Callable[[], Awaitable[bool]] | None = None,
) -> ASGIApp:
    """Return the content of an attachment as a response, for a client that may read it.

    Args:
        attachments: Those of the app; None if it has no place for them.
        connection: The request.
        agent: The agent whose attachment it is.
        sha256: The hash of the content.
        headers: Headers besides those that are always sent.
        held: Entered while the content is sent.
        admit: See `StreamedResponse`.
        may_go_on: Asked before each further MiB is read; with False, the response stays incomplete.
    """
    blob = await attachments.find(agent, sha256) if attachments is not None else None
    if attachments is None or blob is None:
        return _not_stored(sha256)
    headers = {**SAFE, **headers, "etag": f'"{sha256}"'}
    asked = connection.headers
    if f'"{sha256}"' in asked.get("if-none-match", "") or asked.get("if-none-match") == "*":
        return Response(status_code=304, headers=headers)
    try:
        first = b"".join([piece async for piece in attachments.read(agent, sha256, 0, SNIFFED)])
    except AttachmentMissing:  # it was deleted meanwhile
        return _not_stored(sha256)
    media_type, is_shown = served_type(first)
    headers["content-type"] = media_type
    # Without a name, so that the `download` of a link on a page names the file.
    headers["content-disposition"] = "inline" if is_shown else "attachment"
    start, end = 0, blob.size
    status = 200
    if (part := _range(asked.get("range"), asked.get("if-range"), blob.size, sha256)) is not None:
        start, end = part
        if start >= end:
            text = "unable to read that range; it begins behind the end"
            return refusal_response(416, text, content_range=f"bytes */{blob.size}")
        headers["content-range"], status = f"bytes {start}-{end - 1}/{blob.size}", 206
    headers["content-length"] = f"{end - start}"
    if connection.scope["method"] == "HEAD":
        return Response(status_code=status, headers=headers)
    pieces = _pieces(attachments.read(agent, sha256, start, end - start), may_go_on)
    return StreamedResponse(pieces, headers, held, admit, status=status)


def _not_stored(sha256: str) -> Response:
    return refusal_response(404, f"unable to read attachment {sha256}; it is not stored")


async def _pieces(
    content: AsyncIterator[bytes], may_go_on: Callable[[], Awaitable[bool]] | None
) -> AsyncGenerator[bytes, None]:
    unasked = 0
    async for piece in content:
        if may_go_on is not None and unasked >= ASKED_EVERY:
            unasked = 0
            if not await may_go_on():
                raise AgentStopped("unable to go on with the content; it may not be read any more")
        unasked += len(piece)
        yield piece


def _range(given: str | None, unless: str | None, size: int, sha256: str) -> tuple[int, int] | None:
    """Return the first byte and the byte behind the last of a range; None for the whole content.

    A header that is not one range is ignored, as HTTP allows.
    """
    found = _RANGE.fullmatch(given or "")
    if found is None or found[0] == "bytes=-" or (unless is not None and unless != f'"{sha256}"'):
        return None
    first, last = found[1], found[2]
    if not first:
        return (max(size - int(last), 0), size) if int(last) else (size, size)
    if last and int(last) < int(first):
        return None
    return int(first), min(int(last) + 1, size) if last else size
