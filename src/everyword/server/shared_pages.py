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
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp

from ..agents.handles.shares import SHARED, digest_of
from ..core.record import RecordedMessage
from ..errors import EverywordError, TooManyQueued
from ..ids import Millis
from ..principals import Principal
from ..rows import ConversationSummary
from ..runtime.api.lists import SharedAgent
from ..runtime.records import read_frozen_record, read_record
from ..transcripts.document import Shown, TranscriptMessage, describe_message, head_of
from ..transcripts.formats import FORMATS
from ..transcripts.html_page import STYLE, facts_html
from ..transcripts.live import live_html, render
from ..transcripts.safe_text import storable
from ..transcripts.urls import data_image, link_target
from ..wire.sse import PLAIN_STREAM_HEADERS
from .exported_files import gathered
from .permissions import Permit
from .rate_limits import RateLimiter
from .reader_limit import ReaderLimit
from .refusals import refusal_response
from .relayed_principal import relayed_principal
from .service import Service
from .shared_feed import GONE, SharedFeeds
from .streamed_response import StreamedResponse

if TYPE_CHECKING:
    from .app import Everyword

__all__ = ["SharedPages"]

log = logging.getLogger("everyword.server")

_PAGE: Final = Template((files(__package__) / "shared_page.html").read_text(encoding="utf-8"))
_SCRIPT: Final = (files(__package__) / "shared_page.js").read_text(encoding="utf-8")
_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{32}")

_ATTACHMENT: Final = re.compile(r"/attachments/[0-9a-f]{16}")

AT_ONCE: Final = 2
"""How many links are read from the log at the same time, to be shown."""

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

Form = Literal["html", "json", "stream"]


class _View(NamedTuple):
    """A link that works, and how it is asked for."""

    shared: SharedAgent
    shown: Shown
    form: Form


class SharedPages:
    """Answers requests for shared links, for one app."""

    def __init__(self, app: Everyword) -> None:
        self._app, limits = app, app.limits
        self._views = RateLimiter(limits.shared_views_per_minute)
        self._readers = ReaderLimit(limits.sockets_per_agent, limits.shared_readers)
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._feeds = SharedFeeds()

    async def answer(self, request: Request) -> ASGIApp | None:
        """Return the response; None for a path that is not one of a link."""
        path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
        if not path.startswith(f"{SHARED}/"):
            return None
        token, form = _asked(path.removeprefix(f"{SHARED}/"), request.headers.get("accept", ""))
        is_relayed = relayed_principal(request.scope) is not None
        if not is_relayed and (refused := self._app.access_policy.refuse_at_sight(request)) is not None:
            return refusal_response(refused.status, refused.reason)
        if request.method != "GET" and (request.method != "HEAD" or form == "stream"):
            return refusal_response(405, f"unable to {request.method} a shared link; use GET", allow="GET")
        try:
            return await self._answered(request, token, form, is_relayed=is_relayed)
        except TooManyQueued:
            return _refusal(form, 429, TOO_MANY, retry_after="10")
        except EverywordError as exc:
            # The reader gets no text of an error, which may name the agent. The log gets no path, which has the token.
            log.error("unable to show a shared link: %s", exc)
            return _refusal(form, 503, LATER, retry_after="1")

    async def _answered(self, request: Request, token: str | None, form: Form, *, is_relayed: bool) -> ASGIApp:
        if token is None:
            return _refusal(form, 404, UNKNOWN)
        service, digest = await self._app.service(), digest_of(token)
        shared = await self._app._calls.lists.find_share(digest)
        if shared is None or not self._app.kinds_of(shared.agent):
            return _refusal(form, 404, UNKNOWN)
        now = service.directory.clock.now()
        if shared.share.is_over(now):
            return _refusal(form, 410, EXPIRED)
        if not is_relayed and (wait := self._views.wait_needed(digest, now)):
            return _refusal(form, 429, TOO_MANY, retry_after=f"{wait // 1000 + 1}")
        view = _View(shared, _shown(shared), form)
        if form == "stream":
            return await self.stream(service, view, is_relayed=is_relayed)
        return await self.transcript(service, view, now)

    # -- as it is now, or as it was ----------------------------------------------------------------------------------

    async def transcript(self, service: Service, view: _View, now: Millis) -> ASGIApp:
        """Return the conversation that a link shows. Anyone with the token may read it; `authorize` is not asked.

        As JSON, in the form of an exported conversation, with `Accept: application/json` or `.json` behind the token.

        Answers:
            200: `text/html`: a page that loads nothing else and follows a live link; or `application/json`.
            404: There is no such link, or it was revoked.
            410: The link has expired.
            429: Too many requests for this link (`Limits.shared_views_per_minute`, `Limits.shared_readers`).
        """
        async with self._slots:
            found = await _read(service, view.shared)
        if found is None:
            return _refusal(view.form, 404, GONE)
        summary, messages = found
        head = head_of(summary, "", "", now, view.shown)
        with ExitStack() as seat:
            self._readers.check(view.shared.agent, view.shared.share.digest)
            seat.enter_context(self._readers.hold(view.shared.agent, view.shared.share.digest))
            if view.form == "json":
                described = (each for _, each in _described(messages, view.shown))
                pieces = FORMATS["json"].write(head, described)
                headers = {**HEADERS, "content-type": "application/json"}
            else:
                nonce, is_live = secrets.token_urlsafe(16), not view.shared.share.frozen
                pieces = _page(head.title, facts_html(head), messages, view.shown, nonce=nonce, is_live=is_live)
                headers = {**HEADERS, "content-type": "text/html; charset=utf-8"}
                headers["content-security-policy"] = _policy(nonce)
            encoded = (piece.encode("utf-8", "replace") for piece in pieces)
            return StreamedResponse(gathered(encoded), headers, seat.pop_all(), self._admit(service, view))

    # -- live ----------------------------------------------------------------------------------------------------------

    async def stream(self, service: Service, view: _View, *, is_relayed: bool) -> ASGIApp:
        """Follow a live link, as its page does.

        Answers:
            200: `text/event-stream`: lists of changes to the page. `over` says that the link was revoked.
            204: The link is frozen: nothing follows.
            404: There is no such link, or it was revoked.
            410: The link has expired.
            429: Too many pages follow this link (`Limits.shared_readers`).
        """
        shared = view.shared
        if shared.share.frozen:
            return Response(status_code=204, headers=HEADERS)  # an EventSource does not come back
        if service.node is not None and not is_relayed:
            link = await service.node.owner(shared.agent, takes=True)
            if link is not None:
                from .node_links import relay_client

                return partial(relay_client, link, _reader(shared))
        self._readers.check(shared.agent, shared.share.digest)
        with ExitStack() as seat:
            seat.enter_context(self._readers.hold(shared.agent, shared.share.digest))
            async with service.directory.attach(shared.agent):
                pass  # if loading fails, the response can still have an error status
            pieces = self._feeds.follow(service.directory, shared, view.shown)
            headers = {**PLAIN_STREAM_HEADERS, **HEADERS}
            return StreamedResponse(pieces, headers, seat.pop_all(), self._admit(service, view))

    def _admit(self, service: Service, view: _View) -> Callable[[Callable[[], None]], Any]:
        """Close the response when the link expires."""
        permit = Permit(_reader(view.shared), clock=service.directory.clock)
        return partial(service.open_connections.admit, permit)


def _reader(shared: SharedAgent) -> Principal:
    """Return the principal of readers, for what is open and for a node that relays."""
    expires = shared.share.expires_at
    known = Principal(f"everyword:{shared.share.id}", read_only=True)
    return known if expires is None else Principal(known.id, read_only=True, expires_at=expires / 1000)


def _asked(rest: str, accept: str) -> tuple[str | None, Form]:
    """Return the token in a path, None if it has none, and the form that is asked for."""
    form: Form = "html"
    if rest.endswith("/stream"):
        rest, form = rest.removesuffix("/stream"), "stream"
    elif rest.endswith(".json"):
        rest, form = rest.removesuffix(".json"), "json"
    elif "application/json" in accept and "text/html" not in accept:
        form = "json"
    return (rest if _TOKEN.fullmatch(rest) else None), form


def _shown(shared: SharedAgent) -> Shown:
    shows = shared.share.shows
    return Shown(
        reasoning=shows.reasoning,
        tools=shows.tools,
        data=shows.data,
        people=shows.people,
        address=False,
        system=False,
        file_url=_public_url,
    )


def _public_url(part: Any) -> str | None:
    """Return the URL of a file if readers can open it: a picture in it, or one on another server."""
    url = part.get("url")
    if not isinstance(url, str):
        return None
    # The URL of an attachment names the agent, also where it is absolute (`AttachmentOptions.public_url`).
    is_elsewhere = not url.startswith("/") and link_target(url) is not None and not _ATTACHMENT.search(url)
    return url if data_image(url) is not None or is_elsewhere else None


async def _read(service: Service, shared: SharedAgent) -> tuple[ConversationSummary, Iterator[RecordedMessage]] | None:
    """Return what a link shows; None if it was revoked meanwhile."""
    store, agent, digest = service.directory.store, shared.agent, shared.share.digest
    if not shared.share.frozen:
        record = await read_record(store, agent)
        is_there = record.summary is not None and record.has_share(shared.share.id)
        return (record.summary, record.messages()) if is_there and record.summary is not None else None
    frozen = await read_frozen_record(store, agent, digest)
    if frozen is None or frozen.summary is None:
        return None
    # Messages that were removed since are shown to nobody.
    there = {row.node: row.body is not None for row in (await store.conversation(agent))[1]}
    shown = (each for each in frozen.ended_messages() if there.get(each.node, False) or each.message is None)
    return frozen.summary, shown


def _described(
    messages: Iterator[RecordedMessage], shown: Shown
) -> Iterator[tuple[RecordedMessage, TranscriptMessage]]:
    for recorded in messages:
        described = describe_message(recorded, shown)
        if described is not None:
            yield recorded, described


def _policy(nonce: str) -> str:
    return (
        f"default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; img-src data:; "
        "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    )


def _page(
    title: str, facts: str, messages: Iterator[RecordedMessage], shown: Shown, *, nonce: str, is_live: bool
) -> Iterator[str]:
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
    yield before
    for recorded, described in _described(messages, shown):
        yield live_html(render(recorded.node, described))
    yield after


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
