"""The approval that an answer is about, for `authorize`: read from the loaded agent, which is up to date."""

from __future__ import annotations

from ..agents.handles.approvals import Approval, approval_of
from ..core.state import State
from ..ids import AgentId, CallId, root_id
from ..messages.tool_calls import ApprovalAnswer, CallAnswer
from ..runtime.api.lists import ListedApproval
from ..runtime.directory import LoadedAgent
from .permissions import Permit, Reject

__all__ = ["refuse_answer"]


async def refuse_answer(permit: Permit, loaded: LoadedAgent, call: CallId, answer: CallAnswer) -> Reject | None:
    """Return why the client may not answer this call; None if it may."""
    approval = None
    if isinstance(answer, ApprovalAnswer):
        agent = loaded.actor.agent
        approval = await loaded.actor.inspect(lambda state: _asked(state, agent, call, permit))
    return await permit.refuse("answer", approval, {"call": call})


def _asked(state: State, agent: AgentId, call: CallId, permit: Permit) -> Approval | None:
    record = state.waiting.get(call)
    if record is None:
        return None
    owner = state.conversation.owner if state.conversation is not None and root_id(agent) == agent else None
    return approval_of(ListedApproval(agent, call, record, owner), permit.kind, permit.name)
