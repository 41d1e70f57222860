"""What one agent's own code may ask of the runtime. Every request is a command in the agent's own mailbox."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from ...core.commands import CancelTurns, ClearConversation, PutMessages
from ...core.state import State
from ...errors import UsageError
from ...ids import AgentId, RequestId
from ...messages.message import UIMessage
from ...messages.readable_parts import keep_readable_parts
from ...principals import acting_for
from ..api.turns import Evaluate, TurnResult
from ..attachments import storing
from ..directory import Directory
from ..method_calls import MethodCalls
from ..turn_requests import continue_turn, run_turn
from .agent_tool_runs import AgentToolRunsAccess
from .attachments import AttachmentsAccess
from .conversation import ConversationAccess
from .fibers import FibersAccess
from .jobs import JobsAccess
from .shares import SharesAccess
from .state import StateAccess
from .storage import StorageAccess
from .sub_agents import SubAgentsAccess
from .submissions import SubmissionsAccess
from .versions import VersionsAccess, is_asking

__all__ = ["AgentRuntime"]


class AgentRuntime:
    """One agent's way to the runtime. Cheap to make; keeps nothing loaded between calls.

    Every method loads the agent if need be and waits until what it asked for is committed.
    """

    def __init__(self, directory: Directory, agent: AgentId) -> None:
        self._directory, self._agent = directory, agent
        self.state = StateAccess(directory, agent)
        """The agent's state."""

    @property
    def agent(self) -> AgentId:
        return self._directory.stored_ids.known(self._agent)

    def of(self, agent: AgentId) -> AgentRuntime:
        """Return the same for another agent."""
        return AgentRuntime(self._directory, agent)

    async def load(self) -> None:
        """Load the agent; it stays loaded while it is used, and a while longer."""
        async with self._directory.attach(self._agent):
            return

    async def destroy(self) -> None:
        """Delete the agent, all that it stored and every agent below it, in one transaction."""
        await self._directory.destroy(self._agent)

    # -- one object per topic ----------------------------------------------------------------------------

    @property
    def jobs(self) -> JobsAccess:
        """Queued and scheduled jobs."""
        return JobsAccess(self._directory, self._agent)

    @property
    def fibers(self) -> FibersAccess:
        """Background work."""
        return FibersAccess(self._directory, self._agent)

    @property
    def storage(self) -> StorageAccess:
        """The agent's own database, and streams that it manages."""
        return StorageAccess(self._directory, self._agent)

    @property
    def attachments(self) -> AttachmentsAccess:
        """Files of the conversation."""
        return AttachmentsAccess(self._directory, self._agent)

    @property
    def runs(self) -> AgentToolRunsAccess:
        """Sub-agents that work as tools of the agent."""
        return AgentToolRunsAccess(self._directory, self._agent)

    @property
    def sub_agents(self) -> SubAgentsAccess:
        """The agents below the agent."""
        return SubAgentsAccess(self._directory, self._agent)

    @property
    def submissions(self) -> SubmissionsAccess:
        """Turns that are accepted now and answered later."""
        return SubmissionsAccess(self._directory, self._agent)

    @property
    def versions(self) -> VersionsAccess:
        """The conversation with all its versions."""
        return VersionsAccess(self._directory, self._agent)

    @property
    def conversation(self) -> ConversationAccess:
        """What lists show of the conversation, and the approvals that it waits for."""
        return ConversationAccess(self._directory, self._agent)

    @property
    def shares(self) -> SharesAccess:
        """The shared links of the conversation."""
        return SharesAccess(self._directory, self._agent)

    @property
    def calls(self) -> MethodCalls:
        """Calls of other agents' methods, and of this one's by code that is not its own."""
        return MethodCalls(lambda: self._directory)

    # -- the conversation --------------------------------------------------------------------------------

    def messages(self) -> Sequence[UIMessage]:
        """Return the committed conversation.

        Raises:
            UsageError: the agent is not loaded; `load` it.
        """
        loaded = self._directory.peek(self._agent)
        if loaded is None:
            raise UsageError(f"unable to read the messages of {self._agent!r}; it is not loaded. Use a handle.")
        return [keep_readable_parts(UIMessage.decode(body)) for _, body, _ in loaded.reconciler.view.messages]

    async def run_turn(
        self, messages: Sequence[dict[str, Any]] | Evaluate, *, body: Any = None, request: RequestId | None = None
    ) -> TurnResult:
        """Store messages and answer them; return how the turn ended, whichever attempt or process ends it (R-10)."""
        return await run_turn(self._directory, self._agent, messages, body=body, request=request)

    async def continue_turn(self, *, body: Any = None) -> TurnResult | None:
        """Extend the last assistant message; None when the last message is not one."""
        return await continue_turn(self._directory, self._agent, body=body)

    async def put_messages(self, messages: Sequence[dict[str, Any]]) -> None:
        """Store messages without a turn."""
        async with self._directory.attach(self._agent) as loaded:
            sender = acting_for()
            async with storing(self._directory.attachments, loaded.actor.agent, messages, sender=sender) as moved:
                await loaded.actor.ask(PutMessages(list(moved), principal=sender))

    async def cancel(self, request: RequestId | None = None) -> None:
        """Stop one turn, or all."""
        async with self._directory.attach(self._agent) as loaded:
            await loaded.actor.insist(CancelTurns(request))

    async def clear(self) -> None:
        """Clear the conversation: stop every turn, and continue with an empty list of messages."""
        async with self._directory.attach(self._agent) as loaded:
            await loaded.actor.insist(ClearConversation())

    async def wait_until_idle(self) -> None:
        """Wait until no turn is open."""
        await self._wait_for(_is_idle)

    async def wait_until_stable(self, limit: float | None = None) -> bool:
        """Wait until no turn is open and no tool call waits for an answer; False after `limit` seconds."""
        try:
            async with asyncio.timeout(limit):
                await self._wait_for(lambda state: _is_idle(state) and not is_asking(state))
        except TimeoutError:
            return False
        return True

    async def _wait_for(self, fact: Callable[[State], bool]) -> None:
        async with self._directory.attach(self._agent) as loaded, loaded.subscribe() as subscription:
            while not await loaded.actor.inspect(fact):
                await subscription.next()


def _is_idle(state: State) -> bool:
    return not any(True for _ in state.message_turns())
