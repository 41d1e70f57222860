"""The HTTP resource `/approvals`: the inbox, the record of settled calls, and answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import JSONResponse
from starlette.types import ASGIApp

from ..agents import Approval
from ..errors import BadInput
from .approval_page import approval_page
from .approval_pages import ApprovalPages
from .list_access import ListAccess
from .list_json import approval_json
from .list_requests import ListCaller, limit_of, wants_page
from .permissions import Reject
from .refusals import refusal_response

if TYPE_CHECKING:
    from .app import Everyword

__all__ = ["ApprovalResources"]


class ApprovalResources:
    """Lists, shows and answers approvals, for one app."""

    def __init__(self, app: Everyword, access: ListAccess) -> None:
        self._app, self._access = app, access

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
        pages = self._approval_pages(caller, limit_of(asked.get("limit")))
        if caller.wants_events:
            if (refused := await self._access.record_list(caller, is_live=True)) is not None:
                return refusal_response(refused.status, refused.reason)
            return self._access.stream(caller, pages.live())
        cursor = await self._access.cursors.open(asked.get("cursor"), caller.nodes)
        found = await pages.page(cursor, settled=asked.get("settled", "0") == "1")
        if (
            refused := await self._access.record_list(caller, shown=[each["id"] for each in found["approvals"]])
        ) is not None:
            return refusal_response(refused.status, refused.reason)
        return JSONResponse(found, headers={"cache-control": "no-store"})

    def _approval_pages(self, caller: ListCaller, limit: int) -> ApprovalPages:
        async def may_answer(each: Approval) -> bool:
            return await self._refused(caller, each) is None

        return ApprovalPages(
            approvals=self._app.approvals,
            owner=caller.owner,
            may_see=lambda each: self._access.may(caller, each.kind, each.name, "list"),
            may_answer=may_answer,
            cursors=self._access.cursors,
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
        is_page = wants_page(caller.request)
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
        permit = await self._access.permit(caller, approval.kind, approval.name)
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
            if not wants_page(caller.request):
                raise
            return unknown  # a mail program may have cut the link: its reader gets a page that says so
        permit = await self._access.permit(caller, approval.kind, approval.name) if approval is not None else unknown
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
        permit = await self._access.permit(caller, approval.kind, approval.name)
        return permit if isinstance(permit, Reject) else await permit.decide("answer", approval)
