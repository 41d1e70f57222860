"""Pages of the approvals that one client may see: filled though `authorize` hides many, and live."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from ..agents import Approval, ApprovalPage, Approvals
from ..log.nodes import NodeMembership
from ..principals import Principal
from ..wire.sse import KEEP_ALIVE, encode_sse
from .list_cursors import SealedCursors
from .list_json import approvals_json
from .live_lists import with_pauses

__all__ = ["ApprovalPages", "most_queries"]

MOST_LOOKED_AT: Final = 1000
"""Entries that one request looks at to fill a page, if `authorize` hides most of them."""

MOST_QUERIES: Final = 20
"""Pages of the store that one request reads for that."""


def most_queries(limit: int) -> int:
    """Return how many pages of the store one request may read to fill a page of `limit` entries."""
    return min(MOST_QUERIES, max(MOST_LOOKED_AT // limit, 1))


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
        """Return a page of what the client may see. If that is little, the page has less, and a cursor."""
        seen: list[Approval] = []
        may_see_last = True
        for _ in range(most_queries(self.limit)):
            page = await self.approvals.list(principal=self.owner, settled=settled, cursor=cursor, limit=self.limit)
            allowed = [await self.may_see(each) for each in page.approvals]
            seen += [each for each, may_see in zip(page.approvals, allowed, strict=True) if may_see]
            cursor, may_see_last = page.cursor, not allowed or allowed[-1]
            if len(seen) >= self.limit or cursor is None:
                break
        if cursor is not None and not may_see_last:
            cursor = await self.cursors.seal(cursor, self.nodes)
        answerable = {each.id: await self.may_answer(each) for each in seen if each.status == "waiting"}
        # A page may be longer than asked for: what was looked at is not looked at again.
        return approvals_json(ApprovalPage(seen, cursor), answerable)

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
