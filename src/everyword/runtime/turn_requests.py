"""Asking for a turn from Python and waiting for its end, whichever attempt or process ends it (R-10)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ..core.commands import Command, ContinueTurn, Submit
from ..core.state import State
from ..errors import AgentGone, AgentStopped, LogError, OwnedElsewhere, Rejected
from ..events import Outcome, TurnAccepted, TurnKind, to_raw
from ..ids import AgentId, RequestId, TurnId
from ..messages.message import UIMessage
from ..principals import acting_for
from ..trace_context import current_trace
from .api.turns import Evaluate, TurnResult
from .attachments import storing
from .random_ids import random_message_id, random_request_id

if TYPE_CHECKING:
    from .directory import Directory, LoadedAgent

__all__ = ["continue_turn", "run_turn"]


async def run_turn(
    directory: Directory,
    agent: AgentId,
    messages: Sequence[dict[str, Any]] | Evaluate,
    *,
    body: Any = None,
    request: RequestId | None = None,
) -> TurnResult:
    """Store messages and answer them; return how the turn ended. A request id that was used before starts nothing."""
    if request is not None and (ended := await _ended_before(directory, agent, request)) is not None:
        return ended
    request = request if request is not None else random_request_id()
    command = Submit(
        request,
        random_message_id(),
        None,
        trusted=True,
        body=to_raw(body),
        principal=acting_for(),
        trace=current_trace(),
    )
    if callable(messages):
        return await _post_and_wait(directory, agent, command, request, _with_attachments(directory, agent, messages))
    stored_id = await directory.stored_ids.find(agent)
    async with storing(directory.attachments, stored_id, messages, sender=acting_for()) as moved:
        return await _post_and_wait(directory, agent, msgspec.structs.replace(command, messages=moved), request, None)


def _with_attachments(directory: Directory, agent: AgentId, evaluate: Evaluate) -> Evaluate:
    """Return the function with large `data:` URLs moved out of its messages.

    Their contents need not be held until the commit: nothing is swept while a turn is open.
    """

    async def evaluated(messages: Sequence[UIMessage]) -> Sequence[dict[str, Any]]:
        stored_id = await directory.stored_ids.find(agent)
        async with storing(directory.attachments, stored_id, await evaluate(messages), sender=acting_for()) as moved:
            return moved

    return evaluated


async def continue_turn(directory: Directory, agent: AgentId, *, body: Any = None) -> TurnResult | None:
    """Extend the last assistant message; None when the last message is not one."""
    request = random_request_id()
    command = ContinueTurn(request, body=to_raw(body), principal=acting_for())
    try:
        return await _post_and_wait(directory, agent, command, request, None)
    except AgentStopped:
        raise
    except Rejected:
        return None


async def _post_and_wait(
    directory: Directory, agent: AgentId, command: Command, request: RequestId, evaluate: Evaluate | None
) -> TurnResult:
    """Post the command, then wait for the end of its turn, across failures of the store."""
    while True:
        try:
            async with directory.attach(agent) as loaded:
                turn = await _accepted_turn(loaded, command, request, evaluate)
                result = await (await loaded.actor.inspect(_end_of(loaded, turn)))
                loaded.reconciler.turns.evaluations.pop(request, None)  # one that came too late to be called
                return result
        except (AgentGone, OwnedElsewhere):
            raise  # a new agent has the name now, and it was not asked; or another node is to be asked
        except (AgentStopped, LogError):
            if directory.is_closed:
                raise
            await directory.loaded_again(agent)


async def _ended_before(directory: Directory, agent: AgentId, request: RequestId) -> TurnResult | None:
    """Return how the turn of a request id ended, however long ago; None if it has not, or is unknown."""
    store, agent = directory.store, await directory.stored_ids.find(agent)
    row = await store.find_turn(agent, request)
    if row is None or row.is_open:
        return None
    bodies = (place.body for place in (await store.conversation(agent))[1] if place.node == row.node)
    body = next(bodies, None)
    return TurnResult(
        agent=agent,
        turn=row.turn,
        request=row.request,
        outcome=Outcome(row.status),
        error=row.error,
        message=UIMessage.decode(body) if body is not None else None,
        is_continuation=row.kind is TurnKind.CONTINUATION,
        reason=row.reason,
        usage=msgspec.json.decode(row.usage) if row.usage is not None else None,
    )


async def _accepted_turn(
    loaded: LoadedAgent, command: Command, request: RequestId, evaluate: Evaluate | None
) -> TurnId:
    if evaluate is not None:
        loaded.reconciler.turns.evaluations.setdefault(request, evaluate)
    events = await loaded.actor.ask(command)
    accepted = next((event for event in events if isinstance(event, TurnAccepted)), None)
    if accepted is not None:
        return accepted.turn
    return await loaded.actor.inspect(lambda state: state.requests[request])


def _end_of(loaded: LoadedAgent, turn: TurnId) -> Callable[[State], asyncio.Future[TurnResult]]:
    return lambda state: loaded.reconciler.waiters.wait(state, turn)
