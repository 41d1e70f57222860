"""The HTTP resource of a conversation's shared links, for clients that `authorize` allows `share`."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from ..errors import BadInput
from .list_json import share_json
from .refusals import refusal_response

if TYPE_CHECKING:
    from .app import Everyword
    from .list_requests import ListCaller

__all__ = ["ShareResources"]

NO_STORE: Final = {"cache-control": "no-store"}

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "frozen": (bool,),
    "expiresIn": (int, float, type(None)),
    "reasoning": (bool,),
    "tools": (str,),
    "data": (bool,),
    "people": (bool,),
    "files": (bool,),
    "label": (str, type(None)),
}
"""The fields of a request for a link, and what each may be."""


class ShareResources:
    """Creates, lists and revokes links, for one app."""

    def __init__(self, app: Everyword) -> None:
        self._app = app

    async def list_shares(self, caller: ListCaller) -> ASGIApp:
        """List the links of a conversation that were not revoked, oldest first.

        Answers:
            200: `{"shares": [...]}`. They have no tokens: those are not stored.
            403: `authorize` refuses `share`, or the principal is read-only.
            404: The conversation has no messages.
        """
        found = await self._app.shares.list(*caller.conversation)
        return JSONResponse({"shares": [share_json(each) for each in found]}, headers=NO_STORE)

    async def create_share(self, caller: ListCaller) -> ASGIApp:
        """Create a link with which anyone may read the conversation.

        Body:
            frozen: true (the default) to show the conversation as it is now, false to follow it live.
            expiresIn: Seconds for which it works, 30 days by default; null for until it is revoked.
            reasoning: Whether readers see the model's reasoning; false by default.
            tools: `all`, `names` (the default) or `none`.
            data: Whether readers see data parts; false by default.
            people: Whether readers see names and ids of people; false by default.
            files: Whether readers see pictures and other files; true by default.
            label: A note of at most 200 characters, which readers do not see.
        Answers:
            201: The link. Only this answer has its `token` and its `path`.
            400: A field is not valid, or not known.
            403: `authorize` refuses `share`, or the principal is read-only.
            404: The conversation has no messages.
            409: It has a hundred links that have not expired.
        """
        given = _checked(await caller.body())
        if "expiresIn" in given:
            seconds = given.pop("expiresIn")
            try:
                given["expires"] = timedelta(seconds=seconds) if seconds is not None else None
            except (OverflowError, ValueError):
                raise BadInput('unable to share; "expiresIn" is too large') from None
        share = await self._app.shares.create(*caller.conversation, **given, by=caller.principal)
        path = f"{caller.request.scope.get('root_path', '')}{share.path}"
        return JSONResponse({**share_json(share), "token": share.token, "path": path}, 201, headers=NO_STORE)

    async def revoke_share(self, caller: ListCaller) -> ASGIApp:
        """End a link. Open pages are told, at every node.

        Answers:
            204: It was revoked.
            403: `authorize` refuses `share`, or the principal is read-only.
            404: The conversation has no such link.
        """
        if not await self._app.shares.revoke(*caller.conversation, caller.place[3], by=caller.principal):
            return refusal_response(404, "unable to find this link; it was revoked before, or never existed")
        return Response(status_code=204)


def _checked(body: dict[str, Any]) -> dict[str, Any]:
    for name, value in body.items():
        allowed = _TYPES.get(name)
        if allowed is None:
            raise BadInput(f"unable to share; {name[:80]!r} is not one of {', '.join(_TYPES)}")
        if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
            raise BadInput(f'unable to share; "{name}" is of the wrong type')
    return dict(body)
