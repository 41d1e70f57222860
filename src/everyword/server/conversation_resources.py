"""The HTTP resource `/conversations`, as JSON or live as server-sent events.

Every conversation that a client is shown or changes passes `authorize`, one by one.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import msgspec
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from ..agents import ConversationPage
from ..agents.handles.conversations import checked_metadata, checked_title
from ..errors import BadInput, ConversationNotFound
from ..ids import AgentId
from ..runtime.api.lists import ConversationStatus
from ..transcripts.embedding import MOST_IN_EXPORT
from ..wire.sse import KEEP_ALIVE, encode_sse
from .exported_files import exported_file
from .list_access import ListAccess
from .list_json import change_json, conversation_json, conversations_json
from .list_requests import ListCaller, limit_of
from .live_lists import ToldConversations, with_pauses
from .permissions import Action
from .refusals import refusal_response
from .visible_pages import visible_page

if TYPE_CHECKING:
    from ..transcripts.formats import TranscriptFormat
    from .app import Everyword

__all__ = ["ConversationResources"]


class ConversationResources:
    """Lists, changes, deletes and exports conversations, for one app."""

    def __init__(self, app: Everyword, access: ListAccess) -> None:
        self._app, self._access = app, access

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
            429: Too many searches in a minute (`Limits.searches_per_minute`).
            501: The app has no `authenticate(request)`.
        """
        asked = caller.request.query_params
        kind, limit = self._kind(asked.get("kind")), limit_of(asked.get("limit"))
        archived = _archived(asked.get("archived", "0"))
        if caller.wants_events:
            if (name := next((each for each in ("query", "status", "cursor") if each in asked), None)) is not None:
                what = "a search" if name == "query" else f'a list with "{name}"'
                raise BadInput(f'unable to watch {what}; ask for it as JSON, or leave out "{name}"')
            if (refused := await self._access.record_list(caller, is_live=True)) is not None:
                return refusal_response(refused.status, refused.reason)
            return self._access.stream(caller, self._watch_conversations(caller, kind, archived, limit))
        if "query" in asked and (wait := self._wait_to_search(caller)):
            text = "unable to search; too many searches came in a minute"
            return refusal_response(429, text, retry_after=f"{wait // 1000 + 1}")
        page = await self._page(
            caller,
            cursor=await self._access.cursors.open(asked.get("cursor"), caller.nodes),
            limit=limit,
            kind=kind,
            status=cast("ConversationStatus | None", asked.get("status")),
            archived=archived,
            query=asked.get("query"),
        )
        shown = [f"{each.kind}/{each.name}" for each in page.conversations]
        if (refused := await self._access.record_list(caller, shown=shown)) is not None:
            return refusal_response(refused.status, refused.reason)
        return JSONResponse(conversations_json(page), headers={"cache-control": "no-store"})

    @staticmethod
    def _wait_to_search(caller: ListCaller) -> int:
        """Return the milliseconds until the principal may search; 0 for at once, which counts."""
        service = caller.service
        return service.search_rate.wait_needed(caller.principal.id, service.directory.clock.now())

    async def _page(
        self, caller: ListCaller, *, limit: int, cursor: str | None = None, **query: Any
    ) -> ConversationPage:
        """Return a page of what the client may see."""
        # An excerpt is text of any message, and a search tells whether a text is there.
        needed: Sequence[Action] = ("list", "read") if query.get("query") is not None else ("list",)
        listed = partial(self._app.conversations._placed, principal=caller.owner, reader=caller.principal, **query)
        shown, more = await visible_page(
            lambda place, size: listed(cursor=place, limit=size),
            lambda each: self._access.may(caller, each.kind, each.name, *needed),
            lambda place: self._access.cursors.seal(place, caller.nodes),
            cursor=cursor,
            limit=limit,
        )
        return ConversationPage(shown, more)

    async def _watch_conversations(
        self, caller: ListCaller, kind: str | None, archived: bool | None, limit: int
    ) -> AsyncGenerator[bytes, None]:
        query: dict[str, Any] = {"kind": kind, "archived": archived, "limit": limit}
        changes = self._app.conversations.watch(principal=caller.owner, reader=caller.principal, **query)
        told = ToldConversations(lambda kind, name: self._access.may(caller, kind, name, "list"))
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
        if not await self._access.may(caller, kind, name, "list"):
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

    def _kind(self, given: str | None) -> str | None:
        if given is not None and self._app.class_of_kind(given) is None:
            raise BadInput(f"unable to find agents of kind {given[:80]!r}")
        return given


def _archived(given: str) -> bool | None:
    try:
        return {"0": False, "1": True, "any": None}[given]
    except KeyError:
        raise BadInput('unable to list; "archived" is 0, 1 or any') from None
