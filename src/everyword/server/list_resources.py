"""Requests for lists, by path: `/conversations` and `/approvals`."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

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
from ..principals import acting_as
from .approval_page import approval_page
from .approval_resources import ApprovalResources
from .conversation_resources import ConversationResources
from .list_access import ListAccess
from .list_requests import APPROVALS, CONVERSATIONS, ListCaller, check_name, place_of, wants_page
from .permissions import Action, Reject
from .rate_limited_receive import RateLimitedBody
from .refusals import BUSY, refusal_response
from .share_resources import ShareResources

if TYPE_CHECKING:
    from .app import Everyword

__all__ = ["ListResources"]

log = logging.getLogger("everyword.server")

Answer = Callable[[ListCaller], Awaitable[ASGIApp]]


class ListResources:
    """Answers requests for lists, for one app."""

    def __init__(self, app: Everyword) -> None:
        self._app, self._access = app, ListAccess(app)
        conversations, approvals = ConversationResources(app, self._access), ApprovalResources(app, self._access)
        shares, self._approvals = ShareResources(app), approvals
        # By resource, the number of parts below it, and a third part; each method with the action that `authorize` is
        # asked about first.
        self._answers: Mapping[tuple[Any, ...], Mapping[str, tuple[Action | None, Answer]]] = {
            (CONVERSATIONS, 0): {"GET": (None, conversations.list_conversations)},
            (CONVERSATIONS, 2): {
                "GET": ("list", conversations.get_conversation),
                "PATCH": ("manage", conversations.change_conversation),
                "DELETE": ("delete", conversations.delete_conversation),
            },
            (CONVERSATIONS, 3, "read"): {"POST": ("list", conversations.mark_read)},
            (CONVERSATIONS, 3, "export"): {"GET": ("read", conversations.export_conversation)},
            (CONVERSATIONS, 3, "shares"): {
                "GET": ("share", shares.list_shares),
                "POST": ("share", shares.create_share),
            },
            (CONVERSATIONS, 4, "shares"): {"DELETE": ("share", shares.revoke_share)},
            (APPROVALS, 0): {"GET": (None, approvals.list_approvals)},
            (APPROVALS, 1): {"GET": (None, approvals.get_approval), "POST": (None, approvals.answer_approval)},
        }

    async def answer(self, request: Request, body: RateLimitedBody) -> ASGIApp | None:
        """Return the response; None for a path that is not one of a list."""
        found = place_of(request)
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
                check_name(place[1])
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
            if answer == self._approvals.get_approval and wants_page(request):
                return approval_page(None, known)
            return refusal_response(known.status, known.reason)
        if known is None:
            text = "unable to answer; this app has no `authenticate(request)`, which says who the client is"
            return refusal_response(501, text)
        service = await self._app.service()
        body.count_for(service, known)
        caller = ListCaller(request, known, service, place)
        with acting_as(known.identity):
            refused = await self._access.refuse(caller, action)
            return await answer(caller) if refused is None else refusal_response(refused.status, refused.reason)
