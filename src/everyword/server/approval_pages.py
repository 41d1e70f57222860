"""Pages of the approvals that one client may see: filled though `authorize` hides many, and live."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from ..agents import Approval, ApprovalPage, Approvals
from ..log.nodes import NodeMembership
from ..principals import Principal
from ..wire.sse import KEEP_ALIVE, encode_sse
from .list_cursors import SealedCursors
from .list_json import approvals_json
from .live_lists import with_pauses
from .visible_pages import visible_page

__all__ = ["ApprovalPages"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalPages:
    """The approvals of one client."""

    approvals: Approvals
    owner: Principal | None
    """Only those of its conversations; None for all."""
    may_see: Callable[[Approval], Awaitable[bool]]
    may_answer: Callable[[Approval], Awaitable[bool]]
    cursors: SealedCursors
    nodes: NodeMembership | None
    limit: int

    async def page(self, cursor: str | None = None, *, settled: bool = False) -> dict[str, Any]:
        """Return a page of what the client may see."""
        listed = partial(self.approvals._placed, principal=self.owner, settled=settled)
        seen, more = await visible_page(
            lambda place, size: listed(cursor=place, limit=size),
            self.may_see,
            lambda place: self.cursors.seal(place, self.nodes),
            cursor=cursor,
            limit=self.limit,
        )
        answerable = {each.id: await self.may_answer(each) for each in seen if each.status == "waiting"}
        return approvals_json(ApprovalPage(seen, more), answerable)

    async def live(self) -> AsyncGenerator[bytes, None]:
        """Yield the first page as events: now, and after each change that the client may see."""
        before: tuple[Any, bool] | None = None
        async with aclosing(self.approvals._changes()) as changes:
            async for change in with_pauses(changes):
                if change is None:
                    yield KEEP_ALIVE
                    continue
                shown = await self.page()
                told = shown["approvals"], shown["cursor"] is None
                if told != before:  # a change that is hidden must not be told by a list that is the same
                    yield encode_sse(msgspec.json.encode({"type": "list", **shown}))
                before = told
