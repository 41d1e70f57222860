"""`app.shares`: links with which anyone may read a conversation, without an account."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, get_args

import msgspec

from ...errors import BadInput, ConversationNotFound
from ...events import ShareContent, ToolDetail
from ...ids import AgentId, ShareId, agent_id, split_agent_id
from ...principals import Principal
from ...runtime.api.lists import Participant, ShareRecord
from ..kinds import agent_kind

if TYPE_CHECKING:
    from ..agent import Agent
    from .app_handle import AppHandle

__all__ = ["SHARED", "Share", "Shares", "digest_of", "share_of"]

SHARED: Final = "/shared"
"""The path under which shared pages are served."""

TOKEN_BYTES: Final = 24
LONGEST_LABEL: Final = 200
LONGEST_TIME: Final = timedelta(days=36500)
DEFAULT_TIME: Final = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Share:
    """A link to a conversation, for readers without an account. Times are seconds since 1970."""

    id: str
    """Names the link for `revoke`. It is no secret."""
    kind: str
    name: str
    is_frozen: bool
    """True if the link shows the conversation as it was when the link was created; False if it follows it live."""
    created_at: float
    expires_at: float | None
    """When the link expires; None for never."""
    is_expired: bool
    created_by: Participant | None
    label: str | None
    """The app's own note about it, which readers do not see."""
    reasoning: bool
    """Whether readers see the model's reasoning."""
    tools: ToolDetail
    """What readers see of tool calls: `all`, their `names` and how they ended, or `none`."""
    data: bool
    """Whether readers see data parts and other parts of the app's own."""
    people: bool
    """Whether readers see owner, participants and authors: names and ids."""
    files: bool
    """Whether readers see files: pictures, and links to other files."""
    token: str | None = field(default=None, repr=False)
    """The secret of the link: only in the value that `create` returns. It is not stored."""

    @property
    def path(self) -> str | None:
        """The path of the page, below wherever the app is mounted; None if the token is not known any more."""
        return f"{SHARED}/{self.token}" if self.token is not None else None


class Shares:
    """The shared links of an app. It is for trusted code: nothing here asks `authorize`. The HTTP resource does."""

    __slots__ = ("_app",)

    def __init__(self, app: AppHandle) -> None:
        self._app = app

    async def create(
        self,
        kind: type[Agent] | str,
        name: str,
        *,
        frozen: bool = True,
        expires: timedelta | None = DEFAULT_TIME,
        reasoning: bool = False,
        tools: ToolDetail = "names",
        data: bool = False,
        people: bool = False,
        files: bool = True,
        label: str | None = None,
        by: Principal | None = None,
    ) -> Share:
        """Create a link. It works as soon as this returns, and survives a crash from then on.

        Args:
            kind: The class of the agent, or its kind.
            name: The name of the agent.
            frozen: Show the conversation as it is now: answers that have ended, and nothing that comes later. False to
                show the branch that is shown to clients, live.
            expires: How long the link works; None for until it is revoked.
            reasoning: Show the model's reasoning.
            tools: Show `all` of tool calls, their `names` and how they ended, or `none`.
            data: Show data parts and other parts of the app's own.
            people: Show the owner, the participants, the authors of questions, and who approved a call.
            files: Show pictures, and link to other files. False to leave out all files, and their names.
            label: A note about the link for lists, at most 200 characters. Readers do not see it.
            by: The principal that creates it.

        Raises:
            ConversationNotFound: the conversation has no messages.
            BadInput: an argument is not valid.
            Rejected: the conversation has a hundred links that have not expired.
        """
        if tools not in get_args(ToolDetail):
            raise BadInput(f'unable to share; "tools" is one of {", ".join(get_args(ToolDetail))}')
        if expires is not None and not timedelta(0) < expires <= LONGEST_TIME:
            raise BadInput(f"unable to share for {expires}; give a positive time of at most 100 years, or None")
        if label is not None and len(label) > LONGEST_LABEL:
            raise BadInput(f"unable to share; a label has at most {LONGEST_LABEL} characters")
        handle = await self._found(kind, name)
        handle = handle.for_principal(by) if by is not None else handle
        token, now = secrets.token_urlsafe(TOKEN_BYTES), self._app._calls.lists.now()
        given = {
            "share": f"share_{secrets.token_urlsafe(9)}",
            "digest": digest_of(token),  # the token itself stays here: no other node, no log and no store gets it
            "frozen": frozen,
            "expires_at": now + round(expires.total_seconds() * 1000) if expires is not None else None,
            "shows": msgspec.to_builtins(ShareContent(reasoning, tools, data, people, files)),
            "label": label,
        }
        record = msgspec.convert(await handle._do("create_share", Any, given), ShareRecord)
        return self._shown(kind, name, record, token)

    async def list(self, kind: type[Agent] | str, name: str) -> Sequence[Share]:
        """Return the links of a conversation that were not revoked, oldest first. Expired ones may be among them.

        Raises:
            ConversationNotFound: the conversation has no messages.
        """
        handle = await self._found(kind, name)
        records = msgspec.convert(await handle._do("list_shares", Any), list[ShareRecord])
        return [self._shown(kind, name, each) for each in records]

    async def revoke(self, kind: type[Agent] | str, name: str, id: str, *, by: Principal | None = None) -> bool:
        """End a link: requests for it are refused once this returns, and open pages are told. False for an unknown id.

        Raises:
            ConversationNotFound: the conversation has no messages.
        """
        handle = await self._found(kind, name)
        handle = handle.for_principal(by) if by is not None else handle
        revoked: bool = await handle._do("revoke_share", bool, {"share": id})
        return revoked

    async def find(self, token: str) -> Share | None:
        """Return the link with this token; None if there is none, or it was revoked. It may have expired."""
        found = await self._app._calls.lists.find_share(digest_of(token))
        if found is None:
            return None
        kind, name = split_agent_id(found.agent)
        cls = self._app.class_of_kind(kind)
        return self._shown(cls, name, found.share, token) if cls is not None else None

    async def _found(self, kind: type[Agent] | str, name: str) -> Any:
        agent = self._agent(kind, name)
        if await self._app._calls.lists.find_conversation(agent) is None:
            raise ConversationNotFound(
                f"unable to find the conversation {name!r}; it does not exist or has no messages"
            )
        return self._app._handle_at(agent)

    def _agent(self, kind: type[Agent] | str, name: str) -> AgentId:
        return agent_id(agent_kind(self._app._class(kind)), name)

    def _shown(self, kind: type[Agent] | str, name: str, record: ShareRecord, token: str | None = None) -> Share:
        now = self._app._calls.lists.now()
        return share_of(record, agent_kind(self._app._class(kind)), name, is_expired=record.is_over(now), token=token)


def digest_of(token: str) -> str:
    """Return the digest under which a token is stored."""
    return hashlib.sha256(token.encode()).hexdigest()


def share_of(record: ShareRecord, kind: str, name: str, *, is_expired: bool, token: str | None = None) -> Share:
    """Return a link as apps see it."""
    return Share(
        id=ShareId(record.id),
        kind=kind,
        name=name,
        is_frozen=record.frozen,
        created_at=record.created_at / 1000,
        expires_at=None if record.expires_at is None else record.expires_at / 1000,
        is_expired=is_expired,
        created_by=record.created_by,
        label=record.label,
        reasoning=record.shows.reasoning,
        tools=record.shows.tools,
        data=record.shows.data,
        people=record.shows.people,
        files=record.shows.files,
        token=token,
    )
