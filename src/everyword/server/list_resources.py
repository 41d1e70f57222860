"""The HTTP resources of lists: `/conversations` and `/approvals`, as JSON or live as server-sent events.

Every conversation that a client is shown or changes passes `authorize`, one by one.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, aclosing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
from urllib.parse import unquote

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from ..agents import Approval, ConversationPage, agent_kind
from ..agents.handles.conversations import checked_metadata, checked_title
from ..errors import (
    AgentStopped,
    AlreadyAnswered,
    BadInput,
    ConversationNotFound,
    LogError,
    Rejected,
    TooManyQueued,
    public_text,
)
from ..ids import AgentId, can_name_a_root, id_problem
from ..log.nodes import NodeMembership
from ..principals import Principal, acting_as
from ..runtime.api.lists import ConversationStatus
from ..transcripts.embedding import MOST_IN_EXPORT
from ..wire.sse import KEEP_ALIVE, PLAIN_STREAM_HEADERS, encode_sse
from .approval_page import approval_page
from .approval_pages import ApprovalPages
from .exported_files import exported_file
from .list_cursors import SealedCursors
from .list_json import approval_json, change_json, conversation_json, conversations_json
from .live_lists import ToldConversations, with_pauses
from .permissions import Action, Connecting, Permit, Reject
from .rate_limited_receive import RateLimitedBody
from .refusals import BUSY, refusal_response
from .request_bodies import TooLarge, read_json, read_number
from .service import Service
from .share_resources import ShareResources
from .streamed_response import StreamedResponse
from .visible_pages import visible_page

if TYPE_CHECKING:
    from ..transcripts.formats import TranscriptFormat
    from .app import Everyword

__all__ = ["APPROVALS", "CONVERSATIONS", "ListCaller", "ListResources"]

log = logging.getLogger("everyword.server")

CONVERSATIONS: Final = "/conversations"
APPROVALS: Final = "/approvals"

MOST_BYTES: Final = 64 * 1024
"""Bytes of a body."""


class ListCaller(NamedTuple):
    """One admitted request for lists."""

    request: Request
    principal: Principal
    service: Service
    place: list[str]
    """The parts of the path below the resource."""

    @property
    def wants_events(self) -> bool:
        return self.request.method == "GET" and "text/event-stream" in self.request.headers.get("accept", "")

    @property
    def owner(self) -> Principal | None:
        """The principal whose conversations are listed; None for all owners, with `scope=all`."""
        scope = self.request.query_params.get("scope", "mine")
        if scope not in ("mine", "all"):
            raise BadInput('unable to list; "scope" is "mine" or "all"')
        return self.principal if scope == "mine" else None

    @property
    def nodes(self) -> NodeMembership | None:
        """The nodes that share the store; None when it belongs to this process alone."""
        return self.service.directory.store.nodes

    @property
    def about(self) -> dict[str, str]:
        """What a record of the audit trail says about the request."""
        resource, place = _place(self.request) or ("", [])
        return {"resource": "/".join([resource.strip("/"), *place[2:3]]), "method": self.request.method}

    @property
    def conversation(self) -> tuple[str, str]:
        """Kind and name of the conversation in the path."""
        return self.place[0], self.place[1]

    async def body(self) -> dict[str, Any]:
        """Read the body, a JSON object."""
        body = await read_json(self.request, MOST_BYTES, self.service.body_budget)
        if isinstance(body, TooLarge):
            raise BadInput(f"unable to take the body; it is larger than {MOST_BYTES // 1024} KiB")
        return body


Answer = Callable[[ListCaller], Awaitable[ASGIApp]]


class ListResources:
    """Answers requests for lists, for one app."""

    def __init__(self, app: Everyword) -> None:
        self._app, shares, self._cursors = app, ShareResources(app), SealedCursors()
        # By resource, the number of parts below it, and a third part; each method with the action that `authorize` is
        # asked about first.
        self._answers: Mapping[tuple[Any, ...], Mapping[str, tuple[Action | None, Answer]]] = {
            (CONVERSATIONS, 0): {"GET": (None, self.list_conversations)},
            (CONVERSATIONS, 2): {
                "GET": ("list", self.get_conversation),
                "PATCH": ("manage", self.change_conversation),
                "DELETE": ("delete", self.delete_conversation),
            },
            (CONVERSATIONS, 3, "read"): {"POST": ("list", self.mark_read)},
            (CONVERSATIONS, 3, "export"): {"GET": ("read", self.export_conversation)},
            (CONVERSATIONS, 3, "shares"): {
                "GET": ("share", shares.list_shares),
                "POST": ("share", shares.create_share),
            },
            (CONVERSATIONS, 4, "shares"): {"DELETE": ("share", shares.revoke_share)},
            (APPROVALS, 0): {"GET": (None, self.list_approvals)},
            (APPROVALS, 1): {"GET": (None, self.get_approval), "POST": (None, self.answer_approval)},
        }

    async def answer(self, request: Request, body: RateLimitedBody) -> ASGIApp | None:
        """Return the response; None for a path that is not one of a list."""
        found = _place(request)
        if found is None:
            return None
        resource, place = found
        if (refused := self._app.access_policy.refuse_at_sight(request)) is not None:
            refused = await self._app.access_policy.permissions.record_stranger(request, refused)
            return refusal_response(refused.status, refused.reason)
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=self._app.access_policy.preflight_headers(request))
        answers = self._answers.get((resource, len(place), *place[2:3]))
        if answers is None:
            return refusal_response(404, f"unable to find this page; see the reference for what {resource} has")
        found_answer = answers.get("GET" if request.method == "HEAD" else request.method)
        if found_answer is None:
            allowed = ", ".join(answers)
            return refusal_response(405, f"unable to {request.method} {resource}; use {allowed}", allow=allowed)
        try:
            if resource == CONVERSATIONS and place:
                _check_name(place[1])
            return await self._answered(request, body, place, *found_answer)
        except BadInput as exc:
            return refusal_response(400, public_text(exc, "unable to use the request; it does not fit"))
        except (ConversationNotFound, AlreadyAnswered) as exc:
            return refusal_response(404 if isinstance(exc, ConversationNotFound) else 409, public_text(exc, BUSY))
        except TooManyQueued as exc:
            return refusal_response(429, public_text(exc, BUSY), retry_after="5")
        except (AgentStopped, LogError) as exc:
            log.error("%s", exc)
            return refusal_response(503, public_text(exc, BUSY), retry_after="1")
        except Rejected as exc:
            return refusal_response(409, public_text(exc, BUSY))

    async def _answered(
        self, request: Request, body: RateLimitedBody, place: list[str], action: Action | None, answer: Answer
    ) -> ASGIApp:
        known = await self._app.access_policy.permissions.authenticate(request)
        if isinstance(known, Reject):
            known = await self._app.access_policy.permissions.record_stranger(request, known)
            if answer == self.get_approval and _wants_page(request):
                return approval_page(None, known)
            return refusal_response(known.status, known.reason)
        if known is None:
            text = "unable to list; this app has no `authenticate(request)`, which says whose conversations to list"
            return refusal_response(501, text)
        service = await self._app.service()
        body.count_for(service, known)
        caller = ListCaller(request, known, service, place)
        with acting_as(known.identity):
            refused = await self._refuse(caller, action)
            return await answer(caller) if refused is None else refusal_response(refused.status, refused.reason)

    # -- conversations -----------------------------------------------------------------------------------------------

    async def list_conversations(self, caller: ListCaller) -> ASGIApp:
        """List conversations, the newest change first; live with `Accept: text/event-stream`.

        `unread` is counted for the principal. If `authorize` hides a thousand or more in a row, a page has fewer than
        asked for, perhaps none, and a cursor all the same.

        Query:
            scope: `mine` (the default) for conversations that the principal owns, or `all`. Of both, only those for
                which `authorize` allows `list` are shown.
            kind: Only agents of this kind.
            status: `running`, `waiting`, `failed` or `idle`; not live.
            archived: `0` (the default), `1`, or `any`. Live, it chooses the conversations of the first page; changes
                are of all.
            query: Only conversations whose title and messages have all of these words; the last one may be the
                beginning of a word. At most 200 characters and 8 words. Each conversation has an `excerpt` then, so
                only those are shown for which `authorize` allows `read`, too. Not live.
            cursor: `cursor` of the page before; not live.
            limit: Conversations in a page, 1 to 200; 50 by default.
        Answers:
            200: `{"conversations": [...], "cursor": text or null}`. As events: `list` first, with the first page, then
                `changed` with a `conversation`, or `removed` with its `kind` and `name`.
            400: A parameter is not valid, or there is a `query` and the app has no `ConversationOptions(search=True)`.
            501: The app has no `authenticate(request)`.
        """
        asked = caller.request.query_params
        kind, limit = self._kind(asked.get("kind")), _limit(asked.get("limit"))
        archived = _archived(asked.get("archived", "0"))
        if caller.wants_events:
            if (name := next((each for each in ("query", "status", "cursor") if each in asked), None)) is not None:
                what = "a search" if name == "query" else f'a list with "{name}"'
                raise BadInput(f'unable to watch {what}; ask for it as JSON, or leave out "{name}"')
            if (refused := await self._record_list(caller, is_live=True)) is not None:
                return refusal_response(refused.status, refused.reason)
            return self._stream(caller, self._watch_conversations(caller, kind, archived, limit))
        page = await self._page(
            caller,
            cursor=await self._cursors.open(asked.get("cursor"), caller.nodes),
            limit=limit,
            kind=kind,
            status=cast("ConversationStatus | None", asked.get("status")),
            archived=archived,
            query=asked.get("query"),
        )
        shown = [f"{each.kind}/{each.name}" for each in page.conversations]
        if (refused := await self._record_list(caller, shown=shown)) is not None:
            return refusal_response(refused.status, refused.reason)
        return JSONResponse(conversations_json(page), headers={"cache-control": "no-store"})

    async def _page(
        self, caller: ListCaller, *, limit: int, cursor: str | None = None, **query: Any
    ) -> ConversationPage:
        """Return a page of what the client may see."""
        # An excerpt is text of any message, and a search tells whether a text is there.
        needed: Sequence[Action] = ("list", "read") if query.get("query") is not None else ("list",)
        listed = partial(self._app.conversations._placed, principal=caller.owner, reader=caller.principal, **query)
        shown, more = await visible_page(
            lambda place, size: listed(cursor=place, limit=size),
            lambda each: self._may(caller, each.kind, each.name, *needed),
            lambda place: self._cursors.seal(place, caller.nodes),
            cursor=cursor,
            limit=limit,
        )
        return ConversationPage(shown, more)

    async def _watch_conversations(
        self, caller: ListCaller, kind: str | None, archived: bool | None, limit: int
    ) -> AsyncGenerator[bytes, None]:
        query: dict[str, Any] = {"kind": kind, "archived": archived, "limit": limit}
        # The owner of a conversation that another node deleted is not known here: `authorize` decides alone.
        changes = self._app.conversations._changes(
            {"principal": caller.owner, "reader": caller.principal, **query}, tells_all_deleted=True
        )
        told = ToldConversations(lambda kind, name: self._may(caller, kind, name, "list"))
        async with aclosing(changes) as watched:
            async for change in with_pauses(watched):
                if change is None:
                    yield KEEP_ALIVE
                elif change.page is not None:
                    page = await self._page(caller, **query)
                    told.begin(page)
                    yield encode_sse(msgspec.json.encode(change_json(replace(change, page=page))))
                elif (shown := await told.shown(change)) is not None:
                    yield encode_sse(msgspec.json.encode(change_json(shown)))

    async def get_conversation(self, caller: ListCaller) -> ASGIApp:
        """Return one conversation. `unread` is counted for the principal.

        Answers:
            200: The conversation.
            403: `authorize` refuses `list`.
            404: It has no messages.
        """
        return await self._as_it_is(caller, *caller.conversation)

    async def change_conversation(self, caller: ListCaller) -> ASGIApp:
        """Rename, archive or describe a conversation. What is left out stays.

        Body:
            title: A title of 1 to 200 characters; null for the first question again.
            archived: Whether it is archived.
            metadata: The app's own data, a JSON object of at most 4 KiB, which replaces the one before.
        Answers:
            200: The conversation as it is now.
            204: It was changed, and `authorize` refuses `list`.
            400: A field is not valid, or not known; nothing was changed.
            403: `authorize` refuses `manage`.
            404: It has no messages.
        """
        kind, name = caller.conversation
        body = await caller.body()
        if unknown := set(body) - {"title", "archived", "metadata"}:
            raise BadInput(f"unable to change the conversation; {min(unknown)[:80]!r} is not one of its fields")
        changes: dict[str, Any] = {}  # all are checked before one is made
        if "title" in body:
            if body["title"] is not None and not isinstance(body["title"], str):
                raise BadInput('unable to rename; "title" must be text or null')
            changes["title"] = checked_title(body["title"])
        if "archived" in body:
            if not isinstance(body["archived"], bool):
                raise BadInput('unable to archive; "archived" must be true or false')
            changes["archived"] = body["archived"]
        if "metadata" in body:
            changes["metadata"] = checked_metadata(body["metadata"])
        await self._app.conversations._change(kind, name, **changes)
        if not await self._may(caller, kind, name, "list"):
            return Response(status_code=204)
        return await self._as_it_is(caller, kind, name)

    async def delete_conversation(self, caller: ListCaller) -> ASGIApp:
        """Delete a conversation: its agent, all that it stored, and every agent below it.

        Answers:
            204: It was deleted.
            403: `authorize` refuses `delete`.
            404: It has no messages.
        """
        kind, name = caller.conversation
        await self._app.conversations.delete(kind, name)
        return Response(status_code=204)

    async def mark_read(self, caller: ListCaller) -> ASGIApp:
        """Record that the principal has read the conversation.

        Body:
            messages: How many messages the client has shown (`messages` of the conversation); by default all.
        Answers:
            200: The conversation as it is now.
            400: A field is not valid, or not known; nothing was recorded.
            403: `authorize` refuses `list`, or the principal is read-only.
            404: It has no messages.
        """
        kind, name = caller.conversation
        if caller.principal.read_only:
            return refusal_response(403, "unable to record what you read; you may only watch")
        body = await caller.body()
        if unknown := set(body) - {"messages"}:  # a wrong name must not mean that all was read
            raise BadInput(f"unable to record what was read; {min(unknown)[:80]!r} is not messages")
        await self._app.conversations.mark_read(kind, name, caller.principal, messages=body.get("messages"))
        return await self._as_it_is(caller, kind, name)

    async def export_conversation(self, caller: ListCaller) -> ASGIApp:
        """Return the conversation as a file for people.

        Query:
            format: `markdown` (the default), `html` or `json`.
            branch: The id of a message: the branch that leads over it. By default the branch that is shown.
            reasoning: With `0`, without the model's reasoning.
            embed: With `0`, attachments are linked and not embedded (`html` and `json`).
        Answers:
            200: The file, with a `content-disposition` that names it.
            400: The format is not known, or there is no such message.
            403: `authorize` refuses `read`.
            404: It has no messages.
        """
        asked, service, principal = caller.request.query_params, caller.service, caller.principal
        service.readers.check_principal(principal.id)
        async with service.slices.build_slots:
            export = await self._app.conversations.export(
                *caller.conversation,
                format=cast("TranscriptFormat", asked.get("format", "markdown")),
                branch=asked.get("branch"),
                reasoning=asked.get("reasoning", "1") != "0",
                max_embedded_bytes=MOST_IN_EXPORT if asked.get("embed", "1") != "0" else 0,
            )
        return exported_file(export, service.readers.hold(AgentId(""), principal.id))

    async def _as_it_is(self, caller: ListCaller, kind: str, name: str) -> ASGIApp:
        found = await self._app.conversations.get(kind, name, principal=caller.principal)
        if found is None:
            raise ConversationNotFound(f"unable to find the conversation {name!r}; it has no messages, or was deleted")
        return JSONResponse(conversation_json(found), headers={"cache-control": "no-store"})

    # -- approvals ---------------------------------------------------------------------------------------------------

    async def list_approvals(self, caller: ListCaller) -> ASGIApp:
        """List the calls that wait for an approval, oldest first; live with `Accept: text/event-stream`.

        If `authorize` hides a thousand or more in a row, a page has fewer than asked for, and a cursor all the same.

        Query:
            scope: `mine` (the default) for conversations that the principal owns, or `all`. Of both, only those of
                conversations for which `authorize` allows `list` are shown.
            settled: With `1`, those that were approved, denied or expired, newest first; not live.
            cursor: `cursor` of the page before.
            limit: Approvals in a page, 1 to 200; 50 by default.
        Answers:
            200: `{"approvals": [...], "cursor": text or null}`; `mayAnswer` says whether the principal may answer. As
                events: the first page, again after each change.
            501: The app has no `authenticate(request)`.
        """
        asked = caller.request.query_params
        pages = self._approval_pages(caller, _limit(asked.get("limit")))
        if caller.wants_events:
            if (refused := await self._record_list(caller, is_live=True)) is not None:
                return refusal_response(refused.status, refused.reason)
            return self._stream(caller, pages.live())
        cursor = await self._cursors.open(asked.get("cursor"), caller.nodes)
        found = await pages.page(cursor, settled=asked.get("settled", "0") == "1")
        if (refused := await self._record_list(caller, shown=[each["id"] for each in found["approvals"]])) is not None:
            return refusal_response(refused.status, refused.reason)
        return JSONResponse(found, headers={"cache-control": "no-store"})

    def _approval_pages(self, caller: ListCaller, limit: int) -> ApprovalPages:
        async def may_answer(each: Approval) -> bool:
            return await self._refused(caller, each) is None

        return ApprovalPages(
            approvals=self._app.approvals,
            owner=caller.owner,
            may_see=lambda each: self._may(caller, each.kind, each.name, "list"),
            may_answer=may_answer,
            cursors=self._cursors,
            nodes=caller.nodes,
            limit=limit,
        )

    async def get_approval(self, caller: ListCaller) -> ASGIApp:
        """Return a call that waits for an approval: as JSON, or for a browser as a page with two buttons.

        The page is for links in mails. Opening it changes nothing. Of a call that was settled, both say by whom.

        Answers:
            200: The approval; `text/html` if the client accepts it.
            404: There is no such approval, or `authorize` refuses `list`.
        """
        is_page = _wants_page(caller.request)
        approval = await self._asked(caller)
        if isinstance(approval, Reject):
            return approval_page(None, approval) if is_page else refusal_response(approval.status, approval.reason)
        refused = await self._refused(caller, approval) if approval.status == "waiting" else None
        if is_page:
            return approval_page(approval, refused)
        may_answer = refused is None if approval.status == "waiting" else None
        said = approval_json(approval, may_answer=may_answer)
        return JSONResponse(said, headers={"cache-control": "no-store"})

    async def answer_approval(self, caller: ListCaller) -> ASGIApp:
        """Approve or deny a call.

        Body:
            approved: true or false.
            reason: Text for the record and the model, at most 1000 characters.
        Answers:
            200: `{"approved": true or false}`.
            403: `authorize` refuses `answer`, or the principal is not one of the tool's `approvers`.
            404: There is no such approval, or `authorize` refuses `list`.
            409: Another answer was first, or the time for it is over; the text says which.
        """
        approval = await self._asked(caller)
        if isinstance(approval, Reject):
            return refusal_response(approval.status, approval.reason)
        permit = await self._permit(caller, approval.kind, approval.name)
        if isinstance(permit, Reject):
            return refusal_response(permit.status, permit.reason)
        if (refused := await permit.refuse("answer", approval, {"approval": approval.id, **caller.about})) is not None:
            return refusal_response(refused.status, refused.reason)
        body = await caller.body()
        approved, reason = body.get("approved"), body.get("reason")
        if not isinstance(approved, bool) or (reason is not None and not isinstance(reason, str)):
            raise BadInput('unable to answer; "approved" must be true or false, and "reason" text')
        await self._app.approvals.answer(approval.id, approved, by=caller.principal, reason=reason)
        return JSONResponse({"approved": approved})

    async def _asked(self, caller: ListCaller) -> Approval | Reject:
        """Return the approval in the path, or why it is not shown; records who looked at it.

        The record of an answer is written when `answer` is decided.
        """
        unknown = Reject("unable to find this approval; it was withdrawn, or it is not yours", 404)
        try:
            approval = await self._app.approvals.get(caller.place[0])
        except BadInput:
            if not _wants_page(caller.request):
                raise
            return unknown  # a mail program may have cut the link: its reader gets a page that says so
        permit = await self._permit(caller, approval.kind, approval.name) if approval is not None else unknown
        if approval is None or isinstance(permit, Reject):
            return unknown
        refused = await permit.decide("list")
        if refused is None and caller.request.method == "POST":
            return approval
        recorded = await permit.record("list", refused, {"approval": approval.id, **caller.about})
        if recorded is None:
            return approval
        return recorded if refused is None else unknown

    async def _refused(self, caller: ListCaller, approval: Approval) -> Reject | None:
        permit = await self._permit(caller, approval.kind, approval.name)
        return permit if isinstance(permit, Reject) else await permit.decide("answer", approval)

    # -- permissions, bodies and streams -----------------------------------------------------------------------------

    async def _refuse(self, caller: ListCaller, action: Action | None) -> Reject | None:
        """Return why the client may not do this with the conversation in the path; None if it may."""
        if action is None:
            return None
        permit = await self._permit(caller, *caller.conversation)
        return permit if isinstance(permit, Reject) else await permit.refuse(action, what=caller.about)

    async def _record_list(self, caller: ListCaller, **what: object) -> Reject | None:
        """Record that a list is sent. The record of a live one does not name what it shows later."""
        permissions = self._app.access_policy.permissions
        permit = Permit(caller.principal, clock=permissions.clock, hear=permissions.hear)
        scope = caller.request.query_params.get("scope", "mine")
        return await permit.record("list", None, {"scope": scope, **caller.about, **what})

    async def _may(self, caller: ListCaller, kind: str, name: str, *actions: Action) -> bool:
        permit = await self._permit(caller, kind, name)
        return not isinstance(permit, Reject) and not [e for e in actions if await permit.decide(e) is not None]

    async def _permit(self, caller: ListCaller, kind: str, name: str) -> Permit | Reject:
        cls = self._app.class_of_kind(kind)
        if cls is None:
            return Reject(f"unable to find an agent of kind {kind[:80]!r}", 404)
        connecting = Connecting(caller.request, cls, name)
        return await self._app.access_policy.permissions.permit(connecting, agent_kind(cls), caller.principal)

    def _kind(self, given: str | None) -> str | None:
        if given is not None and self._app.class_of_kind(given) is None:
            raise BadInput(f"unable to find agents of kind {given[:80]!r}")
        return given

    def _stream(self, caller: ListCaller, pieces: AsyncGenerator[bytes, None]) -> ASGIApp:
        service, principal = caller.service, caller.principal
        readers, lists = service.readers, AgentId("")
        readers.check_principal(principal.id)
        seat = ExitStack()
        seat.enter_context(readers.hold(lists, principal.id))
        permit = Permit(principal, clock=service.directory.clock)
        return StreamedResponse(pieces, PLAIN_STREAM_HEADERS, seat, partial(service.open_connections.admit, permit))


def _place(request: Request) -> tuple[str, list[str]] | None:
    """Return the resource of a path, and the parts below it, decoded; None for another path."""
    root = request.scope.get("root_path", "")
    raw = request.scope.get("raw_path")
    path = raw.partition(b"?")[0].decode("latin-1") if raw else request.scope["path"]
    path = path.removeprefix(root)
    for resource in (CONVERSATIONS, APPROVALS):
        if path == resource or path.startswith(f"{resource}/"):
            return resource, [unquote(part) for part in path.removeprefix(resource).strip("/").split("/") if part]
    return None


def _check_name(name: str) -> None:
    """Check that a root agent can have this name: the one of a sub-agent is refused, like on every other path.

    Raises:
        BadInput: none can.
    """
    if (problem := id_problem(name, "its name")) is not None:
        raise BadInput(f"unable to find a conversation; {problem}")
    if "\0" in name or not can_name_a_root(name):
        raise BadInput(f"unable to find a conversation named {name!r}; no conversation can have this name")


def _wants_page(request: Request) -> bool:
    return "text/html" in request.headers.get("accept", "")


def _limit(given: str | None) -> int:
    limit = 50 if given is None else read_number(given)
    if limit is None or not 1 <= limit <= 200:
        raise BadInput('unable to list; "limit" is a number from 1 to 200')
    return limit


def _archived(given: str) -> bool | None:
    try:
        return {"0": False, "1": True, "any": None}[given]
    except KeyError:
        raise BadInput('unable to list; "archived" is 0, 1 or any') from None
