"""The approval that an answer is about, for `authorize`: read from the loaded agent, which is up to date."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from ..agents.handles.approvals import approval_of
from ..core.waiting_approvals import shown_request
from ..ids import CallId, MessageId, root_id
from ..messages.tool_calls import ApprovalAnswer, CallAnswer
from ..rows import ApprovalRecord
from ..runtime.api.lists import ListedApproval
from ..runtime.directory import LoadedAgent
from .permissions import Permit, Reject

__all__ = ["Asked", "check_answer"]

Asked = ApprovalRecord | UnsetType | None
"""The request that an answer is about; None if nobody is asked, UNSET for an answer that is no approval."""


async def check_answer(
    permit: Permit, loaded: LoadedAgent, call: CallId, answer: CallAnswer, message: MessageId | None = None
) -> Reject | Asked:
    """Return why the client may not answer this call; else the request that it may answer, for the command.

    `message` is the message that has the call, if the client says which.

    A command with a request changes nothing if the call is asked for in another way when it is decided: `authorize`
    may take its time, and the approvers may be others then.
    """
    if not isinstance(answer, ApprovalAnswer):
        return await permit.refuse("answer", None, {"call": call}) or UNSET
    record = await loaded.actor.inspect(lambda state: shown_request(state, call, message))
    approval = None
    if record is not None:
        listed = ListedApproval(loaded.actor.agent, call, record, await _owner(loaded))
        approval = approval_of(listed, permit.kind, permit.name)
    return await permit.refuse("answer", approval, {"call": call}) or record


async def _owner(loaded: LoadedAgent) -> str | None:
    """Return whose conversation it is: for a sub-agent that of its root agent, as in the inbox."""
    root, lists = root_id(loaded.actor.agent), loaded.store.lists
    if root == loaded.actor.agent:
        return await loaded.actor.inspect(lambda state: state.conversation.owner if state.conversation else None)
    found = await lists.find_conversation(root) if lists is not None else None
    return found.summary.owner if found is not None else None
