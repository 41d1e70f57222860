"""Shared links over HTTP: `/shared/{token}`, as a page, as JSON, and live as server-sent events.

Anyone with the token may read, so nothing here knows a principal. Each request looks the link up by the digest of its
token. What readers are shown passes `describe_message` with the link's own settings, and nothing else is rendered.
"""

from __future__ import annotations

import asyncio
import html
import logging
import re
import secrets
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Final, NamedTuple

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp

from ..agents.handles.shares import SHARED, digest_of
from ..core.record import RecordedMessage
from ..errors import EverywordError, TooManyQueued
from ..ids import Millis, split_agent_id
from ..principals import Principal
from ..runtime.api.lists import SharedAgent
from ..transcripts.document import Shown, head_of
from ..transcripts.formats import FORMATS
from ..transcripts.html_page import STYLE, facts_html
from ..transcripts.live import live_html
from ..transcripts.safe_text import storable
from ..wire.sse import PLAIN_STREAM_HEADERS
from .attachment_resources import content_response
from .exported_files import gathered
from .permissions import Permit, Reject
from .rate_limits import RateLimiter
from .reader_limit import ReaderLimit
from .refusals import refusal_response
from .relayed_principal import relayed_principal
from .service import Service
from .shared_feed import GONE, SharedFeeds
from .shared_views import AT_ONCE, Form, SharedView, VisibleFiles, described_messages, read_view, rendered, shown_of
from .streamed_response import Admit, StreamedResponse

if TYPE_CHECKING:
    from .app import Everyword

__all__ = ["SharedPages"]

log = logging.getLogger("everyword.server")

_PAGE: Final = Template((files(__package__) / "shared_page.html").read_text(encoding="utf-8"))
_SCRIPT: Final = (files(__package__) / "shared_page.js").read_text(encoding="utf-8")
_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{32}")

_FILE: Final = re.compile(r"(.*)/files/([0-9a-f]{64})")

DOWNLOADS: Final = 6
"""Downloads at the same time per reader of a link, on average."""

EXPIRED: Final = "This link does not work any more: its time is over."
UNKNOWN: Final = "This link does not work. It was revoked, or it is not complete."
TOO_MANY: Final = "This link is opened too often right now. Try again in a minute."

HEADERS: Final = {
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-robots-tag": "noindex, nofollow",
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}

LATER: Final = "This link cannot be shown right now. Try again in a moment."
NO_FILE: Final = "This link shows no such file."


class SharedPages:
    """Answers requests for shared links, for one app."""

    def __init__(self, app: Everyword) -> None:
        self._app, limits = app, app.limits
        self._views = RateLimiter(limits.shared_views_per_minute)
        self._files = RateLimiter(limits.shared_files_per_minute)
        self._readers = ReaderLimit(limits.sockets_per_agent, limits.shared_readers)
        self._waiting = ReaderLimit(limits.sockets_per_agent, limits.shared_readers)
        """Pages of frozen links that wait for the end of the link. They keep no new readers out."""
        self._downloads = ReaderLimit(DOWNLOADS * limits.sockets_per_agent, DOWNLOADS * limits.shared_readers)
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._visible = VisibleFiles(self._slots)
        self._feeds = SharedFeeds()

    async def answer(self, request: Request) -> ASGIApp | None:
        """Return the response; None for a path that is not one of a link."""
        path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
        if not path.startswith(f"{SHARED}/"):
            return None
        asked = _asked(path.removeprefix(f"{SHARED}/"), request.headers.get("accept", ""))
        form = asked.form
        is_relayed = relayed_principal(request.scope) is not None
        if not is_relayed and (refused := self._app.access_policy.refuse_at_sight(request)) is not None:
            return refusal_response(refused.status, refused.reason)
        if request.method != "GET" and (request.method != "HEAD" or form == "stream"):
            return refusal_response(405, f"unable to {request.method} a shared link; use GET", allow="GET")
        try:
            return await self._answered(request, asked, is_relayed=is_relayed)
        except TooManyQueued:
            return _refusal(form, 429, TOO_MANY, retry_after="10")
        except EverywordError as exc:
            # The reader gets no text of an error, which may name the agent. The log gets no path, which has the token.
            log.error("unable to show a shared link: %s", exc)
            return _refusal(form, 503, LATER, retry_after="1")

    async def _answered(self, request: Request, asked: _Asked, *, is_relayed: bool) -> ASGIApp:
        token, form = asked.token, asked.form
        if token is None:
            return _refusal(form, 404, UNKNOWN)
        service, digest = await self._app.service(), digest_of(token)
        shared, now = await self._find(digest), service.directory.clock.now()
        refused = _problem(shared, now)
        if not is_relayed:
            refused = await self._recorded(request, asked, shared, refused)
        if refused is not None:
            return _refusal(form, refused.status, refused.reason)
        assert shared is not None
        limiter = self._files if form == "file" else self._views
        if not is_relayed and (wait := limiter.wait_needed(digest, now)):
            return _refusal(form, 429, TOO_MANY, retry_after=f"{wait // 1000 + 1}")
        has_files = service.directory.attachments is not None
        view = SharedView(shared, token, shown_of(shared, token, has_files=has_files), form)
        if form == "stream":
            return await self.stream(service, view, is_relayed=is_relayed)
        if asked.file is not None:
            return await self.file(service, view, request, asked.file)
        return await self.transcript(service, view, now)

    async def _recorded(
        self, request: Request, asked: _Asked, shared: SharedAgent | None, refused: Reject | None
    ) -> Reject | None:
        """Record that a link was opened or refused, without its token; see `Permissions.record_bearer`."""
        about = split_agent_id(shared.agent) if shared is not None else ("", "")
        share = shared.share.id if shared is not None else None
        what = {"share": share, "resource": f"shared/{asked.resource}", "method": request.method}
        return await self._app.access_policy.permissions.record_bearer("read", about, refused, what)

    async def _find(self, digest: str) -> SharedAgent | None:
        """Return the link with this digest, if its class is still served."""
        shared = await self._app._calls.lists.find_share(digest)
        return shared if shared is not None and self._app.kinds_of(shared.agent) else None

    # -- as it is now, or as it was ----------------------------------------------------------------------------------

    async def transcript(self, service: Service, view: SharedView, now: Millis) -> ASGIApp:
        """Return the conversation that a link shows. Anyone with the token may read it; `authorize` is not asked.

        As JSON, in the form of an exported conversation, with `Accept: application/json` or `.json` behind the token.

        Answers:
            200: `text/html`: a page that loads nothing but its photos and follows a live link; or `application/json`.
            404: There is no such link, or it was revoked.
            410: The link has expired.
            429: Too many requests for this link (`Limits.shared_views_per_minute`, `Limits.shared_readers`).
        """
        async with self._slots:
            found = await read_view(service.directory.store, view.shared)
        if found is None:
            return _refusal(view.form, 404, GONE)
        messages = found.messages
        head = head_of(found.summary, "", "", now, view.shown)
        with ExitStack() as seat:
            self._readers.check(view.shared.agent, view.shared.share.digest)
            seat.enter_context(self._readers.hold(view.shared.agent, view.shared.share.digest))
            pieces: AsyncIterable[bytes] | Iterable[bytes]
            if view.form == "json":
                described = (each for _, each in described_messages(messages, view.shown))
                pieces = map(_encoded, FORMATS["json"].write(head, described))
                headers = {**HEADERS, "content-type": "application/json"}
            else:
                nonce, is_live = secrets.token_urlsafe(16), not view.shared.share.frozen
                pieces = _page(head.title, facts_html(head), messages, view.shown, nonce=nonce, is_live=is_live)
                headers = {**HEADERS, "content-type": "text/html; charset=utf-8"}
                headers["content-security-policy"] = _policy(nonce)
            return StreamedResponse(gathered(pieces), headers, seat.pop_all(), self._admit(service, view))

    # -- files -------------------------------------------------------------------------------------------------------

    async def file(self, service: Service, view: SharedView, request: Request, sha256: str) -> ASGIApp:
        """Return the content of an attachment that a message on the page has.

        Pictures, audio and video are shown in place; any other content is a download, as for
        `GET …/attachments/{sha256}`. The page and its JSON have these URLs, relative to their own.

        Headers:
            Range: One range of bytes.
            If-None-Match: The `etag` of the copy that the client has.
        Answers:
            200: The content.
            206: The range.
            304: The client has it.
            404: There is no such link, it was revoked, or nothing that it shows has this file. Or it is not stored.
            410: The link has expired.
            416: The range begins behind the end.
            429: Too many requests for files of this link (`Limits.shared_files_per_minute`), or too many at a time.
        """
        shared, attachments = view.shared, service.directory.attachments
        digest, clock = shared.share.digest, service.directory.clock
        self._downloads.check(shared.agent, digest)
        if not await self._visible.shows(service.directory.store, view, sha256, clock.now()):
            return _refusal("file", 404, NO_FILE)

        async def may_go_on() -> bool:
            return await self._find(digest) is not None

        return await content_response(
            attachments,
            request,
            shared.agent,
            sha256,
            headers={**HEADERS, "cache-control": "private, no-cache"},  # the copy is of no use once the link is over
            held=self._downloads.hold(shared.agent, digest),
            admit=self._admit(service, view),
            may_go_on=may_go_on,
        )

    # -- live ----------------------------------------------------------------------------------------------------------

    async def stream(self, service: Service, view: SharedView, *, is_relayed: bool) -> ASGIApp:
        """Follow a link, as its page does: a live one with all that changes, a frozen one until it is over.

        Answers:
            200: `text/event-stream`: lists of changes to the page. `over` says that the link was revoked.
            404: There is no such link, or it was revoked.
            410: The link has expired.
            429: Too many pages follow this link (`Limits.shared_readers`).
        """
        shared = view.shared
        if service.node is not None and not is_relayed:
            link = await service.node.owner(shared.agent, takes=True)
            if link is not None:
                from .node_links import relay_client

                return partial(relay_client, link, _reader(shared))
        readers = self._waiting if shared.share.frozen else self._readers
        readers.check(shared.agent, shared.share.digest)
        with ExitStack() as seat:
            seat.enter_context(readers.hold(shared.agent, shared.share.digest))
            async with service.directory.attach(shared.agent):
                pass  # if loading fails, the response can still have an error status
            pieces = self._feeds.follow(service.directory, shared, view.shown)
            headers = {**PLAIN_STREAM_HEADERS, **HEADERS}
            return StreamedResponse(pieces, headers, seat.pop_all(), self._admit(service, view))

    def _admit(self, service: Service, view: SharedView) -> Admit:
        """Close the response when the link expires."""
        permit = Permit(_reader(view.shared), clock=service.directory.clock)
        return partial(service.open_connections.admit, permit)


def _reader(shared: SharedAgent) -> Principal:
    """Return the principal of readers, for what is open and for a node that relays."""
    expires = shared.share.expires_at
    known = Principal(f"everyword:{shared.share.id}", read_only=True)
    return known if expires is None else Principal(known.id, read_only=True, expires_at=expires / 1000)


def _problem(shared: SharedAgent | None, now: Millis) -> Reject | None:
    """Return why a link does not work; None if it does."""
    if shared is None:
        return Reject(UNKNOWN, 404)
    return Reject(EXPIRED, 410) if shared.share.is_over(now) else None


class _Asked(NamedTuple):
    """The parsed path of a request."""

    token: str | None
    """None if it is not that of a link."""
    form: Form
    file: str | None = None
    """The hash of a file."""

    @property
    def resource(self) -> str:
        """The resource of the request, without the token."""
        return f"files/{self.file}" if self.file is not None else self.form


def _asked(rest: str, accept: str) -> _Asked:
    """Return what a path asks for, and in which form."""
    form: Form = "html"
    sha256: str | None = None
    if (found := _FILE.fullmatch(rest)) is not None:
        rest, form, sha256 = found[1], "file", found[2]
    elif rest.endswith("/stream"):
        rest, form = rest.removesuffix("/stream"), "stream"
    elif rest.endswith(".json"):
        rest, form = rest.removesuffix(".json"), "json"
    elif "application/json" in accept and "text/html" not in accept:
        form = "json"
    return _Asked(rest if _TOKEN.fullmatch(rest) else None, form, sha256)


def _policy(nonce: str) -> str:
    return (
        f"default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; img-src 'self' data:; "
        "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    )


async def _page(
    title: str, facts: str, messages: Iterator[RecordedMessage], shown: Shown, *, nonce: str, is_live: bool
) -> AsyncIterator[bytes]:
    """Yield the page piece by piece."""
    script = f'<script nonce="{nonce}" data-live="{"yes" if is_live else "no"}">{_SCRIPT}</script>'
    between = f"<!--{secrets.token_urlsafe(16)}-->"
    page = _PAGE.substitute(
        nonce=nonce,
        style=STYLE,
        title=html.escape(storable(title)),
        facts=facts,
        state="" if is_live else "A copy of the conversation, as it was when the link was made",
        messages=between,
        script=script,
    )
    before, _, after = page.partition(between)
    yield _encoded(before)
    for recorded, described in described_messages(messages, shown):
        yield _encoded(live_html(await rendered(recorded.node, described)))
    yield _encoded(after)


def _encoded(piece: str) -> bytes:
    return piece.encode("utf-8", "replace")


def _refusal(form: Form, status: int, text: str, **headers: str) -> Response:
    """Return a refusal: as a page for people, as text for programs."""
    named = {**HEADERS, **{name.replace("_", "-"): value for name, value in headers.items()}}
    if form != "html":
        response = refusal_response(status, text)
        response.headers.update(named)
        return response
    nonce = secrets.token_urlsafe(16)
    page = _PAGE.substitute(
        nonce=nonce,
        style=STYLE,
        title="Shared conversation",
        facts="",
        state="",
        messages=f'<p class="alone">{html.escape(text)}</p>',
        script="",
    )
    return HTMLResponse(page, status, {**named, "content-security-policy": _policy(nonce)})
