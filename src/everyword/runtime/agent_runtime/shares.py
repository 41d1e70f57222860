"""The shared links of one agent's conversation, for the agent's own code and handles."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.commands import CreateShare, RevokeShare
from ...core.state import State
from ...errors import Rejected
from ...events import ShareContent
from ...ids import AgentId, Millis, ShareId
from ...log.features import SHARES, is_usable
from ...principals import acting_for
from ...rows import ShareRecord
from ..directory import Directory

__all__ = ["SharesAccess"]


class SharesAccess:
    """The links of one conversation."""

    def __init__(self, directory: Directory, agent: AgentId) -> None:
        self._directory, self._agent = directory, agent

    async def create(
        self,
        share: ShareId,
        digest: str,
        *,
        frozen: bool,
        expires_at: Millis | None,
        shows: ShareContent,
        label: str | None,
    ) -> ShareRecord:
        """Create a link; return it once it is committed.

        Raises:
            Rejected: there is nothing to share, there are too many links, or a node runs that does not know them.
        """
        if not await is_usable(SHARES, self._directory.store.nodes):
            raise Rejected("unable to share the conversation; a node of an older release still runs. Try again later.")
        principal = acting_for()
        command = CreateShare(share, digest, frozen, expires_at, shows, label, principal)
        async with self._directory.attach(self._agent) as loaded:
            await loaded.actor.ask(command)
            found = await loaded.actor.inspect(lambda state: state.shares.get(share))
        if found is None:
            raise Rejected("unable to share the conversation; the link was revoked at the same time")
        return found

    async def revoke(self, share: ShareId) -> bool:
        """End a link; False if there is none with this id."""
        async with self._directory.attach(self._agent) as loaded:
            return bool(await loaded.actor.ask(RevokeShare(share, acting_for())))

    async def list(self) -> Sequence[ShareRecord]:
        """Return the links that were not revoked, oldest first."""

        def look(state: State) -> list[ShareRecord]:
            return sorted(state.shares.values(), key=lambda each: (each.created_at, each.id))

        async with self._directory.attach(self._agent) as loaded:
            return await loaded.actor.inspect(look)
